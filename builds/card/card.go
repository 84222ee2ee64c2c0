// Package card holds evaluations as evidence: it reads the results of mm eval suite,
// writes and checks the in-toto statement of them, judges them by the demands of a trust
// file, and renders model cards.
//
// Every figure has its number of questions, its interval, the digest of the suite and the
// engine. A figure that is absent is reported as unknown, never left out.
package card

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// The limits of an evaluation.
const (
	// MaxResults bounds the file of results in bytes.
	MaxResults = 16 << 20
	// maxFigures bounds the figures of one evaluation.
	maxFigures = 1024
	// maxName bounds the name of a task or a metric.
	maxName = 256
)

// Evaluation is a measurement of one artifact.
type Evaluation struct {
	Model  string `json:"model,omitempty"` // as the user named it
	Engine string `json:"engine"`
	Tasks  []Task `json:"tasks"`
}

// Task is one task of a suite with its figures.
type Task struct {
	Name     string   `json:"name"`
	Version  string   `json:"version,omitempty"`
	Suite    string   `json:"suite"`             // digest of the task's configuration
	Data     string   `json:"data,omitempty"`    // digest of the documents
	Prompts  string   `json:"prompts,omitempty"` // digest of the prompts
	Shots    int      `json:"shots"`
	Original int      `json:"original"`      // documents of the task; N of them were asked
	Cut      int      `json:"cut,omitempty"` // questions whose start did not fit the context
	Figures  []Figure `json:"figures"`

	Benchmark *Benchmark `json:"benchmark,omitempty"` // of a model hub
}

