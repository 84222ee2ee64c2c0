package card

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// benchmarked returns the results with the benchmark that change sets on the task choose.
func benchmarked(t *testing.T, metadata any) ([]byte, error) {
	t.Helper()
	var d map[string]any
	if err := json.Unmarshal(results(t), &d); err != nil {
		t.Fatal(err)
	}
	d["configs"].(map[string]any)["choose"].(map[string]any)["metadata"] = metadata
	return json.Marshal(d)
}

// hubTask is a benchmark with every field.
func hubTask() map[string]any {
	return map[string]any{"id": "team/choose", "task_id": "default", "metric": "acc,none", "revision": strings.Repeat("0a", 20)}
}

// The value of a benchmark's file is that of the signed statement, with all digits, and a
// task without a benchmark has no file.
func TestEvalResults(t *testing.T) {
	data, err := benchmarked(t, map[string]any{"eval_results": hubTask()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	predicate, err := r.Predicate(nil)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := Parse(predicate)
	if err != nil {
		t.Fatal(err)
	}
	c := &Card{Digest: "sha256:1", Evaluations: []Signed{{list[0], "me", false}}}
	c.Evaluations[0].Tasks[0].Figures[0].Value = 1e-7
	files := c.EvalResults()
	if len(files) != 1 {
		t.Fatalf("got %v, want one file", files)
	}
	var got []map[string]any
	if err := yaml.Unmarshal(files["team--choose--default.yaml"], &got); err != nil {
		t.Fatal(err)
	}
	notes := got[0]["notes"].(string)
	for _, want := range []string{"acc,none; n 4; 0.04558726080970055 to 0.6993581574175981 (Wilson, 95 %); choose, 1-shot; suite sha256:", "; engine core; manifest sha256:1; signed by me"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes: got %q, want %q", notes, want)
		}
	}
	delete(got[0], "notes")
	want := []map[string]any{{"dataset": map[string]any{"id": "team/choose", "task_id": "default", "revision": strings.Repeat("0a", 20)}, "value": 1e-7}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// A part of the questions has no entry, and the card states so.
	c.Evaluations[0].Tasks[0].Original = 5
	if files := c.EvalResults(); len(files) != 0 {
		t.Errorf("got %v of 4 of 5 questions", files)
	}
	if text := string(c.Markdown()); !strings.Contains(text, "Not in .eval\\_results: choose of team/choose asked 4 of 5 questions.") && !strings.Contains(text, "Not in .eval_results: choose of team/choose asked 4 of 5 questions.") {
		t.Errorf("the card does not name the result that is left out:\n%s", text)
	}
}

// A benchmark is refused if it is malformed, or if several figures could be meant.
func TestBenchmarkFaults(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(b map[string]any)
	}{
		{"good", "", func(map[string]any) {}},
		{"no revision", "", func(b map[string]any) { delete(b, "revision") }},
		{"id", "got id", func(b map[string]any) { b["id"] = "choose" }},
		{"path", "got id", func(b map[string]any) { b["id"] = "../x" }},
		{"longest", "", func(b map[string]any) { b["id"] = "o/" + strings.Repeat("x", 96) }},
		{"too long", "got id", func(b map[string]any) { b["id"] = "o/" + strings.Repeat("x", 97) }},
		{"task", "got task_id", func(b map[string]any) { b["task_id"] = "a/b" }},
		{"no task", "got task_id", func(b map[string]any) { delete(b, "task_id") }},
		{"revision", "got revision", func(b map[string]any) { b["revision"] = "main" }},
		{"no metric", "want one of acc,none, acc_norm,none", func(b map[string]any) { delete(b, "metric") }},
		{"other metric", `got metric "f1,none"`, func(b map[string]any) { b["metric"] = "f1,none" }},
		{"a number", "metadata.eval_results", func(b map[string]any) { b["id"] = 5 }},
	} {
		b := hubTask()
		c.change(b)
		data, err := benchmarked(t, map[string]any{"eval_results": b})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Read(data); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// Numbers are numbers in YAML 1.1, whose floats need a point before an exponent.
func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{0.25: "0.25", 0: "0", 1: "1", 1e-7: "1.0e-07", 1.5e-7: "1.5e-07", 1e21: "1.0e+21", -2e-9: "-2.0e-09"} {
		if got := Number(x); got != want {
			t.Errorf("%g: got %s, want %s", x, got, want)
		}
	}
}
