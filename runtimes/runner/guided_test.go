package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
)

// foreign returns a vocabulary without tokens for calls, in which the markers of calls
// are several tokens that do not end where the markers do. Control tokens replace those
// of MM-ABI, further ones follow.
func foreign(t testing.TB, control ...string) *tokenizer.Tokenizer {
	t.Helper()
	v := seed.Bytes()
	for i := range v.Tokens {
		if tok := &v.Tokens[i]; tok.Text == "<tool_call>" || tok.Text == "</tool_call>" || strings.Contains(tok.Text, "video") {
			tok.Text = "<unused" + tok.Text[1:]
		}
	}
	for _, text := range control {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: text, Type: tokenizer.Control})
	}
	for _, text := range []string{" <tool", "_call", "call>", ">\n", ">\n\n", ">{", "><", "\n{\"", `{"name`, `": "`, `"add"`, `add", "par`, `add", "x`, "}\n</", "[{\"", "}}", "}, {\""} {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: tokenizer.ToAlphabet(text), Type: tokenizer.Normal})
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// revoice replaces the vocabulary of a build's core and sets its template.
func revoice(t testing.TB, b *builds.Build, tok *tokenizer.Tokenizer, template string) {
	t.Helper()
	path, err := b.Files.Path("core/core.gguf")
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kvs := slices.DeleteFunc(slices.Clone(f.KVs), func(kv gguf.KV) bool { return strings.HasPrefix(kv.Key, "tokenizer.") })
	for i := range kvs {
		if strings.HasSuffix(kvs[i].Key, ".context_length") {
			kvs[i].Value = uint32(4096)
		}
	}
	var sources []gguf.Source
	for _, x := range f.Tensors {
		data := make([]byte, f.Section(x).Size())
		if _, err := f.Section(x).ReadAt(data, 0); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, gguf.Source{Name: x.Name, Type: x.Type, Dims: x.Dims, Data: gguf.Bytes(data)})
	}
	var out bytes.Buffer
	if _, err := gguf.Write(&out, append(kvs, tok.KVs()...), sources); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if template == "" {
		return
	}
	data, err := os.ReadFile(filepath.Join("..", "talk", "testdata", "dialects", template+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	b.Template = string(data)
}

// TestGuidedCalls: cores without tokens for calls call tools in the form of their
// template, held by the grammar, and read the results in it.
func TestGuidedCalls(t *testing.T) {
	block := func(name, args string) string {
		return "<tool_call>\n" + `{"name": "` + name + `", "arguments": ` + args + "}\n</tool_call>"
	}
	sum, sum2 := block("add", `{"a": 12, "b": 7}`), block("add", `{"a": 1}`)
	result := `{"ok":true,"result":19}`
	turn := "<end_of_turn>\n<start_of_turn>user\n<tool_response>\n" + result + "\n</tool_response><end_of_turn>\n<start_of_turn>model\n"
	llama := `{"name": "add", "parameters": {"a": 12, "b": 7}}`
	list := `¦[TOOL_CALLS]¦[{"name": "add", "arguments": {"a": 12, "b": 7}}, {"name": "echo", "arguments": {"text": "x]"}}]`
	gemma, marks := []string{"<start_of_turn>", "<end_of_turn>"}, []string{"[TOOL_CALLS]"}
	named := []string{"[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"}
	harmony := []string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>"}
	called := "¦<|channel|>¦commentary to=functions.add ¦<|constrain|>¦json¦<|message|>¦"
	none := []string{}
	for _, c := range []struct {
		name, template string
		control        []string
		blind          bool
		only           []string
		script         []string
		held           string // contained in the sequence, without bars
		text, outcomes string
		stop           runtimes.Stop
	}{
		{name: "no call", template: "gemma3", control: gemma, script: []string{"so <tool_ {"}, text: "so <tool_ {", stop: "end"},
		{name: "a call", template: "gemma3", control: gemma, script: []string{sum, "It is 19."}, held: sum + turn + "It is 19.", text: "It is 19.", outcomes: "add:ok", stop: "end"},
		{name: "text and a call", template: "gemma3", control: gemma, script: []string{"I add. " + sum, "19"}, held: "I add. " + sum + turn + "19", text: "I add. 19", outcomes: "add:ok", stop: "end"},
		{name: "two in a turn", template: "gemma3", control: gemma, script: []string{sum + "\n" + sum2 + "not said", "so"}, held: sum + "\n" + sum2 + "<end_of_turn>", text: "so", outcomes: "add:ok add:ok", stop: "end"},
		{name: "two in a turn, one token that ends it", template: "smollm2", script: []string{sum + sum2, "so"}, text: "so", outcomes: "add:ok add:ok", stop: "end"},
		{name: "blind, a token of two markers", template: "smollm2", blind: true, script: []string{strings.TrimSuffix(sum, ">") + "¦><¦" + sum2[1:], "so"}, text: "so", outcomes: "add:ok add:ok", stop: "end"},
		{name: "the grammar corrects", template: "smollm2", script: []string{block("rm", `{"x": "y"}`), "so"}, text: "so", outcomes: "add:ok", stop: "end"},
		{name: "no tools allowed", template: "smollm2", only: none, script: []string{sum}, text: sum, stop: "end"},
		{name: "without a template", script: []string{sum, "so"}, held: "q" + sum + "\n<tool_response>\n" + result + "\n</tool_response>so", text: "so", outcomes: "add:ok", stop: "end"},
		{name: "the same three times", template: "smollm2", script: []string{sum, sum, sum}, outcomes: "add:ok add:repeated", stop: runner.StopLoop},
		{name: "blind", template: "smollm2", blind: true, script: []string{sum, "so"}, text: "so", outcomes: "add:ok", stop: "end"},
		{name: "blind, malformed", template: "smollm2", blind: true, script: []string{"<tool_call>add(1)</tool_call>", "so"}, text: "so", outcomes: ":args", stop: "end"},
		{name: "blind, a list", template: "smollm2", blind: true, script: []string{`<tool_call>[{"name":"add","arguments":{"a":1}},{"name":"rm"}]</tool_call>`, "so"}, text: "so", outcomes: "add:ok rm:unknown", stop: "end"},
		{name: "Llama", template: "llama3", script: []string{llama + "not said", "so"}, held: llama + "<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n" + result + "<|eot_id|>", text: "so", outcomes: "add:ok", stop: "end"},
		{name: "Llama, another object", template: "llama3", script: []string{`{"name": "Ada", "born": 1815}`}, text: `{"name": "Ada", "born": 1815}`, stop: "end"},
		{name: "Llama, the grammar corrects", template: "llama3", script: []string{`{"name": "add", "x": 1}`, "so"}, text: "so", outcomes: "add:ok", stop: "end"},
		{name: "Mistral", template: "mistral", control: marks, script: []string{list + "not said", "so"}, held: strings.ReplaceAll(list, "¦", "") + "<eos>[TOOL_RESULTS]{\"content\": " + result + `, "call_id": "call00001"}[/TOOL_RESULTS]`, text: "so", outcomes: "add:ok echo:ok", stop: "end"},
		{name: "harmony", template: "harmony", control: harmony, script: []string{"¦<|channel|>¦analysis¦<|message|>¦hm¦<|end|>¦¦<|start|>¦assistant" + called + `{"a":12,"b":7}¦<|call|>¦`, "¦<|channel|>¦final¦<|message|>¦It is 19.¦<|return|>¦"}, held: `{"a":12,"b":7}<|call|><|start|>functions.add to=assistant<|channel|>commentary<|message|>"{\"ok\":true,\"result\":19}"<|end|><|start|>assistant<|channel|>final<|message|>It is 19.`, text: "It is 19.", outcomes: "add:ok", stop: "end"},
		{name: "harmony, the grammar corrects", template: "harmony", control: harmony, script: []string{called + `{"x":"y"}¦<|call|>¦`, "¦<|channel|>¦final¦<|message|>¦so¦<|return|>¦"}, text: "so", outcomes: "add:ok", stop: "end"},
		{name: "harmony, blind", template: "harmony", control: harmony, blind: true, script: []string{" to=functions.rm¦<|channel|>¦commentary json¦<|message|>¦{}¦<|call|>¦", "¦<|channel|>¦final¦<|message|>¦so¦<|return|>¦"}, text: "so", outcomes: "rm:unknown", stop: "end"},
		{name: "Mistral's names", template: "named", control: named, script: []string{"so ¦[TOOL_CALLS]¦add¦[ARGS]¦" + `{"a": 12, "b": 7}` + "¦[TOOL_CALLS]¦echo¦[ARGS]¦" + `{"text": "x]"}` + "not said", "so"}, held: `so [TOOL_CALLS]add[ARGS]{"a": 12, "b": 7}[TOOL_CALLS]echo[ARGS]{"text": "x]"}<eos>[TOOL_RESULTS]` + result + `[/TOOL_RESULTS]`, text: "so so", outcomes: "add:ok echo:ok", stop: "end"},
		{name: "Mistral's names with an id", template: "named", control: named, script: []string{"¦[TOOL_CALLS]¦add¦[CALL_ID]¦abcDEF123¦[ARGS]¦" + `{"a": 12, "b": 7}`, "so"}, held: `add[CALL_ID]abcDEF123[ARGS]{"a": 12, "b": 7}<eos>[TOOL_RESULTS]`, text: "so", outcomes: "add:ok", stop: "end"},
		{name: "Mistral's names, the grammar corrects", template: "named", control: named, script: []string{`¦[TOOL_CALLS]¦adding¦[CALL_ID]¦abc-def123456¦[ARGS]¦{"x": 1}`, "so"}, text: "so", outcomes: "add:ok", stop: "end"},
		{name: "Mistral's names, blind", template: "named", control: named, blind: true, script: []string{`¦[TOOL_CALLS]¦rm¦[ARGS]¦{}`, "so"}, text: "so", outcomes: "rm:unknown", stop: "end"},
		{name: "Mistral, the grammar corrects", template: "mistral", control: marks, script: []string{`¦[TOOL_CALLS]¦{"name": "rm"}`, "so"}, outcomes: "add:ok add:repeated", stop: runner.StopLoop},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok := foreign(t, c.control...)
			e := script(t, c.script...)
			e.tok, e.blind, e.context = tok, c.blind, 8192
			b, opt := equipped(t)
			revoice(t, b, tok, c.template)
			r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{e}, Skills: opt})
			req := ask("q", 0)
			req.ToolsAllowed = c.only
			var streamed strings.Builder
			a, err := r.Answer(t.Context(), req, func(s string) error { streamed.WriteString(s); return nil })
			if err != nil {
				t.Fatal(err)
			}
			var outcomes []string
			for _, done := range a.Called {
				outcomes = append(outcomes, done.Call.Name+":"+done.Answer.Kind())
			}
			if got := strings.Join(outcomes, " "); got != c.outcomes || a.Text != c.text || a.Stop != c.stop || streamed.String() != c.text {
				t.Errorf("%s, %q, streamed %q, stopped by %s; want %s, %q, %s", got, a.Text, streamed.String(), a.Stop, c.outcomes, c.text, c.stop)
			}
			held := strings.ReplaceAll(e.held(), "¦", "")
			if !strings.Contains(held, c.held) {
				t.Errorf("the sequence holds\n%s, want within\n%s", held, c.held)
			}
			if described := strings.Contains(held, `"function"`); described != (c.only == nil) {
				t.Errorf("the tools are described: %v\n%s", described, held)
			}
		})
	}
}

