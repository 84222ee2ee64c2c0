package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// build answers requests with a fixed answer.
type build struct {
	asked runner.Request
	err   error
}

func (b *build) Answer(_ context.Context, req runner.Request, emit func(string) error) (*runner.Answer, error) {
	b.asked = req
	if b.err != nil {
		return nil, b.err
	}
	for _, piece := range []string{"one ", "two"} {
		if err := emit(piece); err != nil {
			return nil, err
		}
	}
	return &runner.Answer{
		Text: "one two.", Confidence: new(0.25), Withheld: "a cat", Reasoning: "think", Stop: runtimes.StopEnd, Timings: runner.Timings{Prompt: 5, Reused: 2, Generated: 3},
		Called: []runner.CallRecord{{Call: talk.Call{Name: "calc", Arguments: json.RawMessage(`{"x":1}`)}, Line: `{"y":2}`}},
		Made:   []runner.Made{{Modality: abi.Image, Data: []byte("PNG")}, {Modality: abi.Audio, Data: []byte("WAV")}},
	}, nil
}

func (b *build) Load(context.Context) error { return nil }

func (b *build) Build() *builds.Build {
	return &builds.Build{Assembly: &builds.Assembly{Name: "chat", Version: "1.0.0"}}
}

// post sends a body to a server over b.
func post(t *testing.T, b *build, body string) *httptest.ResponseRecorder {
	t.Helper()
	s, err := New(Options{Models: []Model{{Names: []string{"chat"}, Answerer: b}}})
	if err != nil {
		t.Fatal(err)
	}
	MountInfer(s)
	r := httptest.NewRequest("POST", "http://127.0.0.1/infer", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestInfer(t *testing.T) {
	b := &build{}
	w := post(t, b, `{"inputs":[{"type":"text","text":"hi"},{"type":"image","data":"AAEC"}],"preferences":{"max_tokens":7,"cot":true},"tools_allowed":["calc"],"outputs":["text","image"]}`)
	var got inferAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	want := inferAnswer{
		Build: "chat@1.0.0", Text: "one two.", Certainty: Certainty{new(0.25), "a cat"}, Reasoning: "think", Stop: "end", Usage: inferUsage{Prompt: 5, Cached: 2, Generated: 3},
		Called:  []runner.CallRecord{{Call: talk.Call{Name: "calc", Arguments: json.RawMessage(`{"x":1}`)}, Line: `{"y":2}`}},
		Outputs: []inferOutput{{abi.Image, "image/png", []byte("PNG")}, {abi.Audio, "audio/wav", []byte("WAV")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a := b.asked; len(a.Inputs) != 2 || a.Preferences.MaxTokens != 7 || !a.Preferences.CoT || len(a.ToolsAllowed) != 1 || len(a.Outputs) != 2 {
		t.Errorf("asked %+v", a)
	}
}

func TestInferStream(t *testing.T) {
	w := post(t, &build{}, `{"stream":true,"inputs":[{"type":"text","text":"hi"}]}`)
	var names []string
	text := ""
	for event := range strings.SplitSeq(strings.TrimSpace(w.Body.String()), "\n\n") {
		name, data, _ := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		names = append(names, name)
		var v struct{ Text string }
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatalf("%s: %v", event, err)
		}
		if name == "text" {
			text += v.Text
		}
	}
	if diff := cmp.Diff([]string{"text", "text", "text", "reasoning", "tool", "output", "output", "done"}, names); diff != "" || text != "one two." {
		t.Errorf("text %q, events (-want +got):\n%s", text, diff)
	}
}

func TestInferRefusals(t *testing.T) {
	for _, c := range []struct {
		name, body, want string
		status           int
		err              error
	}{
		{"path", `{"inputs":[{"type":"image","path":"/etc/passwd"}]}`, "inputs[0].path", 400, nil},
		{"path in a turn", `{"messages":[{"role":"user","parts":[{"type":"image","path":"x"}]}]}`, "path", 400, nil},
		{"asset path", `{"inputs":[{"type":"text","text":"x"}],"assets":[{"name":"a","path":"x"}]}`, "assets[0].path", 400, nil},
		{"unknown field", `{"inputs":[{"type":"text","text":"x"}],"max_tokens":3}`, "max_tokens", 400, nil},
		{"nothing", `{}`, "inputs: missing", 400, nil},
		{"both", `{"inputs":[{"type":"text"}],"messages":[{"role":"user"}]}`, "exclude", 400, nil},
		{"build", `{"build":"other","inputs":[{"type":"text","text":"x"}]}`, "unknown model", 404, nil},
		{"no JSON", `{`, "JSON", 400, nil},
		{"bytes that no decoder reads", `{"inputs":[{"type":"image","data":"AAEC"}]}`, "not a picture", 400, errors.New("not a picture")},
		{"fault of the server", `{"inputs":[{"type":"text","text":"x"}]}`, "disk", 500, errors.New("disk")},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := post(t, &build{err: c.err}, c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("got %d %s, want %d with %q", w.Code, w.Body, c.status, c.want)
			}
		})
	}
}

func FuzzInfer(f *testing.F) {
	f.Add(`{"inputs":[{"type":"text","text":"x"}],"stream":true}`)
	f.Add(`{"messages":[{"role":"user","parts":[{"type":"audio","data":"AA=="}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var b inferBody
		_ = json.Unmarshal([]byte(text), &b)
	})
}
