package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// TestThink translates the fields that ask for reasoning.
func TestThink(t *testing.T) {
	const (
		chat, reply, message, ollama = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"
	)
	turn := `"messages":[{"role":"user","content":"plain"}]`
	on, off := talk.Thought{Mode: talk.ThinkOn}, talk.Thought{Mode: talk.ThinkOff}
	lenient := func(t talk.Thought) talk.Thought { t.Lenient = true; return t }
	level := func(t talk.Thought, effort string) talk.Thought { t.Effort = effort; return t }
	for _, c := range []struct {
		path, fields string
		want         talk.Thought
		refused      string // the field of an error; "": none
	}{
		{chat, turn, talk.Thought{}, ""},
		{chat, turn + `,"reasoning_effort":null,"chat_template_kwargs":null`, talk.Thought{}, ""},
		{chat, turn + `,"reasoning_effort":"none"`, level(off, "none"), "reasoning_effort"},
		{chat, turn + `,"reasoning_effort":"high"`, level(on, "high"), "reasoning_effort"},
		{chat, turn + `,"reasoning":{"effort":"low"}`, level(on, "low"), "reasoning.effort"},
		{chat, turn + `,"reasoning_effort":"extreme"`, talk.Thought{}, "reasoning_effort"},
		{chat, turn + `,"chat_template_kwargs":{"enable_thinking":false,"level":2}`, talk.Thought{Vars: map[string]any{"enable_thinking": false, "level": 2.0}}, ""},
		{chat, turn + `,"chat_template_kwargs":[]`, talk.Thought{}, "chat_template_kwargs"},
		{reply, `"input":"plain","reasoning":{"effort":"medium","summary":"auto"}`, level(on, "medium"), "reasoning.effort"},
		{reply, `"input":"plain","reasoning":null`, talk.Thought{}, ""},
		{message, turn + `,"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024}`, talk.Thought{Mode: talk.ThinkOn, Lenient: true, Most: 1024}, ""},
		{message, turn + `,"max_tokens":1024,"thinking":{"type":"enabled","budget_tokens":1024}`, talk.Thought{}, "thinking"},
		{message, turn + `,"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1023}`, talk.Thought{}, "thinking"}, // minBudget
		{message, turn + `,"max_tokens":2000,"thinking":{"type":"enabled"}`, talk.Thought{}, "thinking"},
		{message, turn + `,"max_tokens":9,"thinking":{"type":"disabled"}`, lenient(off), ""},
		{message, turn + `,"max_tokens":9,"thinking":{"type":"adaptive"}`, talk.Thought{}, ""},
		{message, turn + `,"max_tokens":9,"thinking":{"type":"maybe"}`, talk.Thought{}, "thinking"},
		{ollama, turn + `,"think":true`, on, "think"},
		{ollama, turn + `,"think":false`, lenient(off), ""},
		{ollama, turn + `,"think":"low"`, level(on, "low"), "think"},
		{ollama, turn + `,"think":3`, talk.Thought{}, "think"},
		{"/api/generate", `"prompt":"plain","think":false`, lenient(off), ""},
	} {
		s, m := world(t, nil)
		w := do(t, s, request("POST", c.path, `{`+c.fields+`}`))
		if c.refused != "" {
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.refused) {
				t.Errorf("%s %s: got %d %s, want an error of %s", c.path, c.fields, w.Code, w.Body, c.refused)
			}
		} else if w.Code != http.StatusOK {
			t.Errorf("%s %s: got %d %s", c.path, c.fields, w.Code, w.Body)
		}
		last, _ := m.last.Load().(runner.Request)
		if d := cmp.Diff(c.want, last.Thought); d != "" {
			t.Errorf("%s %s: %s", c.path, c.fields, d)
		}
	}
}