// opening is an engine whose model begins each first answer with a text, and goes on
// with its own logits.
type opening struct {
	engines.Core
	ids []int32
}

type openingModel struct {
	runtimes.Language
	ids []int32
}

type openingSequence struct {
	runtimes.Sequence
	ids []int32
}

type openingConstraint struct {
	runtimes.Constraint
	ids []int32
}

func (e opening) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	m, err := e.Core.Open(ctx, b, l)
	if err != nil {
		return nil, err
	}
	return &openingModel{m.(runtimes.Language), e.ids}, nil
}

func (m *openingModel) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s, err := m.Language.NewSequence(ctx, opt)
	return &openingSequence{s, m.ids}, err
}

func (s *openingSequence) Generate(ctx context.Context, opt runtimes.Generation, emit func(int32) error) (runtimes.Stop, error) {
	if opt.Follow != nil {
		opt.Follow = openingConstraint{opt.Follow, s.ids}
	}
	return s.Sequence.Generate(ctx, opt, emit)
}

func (c openingConstraint) Forced(written []int32) []int32 {
	if n := len(written); n < len(c.ids) {
		return c.ids[n:]
	}
	return c.Constraint.Forced(written)
}

// TestGuidedGrammar: whatever the logits are, a call that opens is one of a callable
// tool with arguments that it accepts, in every dialect: the weights are random.
func TestGuidedGrammar(t *testing.T) {
	for template, begin := range map[string]string{
		"gemma3": "<tool_call>", "smollm2": "so <tool_call>", "llama3": ` {"name":"echo"`, "mistral": "¦<unusedtool_call>¦", "named": "", "": "<tool_call>",
	} {
		for seeded := range uint64(4) {
			b, opt := equipped(t)
			b.Assembly.Skills = slices.DeleteFunc(b.Assembly.Skills, func(s builds.SkillPart) bool { return s.Name == "gone" })
			v := seed.Bytes()
			for i := range v.Tokens {
				if v.Tokens[i].Text == "<tool_call>" || v.Tokens[i].Text == "</tool_call>" {
					v.Tokens[i].Text = "<unused" + v.Tokens[i].Text[1:]
				}
			}
			switch template {
			case "mistral":
				v.Tokens[8+1].Text, begin = "[TOOL_CALLS]", "¦[TOOL_CALLS]¦"
			case "named":
				begin = "¦[TOOL_CALLS]¦"
				for i := range v.Tokens {
					if strings.Contains(v.Tokens[i].Text, "video") {
						v.Tokens[i].Text = "[CALL_ID]"
						break
					}
				}
				v.Tokens[8].Text, v.Tokens[8+1].Text = "[ARGS]", "[TOOL_CALLS]"
			}
			tok, err := tokenizer.New(v)
			if err != nil {
				t.Fatal(err)
			}
			revoice(t, b, tok, template)
			e := opening{ids: (&scripted{tok: tok}).tokens(begin)}
			r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{e}, Skills: opt})
			req := ask("q", 300)
			req.Preferences.Temperature, req.Preferences.Seed = 1, seeded
			a := answer(t, r, req)
			if a.Unheld != "" {
				t.Fatalf("%s: unheld: %s", template, a.Unheld)
			}
			if len(a.Called) == 0 && a.Stop != "length" {
				t.Errorf("%s: no call: %q, stopped by %s", template, a.Text, a.Stop)
			}
			for _, c := range a.Called {
				if kind := c.Answer.Kind(); c.Call.Fault != "" || kind != "ok" && kind != "repeated" || !json.Valid(c.Call.Arguments) {
					t.Errorf("%s: %+v: %s", template, c.Call, kind)
				}
			}
		}
	}
}

