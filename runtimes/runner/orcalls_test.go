package runner_test

import (
	"encoding/json"
	"errors"
	"testing"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// TestGrammarOrCalls: with tools of the client and a schema, an answer is a value of the
// schema or a call, whatever the form of the markers.
func TestGrammarOrCalls(t *testing.T) {
	call := "<tool_call>\n" + `{"name": "add", "arguments": {"a": 12}}` + "\n</tool_call>"
	marks, gemma := []string{"[TOOL_CALLS]"}, []string{"<start_of_turn>", "<end_of_turn>"}
	for _, c := range []struct {
		name, template string
		control        []string
		schema, script string
		text, tool     string
		stop           runtimes.Stop
	}{
		{name: "a value", template: "gemma3", control: gemma, script: `{"age":7}`, text: `{"age":7}`, stop: "end"},
		{name: "a call as text", template: "gemma3", control: gemma, script: call, tool: "add", stop: runner.StopCall},
		{name: "a call in white space", template: "gemma3", control: gemma, script: "\n" + call, tool: "add", stop: runner.StopCall},
		{name: "a marker that does not go on", template: "gemma3", control: gemma, script: "<tool_ {}", stop: runner.StopCall}, // it is completed, the call is malformed
		{name: "text", template: "smollm2", script: `so {"age":7}`, text: `{"age":7}`, stop: "end"},
		{name: "a token, a value", template: "mistral", control: marks, script: `{"age":7}`, text: `{"age":7}`, stop: "end"},
		{name: "a token, a call", template: "mistral", control: marks, script: `¦[TOOL_CALLS]¦[{"name": "add", "arguments": {"a": 12}}]`, tool: "add", stop: runner.StopCall},
		{name: "a token, a list", template: "mistral", control: marks, schema: `{"type":"array","items":{"type":"integer"}}`, script: `[7]`, text: `[7]`, stop: "end"},
		{name: "a token after a value", template: "mistral", control: marks, script: `{"age¦[TOOL_CALLS]¦":7}`, text: `{"age":7}`, stop: "end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.schema == "" {
				c.schema = `{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"],"additionalProperties":false}`
			}
			g, err := grammar.New([]byte(c.schema), grammar.Options{})
			if err != nil {
				t.Fatal(err)
			}
			e := script(t, c.script)
			e.tok, e.context = foreign(t, c.control...), 8192
			b, opt := equipped(t)
			revoice(t, b, e.tok, c.template)
			r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{e}, Skills: opt})
			req := ask("q", 0)
			req.Tools = []talk.Definition{{Name: "add", Parameters: json.RawMessage(`{"type":"object"}`)}}
			req.Preferences.Grammar, req.Preferences.OrCalls = g, true
			a, err := r.Answer(t.Context(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			tool := ""
			if len(a.Calls) > 0 {
				tool = a.Calls[0].Name
			}
			if a.Text != c.text || tool != c.tool || a.Stop != c.stop {
				t.Errorf("got %q, a call of %q, stopped by %s, want %q, %q, %s", a.Text, tool, a.Stop, c.text, c.tool, c.stop)
			}
		})
	}
}

// TestGrammarOrCallsRefused: the calls of some templates begin as values do.
func TestGrammarOrCallsRefused(t *testing.T) {
	harmony := []string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>"}
	for template, control := range map[string][]string{"llama3": nil, "harmony": harmony} {
		g, err := grammar.New([]byte(`{"type":"object"}`), grammar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := script(t, "{}")
		e.tok, e.context = foreign(t, control...), 8192
		b, opt := equipped(t)
		revoice(t, b, e.tok, template)
		r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{e}, Skills: opt})
		req := ask("q", 0)
		req.Tools = []talk.Definition{{Name: "add", Parameters: json.RawMessage(`{"type":"object"}`)}}
		req.Preferences.Grammar, req.Preferences.OrCalls = g, true
		var missing *runtimes.Unavailable
		if _, err := r.Answer(t.Context(), req, nil); !errors.As(err, &missing) {
			t.Errorf("%s: got %v, want an error that names what is missing", template, err)
		}
	}
}
