package runner_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// A count is that of the answer, of texts, pictures and tools.
func TestCount(t *testing.T) {
	r, e, f := look(t, seeing(t), runner.Options{})
	withTool := ask("hi", 1)
	withTool.Messages, withTool.Inputs = []talk.Message{talk.Text(talk.User, "hi")}, nil
	for name, req := range map[string]runner.Request{"text": ask("hi there", 1), "pictures": see(1, red(t), blue(t)), "turns": withTool} {
		e.fed.Store(0)
		n, err := r.Count(t.Context(), req)
		if err != nil || e.fed.Load() != 0 {
			t.Errorf("%s: %v, %d positions were fed", name, err, e.fed.Load())
		}
		if want := answer(t, r, req).Timings.Prompt; n != want {
			t.Errorf("%s: got %d, want %d", name, n, want)
		}
	}
	runs := f.runs.Load()
	if _, err := r.Count(t.Context(), see(1, []byte("no picture"))); err == nil || f.runs.Load() != runs {
		t.Errorf("a broken picture: %v", err)
	}
}

// thinker returns the vocabulary of a model that reasons.
func thinker(t *testing.T) *tokenizer.Tokenizer {
	v := seed.Bytes()
	for _, text := range []string{"<think>", "</think>"} {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: text, Type: tokenizer.UserDefined})
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestThoughts asks a model to reason and not to: in its template, before a schema, and by
// the count of tokens.
func TestThoughts(t *testing.T) {
	g, err := grammar.New([]byte(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`), grammar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		thought         talk.Thought
		say             string
		grammar         *grammar.Grammar
		text, reasoning string
		reasoned        int
		blind           bool // the engine has no constraints
	}{
		"by default":                         {say: "hm¦</think>¦\n\nso", text: "so", reasoning: "hm", reasoned: 3},
		"off":                                {thought: talk.Thought{Mode: talk.ThinkOff}, say: "so", text: "so"},
		"a schema":                           {say: `hm¦</think>¦{"a":1}`, grammar: g, text: `{"a":1}`, reasoning: "hm", reasoned: 3},
		"a schema, the reasoning has no end": {say: `hm¦<eos>¦¦</think>¦{"a":1}`, grammar: g, text: `{"a":1}`, reasoning: "hm", reasoned: 3},
		"limited":                            {thought: talk.Thought{Most: 2}, say: "hm so", text: "so", reasoning: "hm", reasoned: 3},
		"below the limit":                    {thought: talk.Thought{Most: 3}, say: "hm¦</think>¦so", text: "so", reasoning: "hm", reasoned: 3},
		"limited, opened again":              {thought: talk.Thought{Most: 2}, say: "h¦</think>¦so¦<think>¦ab", text: "sob", reasoning: "ha", reasoned: 4},
		"limited, then a schema":             {thought: talk.Thought{Most: 2}, say: `hm{"a":1}`, grammar: g, text: `{"a":1}`, reasoning: "hm", reasoned: 3},
		"limited and off":                    {thought: talk.Thought{Most: 2, Mode: talk.ThinkOff}, say: "so then", text: "so then"},
		"limited, on an engine without":      {thought: talk.Thought{Most: 2}, blind: true, say: "hmm¦</think>¦so", text: "so", reasoning: "hmm", reasoned: 4},
		"a schema without reasoning":         {thought: talk.Thought{Mode: talk.ThinkOff}, say: `hm{"a":1}`, grammar: g, text: `{"a":1}`},
	} {
		b := build(t)
		b.Assembly.Modalities = nil
		tok := thinker(t)
		revoice(t, b, tok, "")
		b.Template = "{{ messages[0].content }}{% if enable_thinking is not defined or enable_thinking %}<think>{% else %}<think></think>{% endif %}"
		e := script(t, c.say)
		e.tok, e.blind = tok, c.blind
		r, err := runner.Open(t.Context(), b, runner.Options{Engines: []runtimes.Engine{e}})
		if err != nil {
			t.Fatal(err)
		}
		req := runner.Request{Messages: []talk.Message{talk.Text(talk.User, "q")}, Thought: c.thought}
		req.Preferences.MaxTokens, req.Preferences.Grammar = 40, c.grammar
		a, err := r.Answer(t.Context(), req, nil)
		if err != nil || strings.TrimSpace(a.Text) != c.text || a.Reasoning != c.reasoning || a.Timings.Reasoned != c.reasoned {
			t.Errorf("%s: got %+v, %v", name, a, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestGoesOn continues the turn of the model, up to a stop string that the answer names.
func TestGoesOn(t *testing.T) {
	b := build(t)
	b.Assembly.Modalities = nil
	b.Template = "{% for m in messages %}[{{ m.content }}]{% endfor %}{% if add_generation_prompt %}[{% endif %}"
	for goesOn, held := range map[bool]string{true: "[q][Hello ", false: "[q][He][llo "} {
		e := script(t, "llo END more")
		r, err := runner.Open(t.Context(), b, runner.Options{Engines: []runtimes.Engine{e}})
		if err != nil {
			t.Fatal(err)
		}
		req := runner.Request{Messages: []talk.Message{talk.Text(talk.User, "q"), talk.Text(talk.Assistant, "He")}, GoesOn: goesOn}
		req.Preferences.MaxTokens, req.Preferences.Stop = 40, []string{"or", "END"}
		fresh := -1
		req.Prompted = func(prompt, reused int) { fresh = prompt - reused }
		a, err := r.Answer(t.Context(), req, nil)
		if err != nil || a.Text != "llo " || a.StopText != "END" || fresh != a.Timings.Prompt-a.Timings.Reused || !strings.Contains(e.held(), held) {
			t.Errorf("%v: got %+v, %v, held %q", goesOn, a, err, e.held())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