// Figure is a metric with its interval.
type Figure struct {
	Metric   string  `json:"metric"`
	Filter   string  `json:"filter"`
	Value    float64 `json:"value"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Method   string  `json:"method"` // of the interval
	N        int     `json:"n"`
	Clusters int     `json:"clusters,omitempty"`
	Higher   bool    `json:"higher_is_better"`
}

// Name returns the metric and the filter, as results write them.
func (f Figure) Name() string { return f.Metric + "," + f.Filter }

// Results is an evaluation with the digest of the measured artifact.
type Results struct {
	Evaluation
	Digest string // of the artifact, or of the index that it was chosen from
	Target string // of an index
}

// document holds the keys of results.json that evidence needs.
type document struct {
	Results   map[string]map[string]json.RawMessage `json:"results"`
	Configs   map[string]json.RawMessage            `json:"configs"`
	Versions  map[string]any                        `json:"versions"`
	Shots     map[string]int                        `json:"n-shot"`
	Higher    map[string]map[string]bool            `json:"higher_is_better"`
	Counts    map[string]count                      `json:"n-samples"`
	Hashes    map[string]string                     `json:"task_hashes"`
	Intervals map[string]map[string]interval        `json:"intervals"`
	MM        struct {
		Model, Digest, Engine, Target string
		Data                          map[string]string
		Cut                           map[string]int
	} `json:"mm"`
}

type count struct {
	Original int `json:"original"`
}

type interval struct {
	Low      *float64 `json:"low"`
	High     *float64 `json:"high"`
	Method   string   `json:"method"`
	N        int      `json:"n"`
	Clusters int      `json:"clusters"`
}

// Read reads the results of mm eval suite. Results of other programs have no digest of
// the artifact and no intervals, and are refused.
func Read(data []byte) (*Results, error) {
	if len(data) > MaxResults {
		return nil, fmt.Errorf("results too large: got %d bytes, want at most %d", len(data), MaxResults)
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	r := &Results{Evaluation: Evaluation{Model: d.MM.Model, Engine: d.MM.Engine}, Digest: d.MM.Digest, Target: d.MM.Target}
	if r.Digest == "" {
		return nil, errors.New("mm.digest: missing: want results of mm eval suite, which name the artifact")
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(d.Results)) {
		t, err := d.task(name)
		if err != nil {
			faults = append(faults, err)
		}
		r.Tasks = append(r.Tasks, t)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return r, r.check()
}

// task returns one task of the results.
func (d *document) task(name string) (Task, error) {
	t := Task{
		Name: name, Shots: d.Shots[name], Original: d.Counts[name].Original, Cut: d.MM.Cut[name],
		Data: prefixed(d.MM.Data[name]), Prompts: prefixed(d.Hashes[name]),
	}
	if v := d.Versions[name]; v != nil {
		t.Version = fmt.Sprint(v)
	}
	var config bytes.Buffer
	if err := json.Compact(&config, d.Configs[name]); err != nil || config.Len() == 0 {
		return t, fmt.Errorf("configs.%s: missing", name)
	}
	var err error
	if t.Benchmark, err = benchmarkOf(config.Bytes()); err != nil {
		return t, fmt.Errorf("configs.%s: %w", name, err)
	}
	sum := sha256.Sum256(config.Bytes())
	t.Suite = prefixed(hex.EncodeToString(sum[:]))
	for _, key := range slices.Sorted(maps.Keys(d.Intervals[name])) {
		i := d.Intervals[name][key]
		var value float64
		if err := json.Unmarshal(d.Results[name][key], &value); err != nil {
			return t, fmt.Errorf("results.%s.%s: want a number: %w", name, key, err)
		}
		if i.Low == nil || i.High == nil {
			return t, fmt.Errorf("intervals.%s.%s: low or high is missing", name, key)
		}
		metric, filter, _ := strings.Cut(key, ",")
		t.Figures = append(t.Figures, Figure{
			Metric: metric, Filter: filter, Value: value, Low: *i.Low, High: *i.High, Method: i.Method, N: i.N, Clusters: i.Clusters, Higher: d.Higher[name][metric],
		})
	}
	return t, nil
}

// prefixed returns hex digits of SHA-256 as a digest.
func prefixed(digits string) string {
	if digits == "" {
		return ""
	}
	return "sha256:" + digits
}

// check reports the faults of an evaluation.
func (e Evaluation) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if e.Engine == "" {
		fault("engine: missing")
	}
	if len(e.Tasks) == 0 {
		fault("tasks: none")
	}
	n := 0
	names := map[string]bool{}
	for _, t := range e.Tasks {
		if t.Name == "" || len(t.Name) > maxName || names[t.Name] {
			fault("task %.40q: want a name of at most %d bytes, once", t.Name, maxName)
		}
		names[t.Name] = true
		for what, digest := range map[string]string{"suite": t.Suite, "data": t.Data, "prompts": t.Prompts} {
			if digest == "" && what != "suite" {
				continue
			}
			if digits, ok := strings.CutPrefix(digest, "sha256:"); !ok || !isHex(digits) {
				fault("task %s: %s: got %.40q, want a digest", t.Name, what, digest)
			}
		}
		if t.Shots < 0 || t.Original < 0 || t.Cut < 0 {
			fault("task %s: a negative number", t.Name)
		}
		if len(t.Figures) == 0 {
			fault("task %s: no figures", t.Name)
		}
		for _, f := range t.Figures {
			if err := f.check(); err != nil {
				fault("task %s: %w", t.Name, err)
			}
		}
		if err := t.checkBenchmark(); err != nil {
			fault("task %s: %w", t.Name, err)
		}
		n += len(t.Figures)
	}
	if n > maxFigures {
		return fmt.Errorf("got %d figures, limit %d", n, maxFigures)
	}
	return errors.Join(faults...)
}

// isHex reports whether s has the digits of a SHA-256.
func isHex(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*sha256.Size && s == strings.ToLower(s)
}

func (f Figure) check() error {
	switch {
	case f.Metric == "" || f.Filter == "" || len(f.Name()) > maxName:
		return fmt.Errorf("figure %.40q: want METRIC,FILTER of at most %d bytes", f.Name(), maxName)
	case f.N < 1:
		return fmt.Errorf("figure %s: got n %d, want at least 1", f.Name(), f.N)
	case f.Method == "":
		return fmt.Errorf("figure %s: the method of the interval is missing", f.Name())
	case f.Clusters < 0 || f.Clusters > f.N:
		return fmt.Errorf("figure %s: got %d clusters of %d questions", f.Name(), f.Clusters, f.N)
	}
	for _, x := range []float64{f.Value, f.Low, f.High} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("figure %s: got %v, want a number", f.Name(), x)
		}
	}
	if f.Low > f.High {
		return fmt.Errorf("figure %s: got the interval %v to %v", f.Name(), f.Low, f.High)
	}
	return nil
}
