package suite

import (
	"encoding/json"
	"fmt"
	"regexp"

	"mm-abi.org/mm/eval/metric"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
)

// The output types of tasks.
const (
	Likelihood = "loglikelihood"
	Rolling    = "loglikelihood_rolling"
	Choice     = "multiple_choice"
	Generate   = "generate_until"
)

// spec holds the keys of a task file. Keys without a field here have no effect on mm:
// tag, task_alias, should_decontaminate and its query.
type spec struct {
	Task       string          `json:"task"`
	Alias      string          `json:"task_alias"`
	Path       string          `json:"dataset_path"`
	Kwargs     datasetKwargs   `json:"dataset_kwargs"`
	Files      json.RawMessage `json:"data_files"`
	Training   string          `json:"training_split"`
	Validation string          `json:"validation_split"`
	Test       string          `json:"test_split"`
	Fewshot    string          `json:"fewshot_split"`

	Text   json.RawMessage `json:"doc_to_text"`
	Target json.RawMessage `json:"doc_to_target"`
	Choice json.RawMessage `json:"doc_to_choice"`
	Image  json.RawMessage `json:"doc_to_image"`
	Audio  json.RawMessage `json:"doc_to_audio"`

	Output      string          `json:"output_type"`
	Description string          `json:"description"`
	TargetDelim *string         `json:"target_delimiter"`
	ShotDelim   *string         `json:"fewshot_delimiter"`
	Prefix      string          `json:"gen_prefix"`
	Shots       int             `json:"num_fewshot"`
	ShotConfig  shotSpec        `json:"fewshot_config"`
	Generation  *generationSpec `json:"generation_kwargs"`
	Metrics     []metricSpec    `json:"metric_list"`
	Filters     []filterSpec    `json:"filter_list"`
	Repeats     *int            `json:"repeats"`
	Metadata    struct {
		Version any    `json:"version"`
		Cluster string `json:"cluster"`
		Tools   bool   `json:"tools"`
	} `json:"metadata"`
}

type datasetKwargs struct {
	Files json.RawMessage `json:"data_files"`
}

type shotSpec struct {
	Sampler     string            `json:"sampler"`
	Split       string            `json:"split"`
	Samples     []json.RawMessage `json:"samples"`
	Text        json.RawMessage   `json:"doc_to_text"`
	Target      json.RawMessage   `json:"doc_to_target"`
	Choice      json.RawMessage   `json:"doc_to_choice"`
	TargetDelim *string           `json:"target_delimiter"`
	ShotDelim   *string           `json:"fewshot_delimiter"`
}

type generationSpec struct {
	Until       json.RawMessage `json:"until"`
	MaxTokens   *int            `json:"max_gen_toks"`
	MaxNew      *int            `json:"max_new_tokens"`
	Most        *int            `json:"max_tokens"`
	Sample      bool            `json:"do_sample"`
	Temperature float64         `json:"temperature"`
}

type metricSpec struct {
	Metric            string   `json:"metric"`
	Aggregation       string   `json:"aggregation"`
	Higher            *bool    `json:"higher_is_better"`
	IgnoreCase        bool     `json:"ignore_case"`
	IgnorePunctuation bool     `json:"ignore_punctuation"`
	IgnoreNumbers     bool     `json:"ignore_numbers"`
	Ignore            []string `json:"regexes_to_ignore"`
}

type filterSpec struct {
	Name  string `json:"name"`
	Steps []struct {
		Function string  `json:"function"`
		Pattern  *string `json:"regex_pattern"`
		Select   int     `json:"group_select"`
		Fallback *string `json:"fallback"`
	} `json:"filter"`
}

// Task is a task with its documents.
type Task struct {
	Name  string
	Shots int // examples before each question

	doc    *schemas.Document
	spec   spec
	config json.RawMessage // the keys, included ones too
	seed   uint32
	limit  int

	text, target, choice             *field // choice may be nil
	shotText, shotTarget, shotChoice *field
	description, prefix              *field
	image, audio                     *field // nil: none
	until                            []string
	maxTokens                        int
	filters                          []filter
	measures                         []measure

	columns  map[string]bool
	docs     []*item // to be asked
	original int     // documents before the limit
	pool     []*item // of examples
	same     bool    // the pool is the split of the documents
	digest   string  // of the data
	many     bool    // the target is a list of accepted ones
}

// defaultTokens is the harness's limit of generated tokens.
const defaultTokens = 256

