package suite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/eval/metric"
	"mm-abi.org/mm/internal/fsx"
)

// Source describes the measured model.
type Source struct {
	Model  string            `json:"model"`  // as the user names it
	Digest string            `json:"digest"` // of the build or the file
	Target string            `json:"target,omitempty"`
	Engine string            `json:"engine"`
	Facts  map[string]string `json:"facts,omitempty"`
}

// ResultsFile is the name of the results in their folder.
const ResultsFile = "results.json"

// Results is the document of results: the keys of lm-evaluation-harness, and intervals
// and mm, which are mm's own. It has no dates: equal runs write equal bytes.
type Results struct {
	Results   map[string]map[string]any        `json:"results"`
	Subtasks  map[string][]string              `json:"group_subtasks"`
	Configs   map[string]json.RawMessage       `json:"configs"`
	Versions  map[string]any                   `json:"versions"`
	Shots     map[string]int                   `json:"n-shot"`
	Higher    map[string]map[string]bool       `json:"higher_is_better"`
	Counts    map[string]Count                 `json:"n-samples"`
	Config    map[string]any                   `json:"config"`
	Source    string                           `json:"model_source"`
	Name      string                           `json:"model_name"`
	Hashes    map[string]string                `json:"task_hashes"`
	Intervals map[string]map[string]IntervalOf `json:"intervals"`
	MM        struct {
		Source
		Data  map[string]string `json:"data"`          // digests of the documents
		Cut   map[string]int    `json:"cut,omitempty"` // questions whose start did not fit
		Cache map[string]bool   `json:"-"`             // tasks from the cache
	} `json:"mm"`
}

// Count is the number of documents of a task.
type Count struct {
	Original  int `json:"original"`
	Effective int `json:"effective"`
}

// IntervalOf is the interval of a figure.
type IntervalOf struct {
	metric.Interval
	Method   string `json:"method"`
	N        int    `json:"n"`
	Clusters int    `json:"clusters,omitempty"`
}

// NewResults returns the document of outcomes.
func NewResults(source Source, outcomes []*Outcome, config map[string]any) *Results {
	r := &Results{
		Results: map[string]map[string]any{}, Subtasks: map[string][]string{}, Configs: map[string]json.RawMessage{}, Versions: map[string]any{},
		Shots: map[string]int{}, Higher: map[string]map[string]bool{}, Counts: map[string]Count{}, Config: config, Source: "mm", Name: source.Model,
		Hashes: map[string]string{}, Intervals: map[string]map[string]IntervalOf{},
	}
	r.MM.Source, r.MM.Data, r.MM.Cut = source, map[string]string{}, map[string]int{}
	for _, o := range outcomes {
		r.add(o)
	}
	return r
}

func (r *Results) add(o *Outcome) {
	n := 0
	row := map[string]any{"alias": o.Task}
	r.Higher[o.Task], r.Intervals[o.Task] = map[string]bool{}, map[string]IntervalOf{}
	for _, s := range o.Scores {
		key := s.Metric + "," + s.Filter
		row[key], row[s.Metric+"_stderr,"+s.Filter] = s.Value, any("N/A")
		if s.Error != nil {
			row[s.Metric+"_stderr,"+s.Filter] = *s.Error
		}
		r.Higher[o.Task][s.Metric] = s.Higher
		r.Intervals[o.Task][key] = IntervalOf{s.Interval, s.Method, s.N, s.Clusters}
		n = s.N
	}
	row["sample_len"] = n
	r.Results[o.Task], r.Subtasks[o.Task], r.Configs[o.Task], r.Versions[o.Task], r.Shots[o.Task] = row, []string{}, o.Config, o.Version, o.Shots
	r.Counts[o.Task], r.MM.Data[o.Task] = Count{o.Original, n}, o.Data
	if o.Cut > 0 {
		r.MM.Cut[o.Task] = o.Cut
	}
	sum := sha256.New()
	for _, s := range o.Samples {
		data, _ := json.Marshal(s.Arguments) // texts and numbers
		sum.Write(data)
	}
	r.Hashes[o.Task] = hex.EncodeToString(sum.Sum(nil))
}

