package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// TestPeers sends requests of clients that other servers answer wrongly.
func TestPeers(t *testing.T) {
	turn := `"messages":[{"role":"user","content":"hi"}]`
	open := `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"He"}]`
	format := `,"format":{"type":"object","properties":{"age":{"type":"integer"}}}`
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       string // in the answer
	}{
		"a name with :latest":         {"/api/chat", `{"model":"m:latest","stream":false,` + turn + `}`, 200, `"model":"m:1.0.0"`},
		"a version with :latest":      {"/api/chat", `{"model":"m:1.0.0:latest","stream":false,` + turn + `}`, 200, ``},
		"another tag":                 {"/api/chat", `{"model":"m:newest",` + turn + `}`, 404, `m:newest`},
		"keep_alive":                  {"/api/chat", `{"keep_alive":"5m","stream":false,` + turn + `}`, 200, `"done_reason":"stop"`},
		"keep_alive in seconds":       {"/api/generate", `{"keep_alive":-1}`, 200, `"done_reason":"load"`},
		"keep_alive of text":          {"/api/generate", `{"keep_alive":"0"}`, 400, `keep_alive`},
		"unloading":                   {"/api/chat", `{"keep_alive":0}`, 400, `keep_alive: got 0`},
		"a malformed keep_alive":      {"/api/generate", `{"prompt":"hi","keep_alive":"soon"}`, 400, `keep_alive`},
		"a system turn in between":    {"/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"system","content":"Be brief."}]}`, 200, ``},
		"the stop string":             {"/v1/messages", `{"max_tokens":9,"stop_sequences":["END"],` + turn + `}`, 200, `"stop_reason":"stop_sequence","stop_sequence":"END"`},
		"the stop string, streamed":   {"/v1/messages", `{"stream":true,"max_tokens":9,"stop_sequences":["END"],` + turn + `}`, 200, `"stop_sequence":"END"`},
		"no stop string":              {"/v1/messages", `{"max_tokens":9,` + turn + `}`, 200, `"stop_sequence":null`},
		"an open turn and a format":   {"/api/chat", `{` + open + format + `}`, 400, `goes on with the last turn`},
		"a format":                    {"/api/chat", `{"stream":false,` + turn + format + `}`, 200, `age`},
		"tools that OpenAI runs":      {"/v1/responses", `{"input":"hi","tools":[{"type":"web_search"},{"type":"function","name":"w"},{"type":"custom","name":"patch"}]}`, 200, `"tools":[{"type":"function","name":"w","description":"","parameters":null}]`},
		"only tools that OpenAI runs": {"/v1/responses", `{"input":"hi","tool_choice":"required","tools":[{"type":"web_search"}]}`, 400, `tool_choice`},
		"prompts, each with choices":  {"/v1/completions", `{"prompt":["a","b","c"],"n":2,"temperature":1}`, 200, `"usage":{"prompt_tokens":36,"completion_tokens":30,"total_tokens":66,"prompt_tokens_details":{"cached_tokens":24}`},
		"choices of a chat":           {"/v1/chat/completions", chatBody("hi", `,"n":3`), 200, `"usage":{"prompt_tokens":12,"completion_tokens":15,`},
	} {
		s, _ := world(t, nil)
		if w := do(t, s, request("POST", c.path, c.body)); w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: got %d %s, want %d %s", name, w.Code, w.Body, c.status, c.want)
		}
	}
}

// TestGoOn continues the turn of the model where the protocol has it so.
func TestGoOn(t *testing.T) {
	open := `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"He"}]`
	for body, want := range map[string]bool{
		"/v1/messages {\"max_tokens\":9," + open + "}":                                                true,
		"/api/chat {" + open + "}":                                                                    true,
		"/v1/chat/completions {" + open + "}":                                                         false,
		`/v1/messages {"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`:                   false,
		`/api/chat {"messages":[{"role":"assistant","content":"He"},{"role":"user","content":"hi"}]}`: false,
	} {
		s, m := world(t, nil)
		path, text, _ := strings.Cut(body, " ")
		if w := do(t, s, request("POST", path, text)); w.Code != http.StatusOK {
			t.Errorf("%s: got %d %s", body, w.Code, w.Body)
		}
		if got := m.last.Load().(runner.Request); got.GoesOn != want || want && got.Messages[len(got.Messages)-1].Role != talk.Assistant {
			t.Errorf("%s: got %v", body, got.GoesOn)
		}
	}
}

// TestPreflightHeaders allows a page of an allowed origin to send the headers of its client.
func TestPreflightHeaders(t *testing.T) {
	s, _ := world(t, func(o *api.Options) { o.Origins = []string{"https://ide.example"} })
	for origin, want := range map[string]string{"https://ide.example": "authorization,x-stainless-os,anthropic-beta", "https://other.example": ""} {
		r := request("OPTIONS", "/v1/chat/completions", "")
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		r.Header.Set("Access-Control-Request-Headers", "authorization,x-stainless-os,anthropic-beta")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Header().Get("Access-Control-Allow-Headers") != want {
			t.Errorf("%s: got %d %v", origin, w.Code, w.Header())
		}
	}
}