// compile checks the keys and compiles templates, filters and metrics.
func (t *Task) compile(list *diag.List) {
	s := &t.spec
	if s.Output == "" {
		s.Output = Generate
	}
	if s.Repeats != nil && *s.Repeats != 1 {
		t.fault(list, diag.NotAllowed, "/repeats", fmt.Sprintf("repeats is %d, allowed: 1", *s.Repeats), "an answer is greedy: repeats are equal")
	}
	t.text = t.template(list, "/doc_to_text", s.Text)
	t.target = t.template(list, "/doc_to_target", s.Target)
	t.choice = t.template(list, "/doc_to_choice", s.Choice)
	t.image = t.template(list, "/doc_to_image", s.Image)
	t.audio = t.template(list, "/doc_to_audio", s.Audio)
	c := s.ShotConfig
	t.shotText, t.shotTarget, t.shotChoice = t.text, t.target, t.choice
	for _, f := range []struct {
		to  **field
		key string
		raw json.RawMessage
	}{{&t.shotText, "doc_to_text", c.Text}, {&t.shotTarget, "doc_to_target", c.Target}, {&t.shotChoice, "doc_to_choice", c.Choice}} {
		if own := t.template(list, "/fewshot_config/"+f.key, f.raw); own != nil {
			*f.to = own
		}
	}
	quoted := func(text string) json.RawMessage {
		if text == "" {
			return nil
		}
		raw, _ := json.Marshal(text)
		return raw
	}
	t.description = t.template(list, "/description", quoted(s.Description))
	t.prefix = t.template(list, "/gen_prefix", quoted(s.Prefix))
	for key, missing := range map[string]bool{"doc_to_text": t.text == nil && s.Output != Rolling, "doc_to_target": t.target == nil, "doc_to_choice": t.choice == nil && s.Output == Choice} {
		if missing {
			t.fault(list, diag.MissingKey, "", fmt.Sprintf("%q in the document", key), "output_type "+s.Output+" needs it")
		}
	}
	if (t.image != nil || t.audio != nil) && s.Output != Generate {
		t.fault(list, diag.NotAllowed, "/output_type", "output_type is "+s.Output+", allowed with an image or a sound: "+Generate, "")
	}
	t.generation(list)
	t.compileFilters(list)
	t.compileMetrics(list)
	list.Sort()
}

// generation checks the options of generated answers.
func (t *Task) generation(list *diag.List) {
	t.until, t.maxTokens = []string{t.shotDelim()}, defaultTokens
	g := t.spec.Generation
	if g == nil {
		return
	}
	if g.Sample && g.Temperature > 0 {
		t.fault(list, diag.NotAllowed, "/generation_kwargs/do_sample", "do_sample is true, allowed: false", "answers of an evaluation are greedy: the same build has the same score")
	}
	for _, n := range []*int{g.Most, g.MaxNew, g.MaxTokens} { // the last one counts
		if n != nil {
			t.maxTokens = *n
		}
	}
	var one string
	switch {
	case len(g.Until) == 0:
	case json.Unmarshal(g.Until, &one) == nil:
		t.until = []string{one}
	default:
		t.until = nil
		json.Unmarshal(g.Until, &t.until) // the schema has checked it
	}
}

func (t *Task) targetDelim() string { return or(t.spec.TargetDelim, " ") }
func (t *Task) shotDelim() string   { return or(t.spec.ShotDelim, "\n\n") }

// or returns the text that a pointer refers to, or a default.
func or(text *string, absent string) string {
	if text == nil {
		return absent
	}
	return *text
}

// measure is a metric of a task.
type measure struct {
	kind
	exact metric.Exact
}

// compileMetrics finds the metrics of a task, or the harness's defaults for its output.
func (t *Task) compileMetrics(list *diag.List) {
	all := t.spec.Metrics
	if all == nil {
		for _, name := range defaultMetrics(t.spec.Output) {
			all = append(all, metricSpec{Metric: name})
		}
	}
	for i, m := range all {
		at := fmt.Sprintf("/metric_list/%d", i)
		k, ok := kindOf(m.Metric, t.spec.Output)
		if !ok {
			t.fault(list, diag.SuiteMetric, at+"/metric", fmt.Sprintf("metric %q of %s tasks", m.Metric, t.spec.Output), "known: "+metricNames(t.spec.Output))
			continue
		}
		if m.Aggregation != "" && m.Aggregation != k.aggregation {
			t.fault(list, diag.SuiteMetric, at+"/aggregation", fmt.Sprintf("aggregation %q of %s", m.Aggregation, m.Metric), "mm aggregates it by "+k.aggregation)
		}
		if m.Higher != nil && *m.Higher != k.higher {
			t.fault(list, diag.SuiteMetric, at+"/higher_is_better", fmt.Sprintf("higher_is_better of %s is %v", m.Metric, *m.Higher), fmt.Sprintf("it is %v", k.higher))
		}
		one := measure{kind: k, exact: metric.Exact{IgnoreCase: m.IgnoreCase, IgnorePunctuation: m.IgnorePunctuation, IgnoreASCIIDigits: m.IgnoreNumbers}}
		for j, pattern := range m.Ignore {
			one.exact.Ignore = append(one.exact.Ignore, t.pattern(list, fmt.Sprintf("%s/regexes_to_ignore/%d", at, j), pattern))
		}
		t.measures = append(t.measures, one)
	}
}

// pattern compiles a pattern of Python.
func (t *Task) pattern(list *diag.List, key, pattern string) *regexp.Regexp {
	r, err := regexp.Compile(goPattern(pattern))
	if err != nil {
		t.fault(list, diag.SuiteFilter, key, fmt.Sprintf("pattern %q: %v", pattern, err), "patterns have no lookaround and no back references")
	}
	return r
}