// TestGuidedSmolLM2: SmolLM2-135M-Instruct, which was not trained to call tools, writes
// a valid call once one opens, and reads its result.
func TestGuidedSmolLM2(t *testing.T) {
	path := testfiles.Native(t, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ask, begin, want string }{
		{"Add 12 and 7 with the tool add.", "<tool_call>", "add"},
		{"Repeat the word hello with the tool echo.", "Sure: <tool_call>", ""},
		{"Add 1 and 2.", "<tool_call>\n{\"name\": \"echo\"", "echo"},
	} {
		b, opt := equipped(t)
		b.Assembly.Skills = slices.DeleteFunc(b.Assembly.Skills, func(s builds.SkillPart) bool { return s.Name == "gone" })
		b.Files = folder(filepath.Dir(path))
		b.Assembly.Core.Files = builds.Formats{"gguf": {filepath.Base(path)}}
		r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{opening{ids: tok.Encode(c.begin, tokenizer.Options{})}}, Skills: opt})
		a := answer(t, r, ask(c.ask, 120))
		if len(a.Called) == 0 || a.Unheld != "" || !strings.Contains(a.Called[0].Call.Name, c.want) {
			t.Fatalf("%s: %+v", c.ask, a)
		}
		for _, done := range a.Called {
			t.Logf("%s: %s %s: %s", c.ask, done.Call.Name, done.Call.Arguments, done.Line)
			if kind := done.Answer.Kind(); done.Call.Fault != "" || kind != "ok" && kind != "repeated" {
				t.Errorf("%s: %+v: %s", c.ask, done.Call, kind)
			}
		}
	}
}

