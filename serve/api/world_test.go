package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/serve/anthropic"
	"mm-abi.org/mm/serve/api"
	"mm-abi.org/mm/serve/ollama"
	"mm-abi.org/mm/serve/openai"
)

// scripted answers by the last text of a request.
type scripted struct {
	blocked chan struct{} // receives a value when an answer to "block" starts
	release chan struct{} // closed to end these answers
	ended   atomic.Int64  // answers to "block" that ended with their context
	last    atomic.Value  // the last runner.Request
}

func newScripted() *scripted {
	return &scripted{blocked: make(chan struct{}, 1000), release: make(chan struct{})}
}

func (s *scripted) Load(context.Context) error { return nil }
func (s *scripted) Build() *builds.Build {
	return &builds.Build{Assembly: &builds.Assembly{Name: "m", License: "MIT", Core: builds.Part{Name: "core"}}, Digest: "sha256:1"}
}

// Count counts the bytes of the texts.
func (s *scripted) Count(_ context.Context, req runner.Request) (n int, err error) {
	s.last.Store(req)
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += len(p.Text)
		}
	}
	return n, nil
}

func (s *scripted) Answer(ctx context.Context, req runner.Request, emit func(string) error) (*runner.Answer, error) {
	s.last.Store(req)
	text := ""
	for _, m := range append(req.Messages, talk.Message{Parts: req.Inputs}) {
		for _, p := range m.Parts {
			if p.Type == abi.Text {
				text = p.Text
			}
		}
	}
	if req.Thought.Mode != talk.ThinkDefault && !req.Thought.Lenient && text == "plain" {
		return nil, &talk.ThoughtError{Why: "the model does not reason"}
	}
	a := &runner.Answer{Stop: runtimes.StopEnd, Timings: runner.Timings{Prompt: 12, Reused: 8, Generated: 5, FirstToken: time.Millisecond, Generate: time.Millisecond}}
	if req.Prompted != nil {
		req.Prompted(12, 8)
	}
	write := func(texts ...string) (*runner.Answer, error) {
		for _, t := range texts {
			a.Text, a.Tokens = a.Text+t, append(a.Tokens, 1)
			if err := emit(t); err != nil {
				return a, err
			}
		}
		return a, nil
	}
	switch {
	case req.Preferences.Grammar != nil:
		for _, t := range []string{`{"name":"w","arguments":{"c":"Paris"}}`, `{"age":36}`, `{}`} {
			if req.Preferences.Grammar.Holds(t) {
				return write(t)
			}
		}
		return nil, errors.New("no text of the script is in the grammar")
	case text == "block":
		if _, err := write("Hi"); err != nil {
			return a, err
		}
		s.blocked <- struct{}{}
		select {
		case <-s.release:
			return write(" there")
		case <-ctx.Done():
			s.ended.Add(1)
			return a, ctx.Err()
		}
	case text == "full":
		return nil, fmt.Errorf("reading: %w", runtimes.ErrFull)
	case text == "think" && req.Reasoned != nil:
		a.Reasoning, a.Timings.Reasoned = "Hm.", 2
		if err := req.Reasoned("Hm."); err != nil {
			return a, err
		}
	case text == "rethink" && req.Reasoned != nil:
		a.Reasoning = "Hm."
		if _, err := write("Well"); err != nil {
			return a, err
		}
		if err := req.Reasoned("Hm."); err != nil {
			return a, err
		}
	case text == "break":
		if _, err := write("Hi"); err != nil {
			return a, err
		}
		return a, errors.New("the engine broke")
	case text == "call":
		a.Calls, a.Stop = []talk.Call{{Name: "w", Arguments: json.RawMessage(`{"c":"Paris"}`)}, {Name: "w", Arguments: json.RawMessage(`{"c":"Rome"}`)}}, runner.StopCall
		return a, nil
	}
	if len(req.Preferences.Stop) > 0 {
		a.Stop, a.StopText = runner.StopWord, req.Preferences.Stop[0]
	}
	if req.Preferences.MaxTokens == 1 {
		a.Stop = runtimes.StopLength
		return write("Hi")
	}
	return write("Hi", " there")
}

// world is a server with a scripted model.
func world(t testing.TB, change func(*api.Options)) (*api.Server, *scripted) {
	t.Helper()
	m := newScripted()
	n := byte(0)
	opt := api.Options{
		Models: []api.Model{{Names: []string{"m:1.0.0", "m"}, Answerer: m}}, Version: "1.2.3",
		Now: func() time.Time { return time.Unix(1_000_000, 0) },
		Random: func(b []byte) {
			clear(b)
			b[len(b)-1] = n
		},
	}
	if change != nil {
		change(&opt)
	}
	s, err := api.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	openai.Mount(s)
	anthropic.Mount(s)
	ollama.Mount(s)
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, m
}

// request returns a request with a JSON body.
func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// do sends a request to a server and checks the answer against the document.
func do(t testing.TB, s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	described(t, r, w)
	return w
}

// described checks a response against the OpenAPI document.
func described(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	doc, err := schemas.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	path := r.URL.Path
	if strings.HasPrefix(path, "/v1/models/") {
		path = "/v1/models/{id}"
	}
	item, ok := doc["paths"].(map[string]any)[path].(map[string]any)
	if !ok {
		return
	}
	op, ok := item[strings.ToLower(r.Method)].(map[string]any)
	if !ok {
		if w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusForbidden {
			t.Errorf("%s %s: got %d, not described", r.Method, path, w.Code)
		}
		return
	}
	response, ok := op["responses"].(map[string]any)[fmt.Sprint(w.Code)].(map[string]any)
	if !ok {
		t.Errorf("%s %s: status %d is not described: %s", r.Method, path, w.Code, w.Body)
		return
	}
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	content, ok := response["content"].(map[string]any)[kind].(map[string]any)
	if !ok {
		t.Errorf("%s %s: type %q of status %d is not described", r.Method, path, kind, w.Code)
		return
	}
	if kind != "application/json" {
		return
	}
	ref, _ := content["schema"].(map[string]any)["$ref"].(string)
	dec := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s %s: %v", r.Method, path, err)
	}
	if err := compiled(t, doc, ref).Validate(v); err != nil {
		t.Errorf("%s %s: %d: %#v\n%s", r.Method, path, w.Code, err, w.Body)
	}
}

// compiled compiles a schema of the document.
func compiled(t testing.TB, doc map[string]any, ref string) *jsonschema.Schema {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	if err := c.AddResource("openapi.json", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("openapi.json" + ref)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve serves over TCP until the test ends.
func serve(t *testing.T, s *api.Server) *httptest.Server {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h
}

// post sends a body over TCP.
func post(ctx context.Context, url, body string) (status int, text string, header http.Header, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), resp.Header, err
}

// chatBody returns a chat of one text.
func chatBody(text, more string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]%s}`, text, more)
}
