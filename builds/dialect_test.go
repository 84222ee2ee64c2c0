package builds_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
)

// TestCallDialect: a graph with a router accepts a core without the router's tokens and
// names the dialect of its calls; a form that mm does not read is an error, and tokens
// of another pair still differ.
func TestCallDialect(t *testing.T) {
	const manifest = "name: core-llm\nversion: 1.0.0\ntype: core\nmodality: text\nabi: mm-abi-1.0\nlicense: MIT\n" +
		"tokens: {vocab_size: 268, max_seq: 200, d_model: 64, special_tokens: [<bos>, <eos>]}\nexport: {gguf: core.gguf}\n"
	for _, c := range []struct {
		name, template string
		control        []string
		pair           string
		absent         bool
		code           diag.Code
		want           string
	}{
		{name: "text", template: "{{ messages[0].content }}", code: diag.CallDialect, want: `core-llm@1.0.0 has no tokens <tool_call> </tool_call>; its calls are <tool_call>{"name": …, "arguments": {…}}</tool_call> (text)`},
		{name: "Mistral", template: "[TOOL_CALLS]", control: []string{"[TOOL_CALLS]"}, code: diag.CallDialect, want: `[TOOL_CALLS][{"name": …, "arguments": {…}}, …] (mistral)`},
		{name: "Mistral's names", template: "[TOOL_CALLS] [ARGS]", control: []string{"[TOOL_CALLS]", "[ARGS]"}, code: diag.CallDialect, want: `[TOOL_CALLS]…[ARGS]{…} (mistral-named)`},
		{name: "Mistral's names without a token", template: "[TOOL_CALLS] [ARGS]", control: []string{"[TOOL_CALLS]"}, code: diag.CallUnread, want: "NAME[ARGS]"},
		{name: "Llama", template: `ipython "parameters"`, code: diag.CallDialect, want: `its calls are {"name": …, "parameters": {…}} (llama3)`},
		{name: "harmony", template: "<|channel|>", control: []string{"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>"}, code: diag.CallDialect, want: "its calls are <|channel|>commentary to=functions.…<|message|>{…}<|call|> (harmony)"},
		{name: "harmony without its tokens", template: "<|channel|>", control: []string{"<|channel|>"}, code: diag.CallUnread, want: "channels of harmony"},
		{name: "no file", absent: true, code: diag.CallDialect, want: "its chat template decides when the build runs"},
		{name: "other tokens", pair: "[<call>, </call>]", code: diag.TokensDiffer, want: "call> is not a special token"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "module.yaml"), []byte(manifest), 0o644); err != nil {
			t.Fatal(err)
		}
		if !c.absent {
			writeVocabulary(t, filepath.Join(dir, "core.gguf"), c.template, c.control)
		}
		core, list := modules.Load(dir)
		if core == nil {
			t.Fatal(list)
		}
		router, list := modules.Parse("module.yaml", []byte("name: router\nversion: 1.0.0\ntype: router\nabi: mm-abi-1.0\nlicense: MIT\n"))
		if list.Failed() {
			t.Fatal(list)
		}
		if c.pair == "" {
			c.pair = "[<tool_call>, </tool_call>]"
		}
		g, list := builds.Parse("b.graph.yaml", fmt.Appendf(nil, "name: b\nversion: 1.0.0\ncore: {llm: {ref: core-llm@1}}\nruntime: {router: {ref: router@1, tool_call_tokens: %s}}\n", c.pair))
		if list.Failed() {
			t.Fatal(list)
		}
		list = g.Check(builds.Resolved{"core-llm": core, "router": router})
		i := slices.IndexFunc(list, func(d diag.Diagnostic) bool { return d.Code == c.code })
		if i < 0 || !strings.Contains(list[i].Detail, c.want) || list.Failed() != (c.code != diag.CallDialect) {
			t.Errorf("%s: %v", c.name, list)
		}
	}
}

// writeVocabulary writes a GGUF file of a vocabulary without tokens for calls.
func writeVocabulary(t *testing.T, path, template string, control []string) {
	t.Helper()
	v := seed.Bytes()
	v.Template = template
	for i := range v.Tokens {
		if strings.Contains(v.Tokens[i].Text, "tool_call") {
			v.Tokens[i].Text = "<unused" + v.Tokens[i].Text[1:]
		}
	}
	for _, text := range control {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: text, Type: tokenizer.Control})
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := gguf.Write(&out, append([]gguf.KV{{Key: gguf.KeyArchitecture, Value: "llama"}}, tok.KVs()...), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
