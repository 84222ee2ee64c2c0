package card

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Type is the predicate type of evaluations: the test result of in-toto, v0.1.
const Type = "https://in-toto.io/attestation/test-result/v0.1"

// The values of a test result.
const (
	passed = "PASSED"
	warned = "WARNED" // no limit was set
	failed = "FAILED"
)

// testResult is the predicate. Its fields are those of in-toto's protocol buffers; what
// these have no field for is an annotation of a resource in its configuration.
type testResult struct {
	Result        string     `json:"result"`
	Configuration []resource `json:"configuration"`
	Passed        []string   `json:"passedTests,omitempty"`
	Warned        []string   `json:"warnedTests,omitempty"`
	Failed        []string   `json:"failedTests,omitempty"`
}

// resource is a resource descriptor of in-toto.
type resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	Annotations json.RawMessage   `json:"annotations,omitempty"`
}

// note holds the annotations of a task.
type note struct {
	Engine   string   `json:"engine"`
	Model    string   `json:"model,omitempty"`
	Version  string   `json:"version,omitempty"`
	Data     string   `json:"data,omitempty"`
	Prompts  string   `json:"prompts,omitempty"`
	Shots    int      `json:"shots"`
	Original int      `json:"original"`
	Cut      int      `json:"cut,omitempty"`
	Figures  []Figure `json:"figures"`

	Benchmark *Benchmark `json:"benchmark,omitempty"`
}

// Predicate returns the statement's predicate; kept names the limits that the figures
// keep. Without limits the result is WARNED.
func (e Evaluation) Predicate(kept []string) ([]byte, error) {
	p := testResult{Result: passed, Passed: kept}
	if len(kept) == 0 {
		p.Result = warned
	}
	for _, t := range e.Tasks {
		notes, err := json.Marshal(note{e.Engine, e.Model, t.Version, t.Data, t.Prompts, t.Shots, t.Original, t.Cut, t.Figures, t.Benchmark})
		if err != nil {
			return nil, err
		}
		p.Configuration = append(p.Configuration, resource{Name: t.Name, Digest: map[string]string{"sha256": strings.TrimPrefix(t.Suite, "sha256:")}, Annotations: notes})
		if p.Result == warned {
			for _, f := range t.Figures {
				p.Warned = append(p.Warned, t.Name+"/"+f.Name())
			}
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, err
	}
	data := bytes.TrimSpace(out.Bytes())
	return data, Check(data)
}

// Check reports the faults of a test result. That of another program may have no figures.
func Check(data []byte) error {
	_, _, err := parse(data)
	return err
}

// Parse returns the evaluations of a test result, one for each engine, and whether a limit
// was missed. That of another program has none.
func Parse(data []byte) (list []Evaluation, missed bool, err error) { return parse(data) }

func parse(data []byte) (list []Evaluation, missed bool, err error) {
	var p testResult
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, false, fmt.Errorf("test result: %w", err)
	}
	if !slices.Contains([]string{passed, warned, failed}, p.Result) {
		return nil, false, fmt.Errorf("result: got %.40q, want %s, %s or %s", p.Result, passed, warned, failed)
	}
	if p.Result == passed && len(p.Failed) > 0 {
		return nil, false, fmt.Errorf("result: got %s with %d failed tests", passed, len(p.Failed))
	}
	if len(p.Configuration) == 0 {
		return nil, false, errors.New("configuration: none")
	}
	at := map[string]int{}
	for i, r := range p.Configuration {
		if r.Name == "" && r.URI == "" && len(r.Digest) == 0 {
			return nil, false, fmt.Errorf("configuration[%d]: want a name, a URI or a digest", i)
		}
		n, err := r.note()
		if err != nil {
			return nil, false, fmt.Errorf("configuration[%d]: annotations: %w", i, err)
		}
		if n == nil {
			continue // of another program
		}
		key := n.Engine + "\n" + n.Model
		if _, ok := at[key]; !ok {
			at[key], list = len(list), append(list, Evaluation{Model: n.Model, Engine: n.Engine})
		}
		e := &list[at[key]]
		e.Tasks = append(e.Tasks, Task{r.Name, n.Version, prefixed(r.Digest["sha256"]), n.Data, n.Prompts, n.Shots, n.Original, n.Cut, n.Figures, n.Benchmark})
	}
	var faults []error
	for _, e := range list {
		faults = append(faults, e.check())
	}
	return list, p.Result == failed, errors.Join(faults...)
}

// note returns the annotations of a task, or nil if another program wrote the resource.
func (r resource) note() (*note, error) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(r.Annotations, &keys) != nil || keys["figures"] == nil {
		return nil, nil
	}
	n := new(note)
	return n, json.Unmarshal(r.Annotations, n)
}
