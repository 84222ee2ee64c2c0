package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
)

// harness holds what lm-evaluation-harness 0.4.13 and Python 3.11 return: the SHA-256 of
// the first prompt of each document of testdata/tasks, and samples of random.Random. It
// is written by scripts/lm-eval.py.
func harness(t *testing.T) (h struct {
	Prompts map[string][]string
	Samples [][]json.RawMessage
}) {
	data, err := os.ReadFile("testdata/harness.json")
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func load(t *testing.T, opt Options, paths ...string) []*Task {
	t.Helper()
	tasks, list := Load(paths, opt)
	if list.Failed() {
		t.Fatal(list)
	}
	return tasks
}

// The prompts are the harness's, with the same few-shot examples.
func TestPrompts(t *testing.T) {
	want := harness(t).Prompts
	tasks := load(t, Options{Seed: DefaultSeed}, "testdata/tasks")
	if len(tasks) != len(want) {
		t.Fatalf("got %d tasks, want %d", len(tasks), len(want))
	}
	for _, task := range tasks {
		questions, err := task.prompts(task.docs)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, q := range questions {
			text := q.context
			if task.spec.Output == Rolling {
				text = q.rest[0]
			}
			got = append(got, hash([]byte(text)))
		}
		if d := cmp.Diff(want[task.Name], got); d != "" {
			t.Errorf("%s: %s", task.Name, d)
		}
	}
}

// A sampler draws as Python's does, call by call.
func TestSample(t *testing.T) {
	rnd := map[uint32]*twister{}
	for _, row := range harness(t).Samples {
		var seed uint32
		var n, k int
		var want []int
		for i, v := range []any{&seed, &n, &k, &want} {
			if err := json.Unmarshal(row[i], v); err != nil {
				t.Fatal(err)
			}
		}
		if rnd[seed] == nil {
			rnd[seed] = newTwister(seed)
		}
		if got := rnd[seed].sample(n, k); !slices.Equal(got, want) {
			t.Errorf("seed %d, %d of %d: got %v, want %v", seed, k, n, got, want)
		}
	}
}

// written writes a task with its documents and returns its path.
func written(t *testing.T, task string, docs ...string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "task.yaml")
	for name, text := range map[string]string{"task.yaml": task, "docs.jsonl": strings.Join(docs, "\n") + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

const local = "dataset_path: docs.jsonl\ntest_split: test\n"

// A task that asks a question and expects an answer.
const plainTask = "task: t\n" + local + "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: a\n"

// Each fault has its code, and a task file's position.
func TestFaults(t *testing.T) {
	const doc = `{"q": "one", "a": "1", "choices": ["1", "2"]}`
	for name, c := range map[string]struct {
		task string
		want diag.Code
	}{
		"unknown key":          {plainTask + "process_docs: x\n", diag.UnknownKey},
		"tag":                  {plainTask + "description: !mine x\n", diag.Tag},
		"Python":               {plainTask + "process_results: !function utils.results\n", diag.SuiteFunction},
		"Python in a template": {strings.Replace(plainTask, "'{{q}}'", "!function utils.text", 1), diag.SuiteFunction},
		"no name":              {strings.Replace(plainTask, "task: t\n", "", 1), diag.MissingKey},
		"no target":            {strings.Replace(plainTask, "doc_to_target: a\n", "", 1), diag.MissingKey},
		"no split":             {strings.Replace(plainTask, "test_split: test\n", "", 1), diag.MissingKey},
		"hub dataset":          {strings.Replace(plainTask, "docs.jsonl", "openai/gsm8k", 1), diag.SuiteData},
		"absent file":          {strings.Replace(plainTask, "docs.jsonl", "none.jsonl", 1), diag.SuiteData},
		"broken template":      {strings.Replace(plainTask, "{{q}}", "{{q", 1), diag.SuiteTemplate},
		"unknown column":       {strings.Replace(plainTask, "{{q}}", "{{other}}", 1), diag.SuiteTemplate},
		"unknown metric":       {plainTask + "metric_list: [{metric: ter}]\n", diag.SuiteMetric},
		"metric of choices":    {plainTask + "metric_list: [{metric: acc}]\n", diag.SuiteMetric},
		"other aggregation":    {plainTask + "metric_list: [{metric: exact_match, aggregation: median}]\n", diag.SuiteMetric},
		"wrong direction":      {plainTask + "metric_list: [{metric: exact_match, higher_is_better: false}]\n", diag.SuiteMetric},
		"unknown filter":       {plainTask + "filter_list: [{name: x, filter: [{function: custom}]}]\n", diag.SuiteFilter},
		"lookahead":            {plainTask + "filter_list: [{name: x, filter: [{function: regex, regex_pattern: 'a(?=b)'}]}]\n", diag.SuiteFilter},
		"sampling":             {plainTask + "generation_kwargs: {do_sample: true, temperature: 0.7}\n", diag.NotAllowed},
		"repeats":              {plainTask + "repeats: 2\n", diag.NotAllowed},
		"too many examples":    {plainTask + "num_fewshot: 2\nfewshot_split: test\n", diag.SuiteShots},
		"unknown sampler":      {plainTask + "num_fewshot: 0\nfewshot_split: test\nfewshot_config: {sampler: balanced}\n", ""},
		"unknown sampler used": {plainTask + "num_fewshot: 1\nfewshot_split: train\ntraining_split: train\nfewshot_config: {sampler: balanced}\n", diag.SuiteShots},
		"itself included":      {"include: task.yaml\n", diag.TooLarge},
		"no choices":           {strings.Replace(plainTask, "generate_until", "multiple_choice", 1), diag.MissingKey},
		"image scored":         {strings.Replace(plainTask, "generate_until", "multiple_choice", 1) + "doc_to_choice: choices\ndoc_to_image: q\n", diag.NotAllowed},
	} {
		path := written(t, c.task, doc)
		_, list := Load([]string{path}, Options{Seed: DefaultSeed})
		var codes []diag.Code
		for _, d := range list {
			codes = append(codes, d.Code)
			if d.Pos.File == "" {
				t.Errorf("%s: no file in %v", name, d)
			}
		}
		if c.want == "" && len(codes) > 0 || c.want != "" && !slices.Contains(codes, c.want) {
			t.Errorf("%s: got %v, want %s", name, list, c.want)
		}
	}
	path := written(t, plainTask, doc)
	if _, list := Load([]string{path, path}, Options{}); len(list) != 1 || list[0].Code != diag.SuiteTwice {
		t.Errorf("twice: got %v", list)
	}
	for _, bad := range []string{"[1]", "{", "3"} {
		if _, list := Load([]string{written(t, plainTask, bad)}, Options{}); len(list) != 1 || list[0].Code != diag.SuiteData {
			t.Errorf("document %s: got %v", bad, list)
		}
	}
	if _, list := Load([]string{t.TempDir()}, Options{}); len(list) != 1 || list[0].Code != diag.SuiteData {
		t.Errorf("empty folder: got %v", list)
	}
}

// parrot is a model with a fixed answer, or one for each prompt.
type parrot struct {
	text  string
	likes string // the continuation that it prefers
	err   error
	asked func(Prompt)
}

func (p parrot) Score(_ context.Context, _ string, rest []string) ([]Scored, error) {
	var out []Scored
	for _, r := range rest {
		s := Scored{LogProb: -float64(len(r))}
		if strings.TrimSpace(r) == p.likes {
			s = Scored{LogProb: -0.5, Greedy: true}
		}
		out = append(out, s)
	}
	return out, p.err
}
func (p parrot) Rolling(_ context.Context, text string) (float64, error) {
	return -float64(len(text)), p.err
}
func (p parrot) Generate(_ context.Context, q Prompt) (string, error) {
	if p.asked != nil {
		p.asked(q)
	}
	return p.text, p.err
}

// value returns a figure of an outcome.
func value(t *testing.T, o *Outcome, name, filter string) Score {
	t.Helper()
	for _, s := range o.Scores {
		if s.Metric == name && s.Filter == filter {
			return s
		}
	}
	t.Fatalf("no %s,%s in %v", name, filter, o.Scores)
	return Score{}
}

func ask(t *testing.T, task *Task, m Model) *Outcome {
	t.Helper()
	o, err := task.Ask(t.Context(), m, RunOptions{Parallel: 3})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Answers are filtered and judged: GSM8K's strict and flexible filters.
func TestGenerate(t *testing.T) {
	tasks := load(t, Options{Seed: DefaultSeed}, "testdata/tasks/sums.yaml")
	for _, c := range []struct {
		text             string
		strict, flexible float64
	}{{"7\n#### 7", 7, 7}, {"The answer is $7.", 0, 7}, {"#### 7 then 5", 7, 5}, {"none", 0, 0}} {
		o := ask(t, tasks[0], parrot{text: c.text, asked: func(p Prompt) {
			if p.MaxTokens != 40 || !slices.Equal(p.Until, []string{"Question:", "<|im_end|>"}) {
				t.Errorf("got %+v", p)
			}
		}})
		rate := map[float64]float64{}
		for _, d := range tasks[0].docs {
			var s string
			json.Unmarshal(d.fields["solution"], &s)
			var n float64
			fmt.Sscan(s[strings.Index(s, "#### ")+5:], &n)
			rate[n] += 1 / float64(len(tasks[0].docs))
		}
		for filter, want := range map[string]float64{"strict-match": rate[c.strict], "flexible-extract": rate[c.flexible]} {
			if got := value(t, o, "exact_match", filter); diff(got.Value, want) || got.N != 30 || got.Interval.Low > want || got.Interval.High < want {
				t.Errorf("%q, %s: got %+v, want %v", c.text, filter, got, want)
			}
		}
	}
}

func diff(a, b float64) bool { return a-b > 1e-9 || b-a > 1e-9 }

// Choices are compared by their likelihoods, with clusters of one subject.
func TestChoices(t *testing.T) {
	tasks := load(t, Options{Seed: DefaultSeed}, "testdata/tasks/colors.yaml")
	o := ask(t, tasks[0], parrot{likes: "white"})
	acc := value(t, o, "acc", "none")
	right := 0.0
	for _, d := range tasks[0].docs {
		var subject string
		json.Unmarshal(d.fields["subject"], &subject)
		right += truth(subject == "snow" || subject == "milk")
	}
	if right == 0 || acc.Value < right/60 || acc.Clusters != 12 || acc.Method != byClusters {
		t.Errorf("got %+v, want %v or more", acc, right/60)
	}
	if wide := acc.Interval.High - acc.Interval.Low; wide < 0.25 {
		t.Errorf("got an interval of %v, want more than that of 60 independent documents", wide)
	}
}

func TestRolling(t *testing.T) {
	task := load(t, Options{}, written(t, "task: t\n"+local+"output_type: loglikelihood_rolling\ndoc_to_target: '{{q}}'\n", `{"q": "a bé"}`, `{"q": "xyz"}`))[0]
	o := ask(t, task, parrot{})
	for name, want := range map[string]float64{"byte_perplexity": 2.718281828459045, "bits_per_byte": 1.4426950408889634, "word_perplexity": 14.391916095149892} {
		if got := value(t, o, name, "none"); diff(got.Value, want) {
			t.Errorf("%s: got %+v, want %v", name, got, want)
		}
	}
}

// Results are written in the harness's form, read again, and equal if they come from the
// cache.
func TestResults(t *testing.T) {
	tasks := load(t, Options{Seed: DefaultSeed}, "testdata/tasks")
	cache := Cache{Dir: filepath.Join(t.TempDir(), "cache"), Model: "m"}
	var folders []string
	for i := range 2 {
		var all []*Outcome
		for _, task := range tasks {
			o, kept, err := cache.Ask(t.Context(), task, func() (Model, error) { return parrot{text: "#### 5", likes: "white"}, nil }, RunOptions{})
			if err != nil || kept != (i == 1) {
				t.Fatalf("run %d: kept %v, %v", i, kept, err)
			}
			all = append(all, o)
		}
		dir := filepath.Join(t.TempDir(), "out")
		if err := NewResults(Source{Model: "m"}, all, nil).Write(dir, all); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, dir)
	}
	for _, name := range []string{ResultsFile, SamplesFile("mm_colors"), SamplesFile("mm_sums"), SamplesFile("mm_texts"), SamplesFile("mm_last_word")} {
		a, err := os.ReadFile(filepath.Join(folders[0], name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(folders[1], name)); err != nil || string(a) != string(b) {
			t.Errorf("%s from the cache differs, %v", name, err)
		}
	}
	run, list := ReadRun(folders[0])
	if list.Failed() {
		t.Fatal(list)
	}
	if n := len(run.samples["mm_sums"]); n != 60 {
		t.Errorf("got %d samples, want 60: two filters", n)
	}
	other := cache
	other.Model = "n"
	if _, kept, err := other.Ask(t.Context(), tasks[0], func() (Model, error) { return parrot{}, nil }, RunOptions{}); kept || err != nil {
		t.Errorf("another model: kept %v, %v", kept, err)
	}
	for _, opt := range []Options{{Seed: 1}, {Seed: DefaultSeed, Limit: 3}} {
		if _, kept, err := cache.Ask(t.Context(), load(t, opt, "testdata/tasks/colors.yaml")[0], func() (Model, error) { return parrot{}, nil }, RunOptions{}); kept || err != nil {
			t.Errorf("%+v: kept %v, %v", opt, kept, err)
		}
	}
}

// A fault of a model ends the run with the document named.
func TestFailure(t *testing.T) {
	broken := errors.New("broken")
	task := load(t, Options{Seed: DefaultSeed}, "testdata/tasks/sums.yaml")[0]
	if _, err := task.Ask(t.Context(), parrot{err: broken}, RunOptions{Parallel: 4}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "task mm_sums, document") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := task.Ask(ctx, parrot{}, RunOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A target outside the choices and a prompt that is too long are faults of the task file.
func TestDocumentFaults(t *testing.T) {
	choice := strings.Replace(plainTask, "generate_until", "multiple_choice", 1) + "doc_to_choice: choices\n"
	for name, c := range map[string]struct {
		task string
		m    Model
		want diag.Code
	}{
		"target": {choice, parrot{}, diag.SuiteDoc},
		"long":   {plainTask, parrot{err: fmt.Errorf("feeding: %w", runtimes.ErrFull)}, diag.SuiteLong},
	} {
		task := load(t, Options{}, written(t, c.task, `{"q": "one", "a": "3", "choices": ["1", "2"]}`))[0]
		_, err := task.Ask(t.Context(), c.m, RunOptions{})
		list, _ := diag.From(err)
		if len(list) != 1 || list[0].Code != c.want || list[0].Pos.File == "" {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// Paths of pictures and sounds are relative to the task file.
func TestMedia(t *testing.T) {
	for name, c := range map[string]struct {
		keys, doc string
		want      []string
	}{
		"a column":    {"doc_to_image: photo\n", `{"q": "x", "a": "y", "photo": "a.png"}`, []string{"image a.png"}},
		"two files":   {"doc_to_image: photo\n", `{"q": "x", "a": "y", "photo": ["a.png", "b.png"]}`, []string{"image a.png", "image b.png"}},
		"two columns": {"doc_to_image: [photo, other]\n", `{"q": "x", "a": "y", "photo": "a.png", "other": "b.png"}`, []string{"image a.png", "image b.png"}},
		"a template":  {"doc_to_audio: 'clips/{{q}}.wav'\n", `{"q": "x", "a": "y"}`, []string{"audio clips/x.wav"}},
	} {
		task := load(t, Options{}, written(t, plainTask+c.keys, c.doc))[0]
		var got []string
		ask(t, task, parrot{asked: func(p Prompt) {
			for _, m := range p.Media {
				rel, err := filepath.Rel(filepath.Dir(task.doc.File), m.Path)
				if err != nil {
					t.Error(err)
				}
				got = append(got, m.Kind+" "+filepath.ToSlash(rel))
			}
		}})
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	_, list := Load([]string{written(t, plainTask+"doc_to_image: photo\n", `{"q": "x", "a": "y", "photo": 3}`)}, Options{})
	if code(list) != diag.SuiteTemplate {
		t.Errorf("a number: got %v", list)
	}
}

// Tool calls, transcripts and captions are judged by their metrics.
func TestMetricsOfTasks(t *testing.T) {
	const tools = `{"q": "x", "function": [{"name": "f", "parameters": {"type": "dict", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}], "a": [{"f": {"a": [1, 2]}}]}`
	for _, c := range []struct {
		metric, doc, answer string
		want                float64
	}{
		{"tool_call", tools, `{"name": "f", "arguments": {"a": 2}}`, 1}, {"tool_call", tools, `{"name": "f", "arguments": {"a": 3}}`, 0}, {"tool_name", tools, `{"f": {"a": 3}}`, 1},
		{"tool_schema", tools, `{"f": {"a": 3}}`, 1}, {"tool_schema", tools, `{"f": {"b": 3}}`, 0}, {"tool_name", tools, "no", 0},
		{"wer", `{"q": "x", "a": "one two three four"}`, "one to three", 0.5}, {"cer", `{"q": "x", "a": "abcd"}`, "abce", 0.25},
		{"squad_f1", `{"q": "x", "a": ["red car", "blue"]}`, "a red bike", 0.5}, {"relaxed_accuracy", `{"q": "x", "a": "10"}`, " 10.4 ", 1}, {"anls", `{"q": "x", "a": "hello"}`, "hallo", 0.8},
		{"vqa_accuracy", `{"q": "x", "a": ["yes","yes","no","no","no","no","no","no","no","no"]}`, "Yes", 0.6}, {"rougeL", `{"q": "x", "a": "police killed the gunman"}`, "police kill the gunman", 0.75},
		{"exact_match", `{"q": "x", "a": 5}`, "5", 1}, {"exact_match", `{"q": "x", "a": true}`, "True", 1}, {"bleu", `{"q": "x", "a": "a b c d"}`, "a b c d", 100}, {"chrf++", `{"q": "x", "a": "a b"}`, "a b", 100},
		{"cider", `{"q": "x", "a": "a b c d"}`, "a b c d", 0},
	} {
		task := load(t, Options{}, written(t, plainTask+"metric_list: [{metric: "+c.metric+"}]\n", c.doc))[0]
		if got := value(t, ask(t, task, parrot{text: c.answer}), c.metric, "none"); diff(got.Value, c.want) {
			t.Errorf("%s of %q: got %v, want %v", c.metric, c.answer, got.Value, c.want)
		}
	}
}

// The calibration error compares the probability of the best choice with its truth.
func TestCalibrationOfTask(t *testing.T) {
	choice := strings.Replace(plainTask, "generate_until", "multiple_choice", 1) + "doc_to_choice: choices\nmetric_list: [{metric: ece}]\n"
	for gold, want := range map[string]float64{"1": 0.18242552380635635, "2": 0.8175744761936437} {
		task := load(t, Options{}, written(t, choice, `{"q": "one", "a": "`+gold+`", "choices": ["1", "2"]}`))[0]
		if got := value(t, ask(t, task, parrot{likes: "1"}), "ece", "none"); diff(got.Value, want) || got.Higher {
			t.Errorf("gold %s: got %v, want %v", gold, got.Value, want)
		}
	}
}

// The target is text, the index of a choice, or a list of either.
func TestGold(t *testing.T) {
	for _, c := range []struct {
		target, choices, doc string
		texts                []string
		indexes              []int
	}{
		{"a", "", `{"q": "x", "a": "5"}`, []string{"5"}, nil}, {"a", "", `{"q": "x", "a": 5}`, []string{"5"}, nil}, {"'{{a}}'", "", `{"q": "x", "a": 5}`, []string{"5"}, nil},
		{"a", "[u, v]", `{"q": "x", "a": 1}`, nil, []int{1}}, {"'{{a}}'", "[u, v]", `{"q": "x", "a": 1}`, nil, []int{1}}, {"a", "[u, v]", `{"q": "x", "a": "v"}`, []string{"v"}, nil},
		{"1", "[u, v]", `{"q": "x"}`, nil, []int{1}}, {"a", "[u, v]", `{"q": "x", "a": [0, 1]}`, nil, []int{0, 1}}, {"'{{a}}'", "", `{"q": "x", "a": ["u", "v"]}`, []string{"u", "v"}, nil},
		{"'[{{a}}'", "", `{"q": "x", "a": "u"}`, []string{"[u"}, nil}, {"'[{{a}}]'", "", `{"q": "x", "a": "u v"}`, []string{"[u v]"}, nil}, {"'+1'", "[u, v]", `{"q": "x"}`, []string{"+1"}, nil},
	} {
		text := strings.Replace(plainTask, "doc_to_target: a", "doc_to_target: "+c.target, 1)
		if c.choices != "" {
			text += "doc_to_choice: " + c.choices + "\n"
		}
		task := load(t, Options{}, written(t, text, c.doc))[0]
		g, err := task.goldOf(task.target, task.choice, task.docs[0])
		if err != nil || !slices.Equal(g.texts, c.texts) || !slices.Equal(g.indexes, c.indexes) {
			t.Errorf("%+v: got %+v, %v", c, g, err)
		}
	}
}

// Without fewshot_split, examples come from the training split, else from the
// validation split.
func TestPools(t *testing.T) {
	for name, c := range map[string]struct{ keys, want string }{
		"training":   {"training_split: train\nvalidation_split: val\n", "train1 ok\n\nq0"},
		"validation": {"validation_split: val\n", "val1 ok\n\nq0"},
		"own":        {"training_split: train\nfewshot_split: val\n", "val1 ok\n\nq0"},
		"samples":    {"training_split: train\nfewshot_config: {samples: [{q: s, a: ok}], sampler: first_n}\n", "s ok\n\nq0"},
		"delimiters": {"training_split: train\ntarget_delimiter: ' = '\nfewshot_delimiter: ' | '\ndescription: 'D: '\n", "D: train1 = ok | q0"},
		"a prefix":   {"training_split: train\ngen_prefix: 'A:'\n", "train1 A: ok\n\nq0 A:"},
	} {
		path := written(t, strings.Replace(plainTask, "dataset_path: docs.jsonl\n", "dataset_path: json\ndata_files: {test: docs.jsonl, train: train.jsonl, val: val.jsonl}\n", 1)+c.keys+"num_fewshot: 1\n", `{"q": "q0", "a": "ok"}`)
		for _, split := range []string{"train", "val"} {
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), split+".jsonl"), []byte(`[{"q": "`+split+`1", "a": "ok"}]`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		task := load(t, Options{Seed: DefaultSeed}, path)[0]
		q, err := task.prompts(task.docs)
		if err != nil || q[0].context != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, q[0].context, err, c.want)
		}
	}
}

// The standard error of a mean is the harness's; with clusters it is that of the draws.
func TestStandardError(t *testing.T) {
	k, _ := kindOf("acc", Choice)
	var items [][]float64
	var clusters []int
	for i := range 60 {
		items, clusters = append(items, one(truth(i < 43))), append(clusters, i/10)
	}
	alone := figure(k, items, nil)
	if diff(*alone.Error, 0.058668) && *alone.Error-0.058668 > 1e-6 || alone.Method != byWilson {
		t.Errorf("got %v, want 0.058668", *alone.Error)
	}
	if together := figure(k, items, clusters); *together.Error < 2**alone.Error || together.Method != byClusters || together.Clusters != 6 {
		t.Errorf("got %+v", together)
	}
	if single := figure(k, items[:1], nil); single.Error != nil {
		t.Errorf("got the error %v of one document", *single.Error)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(plainTask+"num_fewshot: 1\nfewshot_split: test\nfewshot_config: {sampler: first_n}\n", `{"q": "x", "a": ["y"]}`)
	f.Add(strings.Replace(plainTask, "generate_until", "multiple_choice", 1)+"doc_to_choice: \"{{['a', q]}}\"\n", `[{"q": "x", "a": 1}, {"q": null, "a": 0}]`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, task, docs string) {
		for name, text := range map[string]string{"task.yaml": task, "docs.jsonl": docs} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tasks, _ := Load([]string{filepath.Join(dir, "task.yaml")}, Options{Seed: 1, Limit: 9})
		for _, one := range tasks {
			one.Ask(t.Context(), parrot{text: "y"}, RunOptions{})
		}
	})
}

func FuzzSample(f *testing.F) {
	f.Add(`{"doc_id":0,"doc":{},"target":1,"filter":"none","metrics":["acc"],"arguments":{"gen_args_0":{"arg_0":"x"}},"acc":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		var a, b Sample
		if json.Unmarshal([]byte(text), &a) != nil || len(a.Arguments) == 0 || len(a.Arguments[0]) == 0 {
			return
		}
		if data, err := json.Marshal(a); err == nil && json.Unmarshal(data, &b) != nil {
			t.Errorf("%s is not read again", data)
		}
	})
}