// TestReasoningUsage counts the tokens of reasoning.
func TestReasoningUsage(t *testing.T) {
	s, _ := world(t, nil)
	for path, body := range map[string]string{"/v1/chat/completions": chatBody("think", `,"stream":true,"stream_options":{"include_usage":true}`), "/v1/responses": `{"input":"think"}`} {
		if w := do(t, s, request("POST", path, body)); !strings.Contains(w.Body.String(), `"reasoning_tokens":2`) {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}

// TestItemsInOrder writes each item of a response after the end of the one before.
func TestItemsInOrder(t *testing.T) {
	s, _ := world(t, nil)
	for text, want := range map[string]string{"think": "reasoning reasoning message message", "rethink": "message message reasoning reasoning"} {
		w := do(t, s, request("POST", "/v1/responses", `{"stream":true,"input":"`+text+`"}`))
		var kinds []string
		open := -1
		for line := range strings.Lines(w.Body.String()) {
			data, ok := strings.CutPrefix(line, "data: ")
			var e struct {
				Type  string
				Index int `json:"output_index"`
				Item  struct{ Type string }
			}
			if !ok {
				continue
			}
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			switch e.Type {
			case "response.output_item.added":
				if e.Index != open+1 {
					t.Errorf("%s: item %d was added after %d", text, e.Index, open)
				}
				open, kinds = e.Index, append(kinds, e.Item.Type)
			case "response.output_item.done":
				if e.Index != open {
					t.Errorf("%s: item %d ended, %d is open", text, e.Index, open)
				}
				kinds = append(kinds, e.Item.Type)
			}
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestCount counts the tokens of prompts and refuses what an answer would refuse.
func TestCount(t *testing.T) {
	s, _ := world(t, nil)
	count, items := "/v1/messages/count_tokens", "/v1/responses/input_tokens"
	for _, c := range []struct{ path, body, want string }{
		{count, `{"model":"m","system":"abc","messages":[{"role":"user","content":"de"}]}`, `{"input_tokens":5}`},
		{count, `{"messages":[{"role":"user","content":"de"}],"thinking":{"type":"enabled","budget_tokens":1024},"tools":[{"name":"w","input_schema":{}}],"tool_choice":{"type":"any"}}`, `{"input_tokens":2}`},
		{count, `{"messages":[{"role":"user","content":"de"}],"tools":[{"type":"web_search_20250305","name":"w"}]}`, "tools[0].type"},
		{count, `{"messages":[{"role":"user","content":[{"type":"document"}]}]}`, "messages[0].content[0].type"},
		{count, `{"messages":[]}`, "messages"},
		{count, `{"model":"other","messages":[{"role":"user","content":"de"}]}`, "not_found_error"},
		{items, `{"input":"abc","instructions":"de"}`, `{"input_tokens":5,"object":"response.input_tokens"}`},
		{items, `{"input":[]}`, "input"},
	} {
		if w := do(t, s, request("POST", c.path, c.body)); !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: got %d %s, want %s", c.path, c.body, w.Code, w.Body, c.want)
		}
	}
	if w := do(t, s, request("POST", "/v1/messages", `{"messages":[{"role":"user","content":"de"}]}`)); w.Code != http.StatusBadRequest {
		t.Errorf("a message without max_tokens: %d", w.Code)
	}
}

// TestToolTurns refuses results without calls, and tools that share a name.
func TestToolTurns(t *testing.T) {
	s, _ := world(t, nil)
	user, call := `{"role":"user","content":"hi"}`, `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"w","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"w","arguments":"{}"}}]}`
	result := func(id string) string { return `{"role":"tool","tool_call_id":"` + id + `","content":"1"}` }
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/v1/chat/completions", `{"messages":[` + strings.Join([]string{user, call, result("b"), result("a"), user, call, result("a")}, ",") + `]}`, 200},
		{"/v1/chat/completions", `{"messages":[` + strings.Join([]string{user, call, result("c")}, ",") + `]}`, 400},
		{"/v1/chat/completions", `{"messages":[` + strings.Join([]string{user, call, result("a"), result("a")}, ",") + `]}`, 400},
		{"/v1/chat/completions", `{"messages":[` + strings.Join([]string{user, result("a"), call}, ",") + `]}`, 400},
		{"/v1/chat/completions", `{"messages":[` + strings.Join([]string{user, call, result("")}, ",") + `]}`, 400},
		{"/v1/chat/completions", chatBody("hi", `,"tools":[{"type":"function","function":{"name":"w"}},{"type":"function","function":{"name":"w"}}]`), 400},
		{"/v1/responses", `{"input":[{"type":"function_call","call_id":"a","name":"w","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"1"}]}`, 200},
		{"/v1/responses", `{"input":[{"type":"function_call","call_id":"a","name":"w","arguments":"{}"},{"type":"function_call_output","call_id":"b","output":"1"}]}`, 400},
		{"/v1/messages", `{"max_tokens":9,"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"w","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}]}`, 200},
		{"/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}]}`, 400},
		{"/v1/messages", `{"max_tokens":9,"messages":[` + user + `],"tools":[{"name":"w","input_schema":{}},{"name":"w","input_schema":{}}]}`, 400},
		{"/api/chat", `{"messages":[` + user + `,{"role":"assistant","tool_calls":[{"function":{"name":"w","arguments":{}}}]},{"role":"tool","tool_name":"w","content":"1"}]}`, 200},
		{"/api/chat", `{"messages":[` + user + `,{"role":"tool","tool_name":"w","content":"1"}]}`, 400},
	} {
		if w := do(t, s, request("POST", c.path, c.body)); w.Code != c.status {
			t.Errorf("%s %s: got %d %s, want %d", c.path, c.body, w.Code, w.Body, c.status)
		}
	}
}