// MarshalJSON writes the keys of the harness: a metric's numbers under its name.
func (s Sample) MarshalJSON() ([]byte, error) {
	arguments := map[string]map[string]any{}
	for i, args := range s.Arguments {
		one := map[string]any{}
		for j, a := range args {
			one[fmt.Sprintf("arg_%d", j)] = a
		}
		arguments[fmt.Sprintf("gen_args_%d", i)] = one
	}
	row := map[string]any{
		"doc_id": s.ID, "doc": s.Doc, "target": s.Target, "arguments": arguments, "resps": s.Answers, "filtered_resps": s.Filtered, "filter": s.Filter, "metrics": s.Names,
		"doc_hash": hash(s.Doc), "prompt_hash": hash([]byte(fmt.Sprint(s.Arguments[0][0]))), "target_hash": hash(s.Target),
	}
	if s.Calls != nil {
		row["tool_calls"] = s.Calls
	}
	if s.Media != nil {
		row["media"] = s.Media
	}
	for name, numbers := range s.Metrics {
		row[name] = numbers
		if len(numbers) == 1 {
			row[name] = numbers[0]
		}
	}
	return json.Marshal(row)
}

// UnmarshalJSON reads what comparisons need, which is the document, its prompt and the
// numbers of its metrics, and what dashboards show if it is there: answers, images, sounds
// and calls.
func (s *Sample) UnmarshalJSON(data []byte) error {
	var row map[string]json.RawMessage
	if err := json.Unmarshal(data, &row); err != nil {
		return err
	}
	for key, into := range map[string]any{"doc_id": &s.ID, "doc": &s.Doc, "target": &s.Target, "filter": &s.Filter, "metrics": &s.Names} {
		if err := json.Unmarshal(row[key], into); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	arguments := map[string]map[string]any{}
	if err := json.Unmarshal(row["arguments"], &arguments); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	for i := range len(arguments) {
		var args []any
		one := arguments[fmt.Sprintf("gen_args_%d", i)]
		for j := range len(one) {
			args = append(args, one[fmt.Sprintf("arg_%d", j)])
		}
		s.Arguments = append(s.Arguments, args)
	}
	json.Unmarshal(row["resps"], &s.Answers)
	json.Unmarshal(row["filtered_resps"], &s.Filtered)
	json.Unmarshal(row["media"], &s.Media)
	json.Unmarshal(row["tool_calls"], &s.Calls)
	s.Metrics = map[string][]float64{}
	for _, name := range s.Names {
		var x float64
		var numbers []float64
		if json.Unmarshal(row[name], &x) == nil {
			numbers = []float64{x}
		} else if err := json.Unmarshal(row[name], &numbers); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.Metrics[name] = numbers
	}
	return nil
}

// hash returns the SHA-256 of a value as hexadecimal digits.
func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// SamplesFile returns the name of the samples of a task in the folder of results.
func SamplesFile(task string) string { return "samples_" + task + ".jsonl" }

// Write writes the results and the samples of each task into a folder.
func (r *Results) Write(dir string, outcomes []*Outcome) error {
	if err := makeDir(dir); err != nil {
		return err
	}
	for _, o := range outcomes {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		for _, s := range o.Samples {
			if err := e.Encode(s); err != nil {
				return fmt.Errorf("samples of %s: %w", o.Task, err)
			}
		}
		if err := fsx.WriteFile(filepath.Join(dir, SamplesFile(o.Task)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if err := writeMedia(dir, outcomes); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return fsx.WriteFile(filepath.Join(dir, ResultsFile), append(data, '\n'), 0o644)
}

// Tasks returns the names of the tasks, sorted.
func (r *Results) Tasks() []string {
	var out []string
	for name := range r.Results {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
