package suite

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// The results hold the pictures of the questions and the calls of the answers; a changed
// picture is another question for the cache. A picture has at most MaxMedium bytes.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("docs.jsonl", `{"q": "which?", "a": "red", "p": "one.PNG"}`)
	task := write("t.yaml", "task: seen\ndataset_path: docs.jsonl\ntest_split: test\noutput_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\ndoc_to_image: p\nmetadata: {tools: true}\n")
	picture := write("one.PNG", "first")
	cache := Cache{Dir: filepath.Join(dir, "cache"), Model: "m"}
	once := func(want bool) *Outcome {
		t.Helper()
		o, kept, err := cache.Ask(t.Context(), load(t, Options{}, task)[0], func() (Model, error) { return caller{}, nil }, RunOptions{})
		if err != nil || kept != want {
			t.Fatalf("kept %v, %v", kept, err)
		}
		return o
	}
	first, again := once(false), once(true)
	if first.Data != again.Data || first.Data == load(t, Options{}, task)[0].digest {
		t.Errorf("got data %s and %s", first.Data, again.Data)
	}
	out := filepath.Join(dir, "out")
	if err := NewResults(Source{}, []*Outcome{again}, nil).Write(out, []*Outcome{again}); err != nil {
		t.Fatal(err)
	}
	r, list := ReadRun(out)
	if list.Failed() {
		t.Fatal(list)
	}
	s := r.Samples("seen")[0]
	if len(s.Media) != 1 || s.Media[0].Kind != "image" || filepath.Ext(s.Media[0].File) != ".png" || len(s.Calls) != 1 || s.Calls[0].Name != "calc" || s.Calls[0].Answer != "4" {
		t.Fatalf("got %+v", s)
	}
	if data, err := os.ReadFile(filepath.Join(r.Dir, filepath.FromSlash(s.Media[0].File))); err != nil || string(data) != "first" {
		t.Errorf("got %q, %v", data, err)
	}
	write("one.PNG", "second")
	if o := once(false); o.Data == first.Data {
		t.Error("another picture has the same digest")
	}
	if err := NewResults(Source{}, []*Outcome{first}, nil).Write(out, []*Outcome{first}); err == nil {
		t.Error("got no error for a picture that changed during the run")
	}
	for size, ok := range map[int64]bool{MaxMedium: true, MaxMedium + 1: false} { // MaxMedium
		if err := os.Truncate(picture, size); err != nil {
			t.Fatal(err)
		}
		if _, _, err := load(t, Options{}, task)[0].recorded(); (err == nil) != ok {
			t.Errorf("%d bytes: got %v", size, err)
		}
	}
}

// caller calls a tool and answers.
type caller struct{ parrot }

func (caller) Generate(_ context.Context, p Prompt) (string, error) {
	if p.Tools {
		p.Trace(Called{Name: "calc", Arguments: json.RawMessage(`{"x":2}`), Answer: "4"})
	}
	return "red", nil
}

// tooled answers with a call.
type tooled struct{ letters }

func (tooled) Answer(_ context.Context, req runner.Request, _ func(string) error) (*runner.Answer, error) {
	if req.Plain || req.ToolsAllowed != nil {
		return &runner.Answer{Text: "no tools"}, nil
	}
	return &runner.Answer{Text: "4", Called: []runner.CallRecord{{Call: talk.Call{Name: "calc", Arguments: json.RawMessage("{bad")}, Line: "4"}}}, nil
}

// With tools a question is a turn of a conversation in which all skills may be called.
func TestLocalTools(t *testing.T) {
	l := &Local{scorer: &tooled{}, most: 9, prefix: 1}
	var calls []Called
	got, err := l.Generate(t.Context(), Prompt{Text: "q", Tools: true, Trace: func(c Called) { calls = append(calls, c) }})
	if err != nil || got != "4" || len(calls) != 1 || string(calls[0].Arguments) != `"{bad"` {
		t.Errorf("got %q, %+v, %v", got, calls, err)
	}
	if got, _ := l.Generate(t.Context(), Prompt{Text: "q"}); got != "no tools" {
		t.Errorf("got %q", got)
	}
}