// TestGuidedMask: a token that completes the opening of a call must go on as the call
// does, and others are free.
func TestGuidedMask(t *testing.T) {
	for _, c := range []struct {
		template, written string
		free, masked      []string
	}{
		{"smollm2", "so <tool_call", []string{">", ">\n", "call>", "\n", "a"}, []string{">\n\n", ">{"}},
		{"smollm2", "so", []string{">\n\n", ">{", "<"}, nil},
		{"smollm2", "<tool_call>", []string{"\n", "\n{\""}, []string{"a", "{", ">", "<"}},
		{"smollm2", "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>", []string{"a", ">{", "<"}, nil},
		{"llama3", " {\"name\": \"add", []string{"\"", "x", ">"}, nil},
		{"llama3", "{\"name\": \"", []string{"add\", \"par", "a", "x"}, []string{"add\", \"x"}},
		{"llama3", "a {\"name\": \"", []string{"add\", \"x"}, nil},
		{"llama3", "{\"name\":\"add\"", []string{","}, []string{"a", "}"}},
	} {
		tok := foreign(t)
		b, opt := equipped(t)
		revoice(t, b, tok, c.template)
		watch := &watching{written: tok.Encode(c.written, tokenizer.Options{}), size: tok.Size()}
		e := script(t, "")
		e.tok, e.context = tok, 8192
		watch.scripted = e
		r, _ := open(t, b, runner.Options{Engines: []runtimes.Engine{watch}, Skills: opt})
		if _, err := r.Answer(t.Context(), ask("q", 0), nil); err != nil {
			t.Fatal(err)
		}
		for _, piece := range append(c.free, c.masked...) {
			id := tok.ID(tokenizer.ToAlphabet(piece))
			if id == tokenizer.None {
				t.Fatalf("got no token %q", piece)
			}
			if masked := watch.logits[id] < 0; masked != slices.Contains(c.masked, piece) {
				t.Errorf("%s after %q: %q is masked: %v", c.template, c.written, piece, masked)
			}
		}
	}
}

// watching is an engine that records which tokens may follow some.
type watching struct {
	*scripted
	written []int32
	size    int
	logits  []float32
}

func (w *watching) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	return w, nil
}

func (w *watching) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	_, err := w.scripted.NewSequence(ctx, opt)
	return w, err
}

func (w *watching) Generate(_ context.Context, opt runtimes.Generation, _ func(int32) error) (runtimes.Stop, error) {
	w.logits = make([]float32, w.size)
	opt.Follow.Forced(w.written[:len(w.written)/2]) // a draft that is rejected
	return runtimes.StopEnd, opt.Follow.Mask(w.written, w.logits)
}
