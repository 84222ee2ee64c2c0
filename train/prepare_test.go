package train

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/llm"
)

// Control tokens of the templates are parsed as such, and the tokenizer does
// not learn their names.
func TestControlTokens(t *testing.T) {
	control := []string{"<bos>", "<eos>", "<tool_call>", "</tool_call>"}
	cfg := Config{
		Model:     llm.Config{Vocab: 400, Dim: 32, Layers: 1, Heads: 2, Context: 24},
		Data:      Data{Generate: &synth.Options{Documents: 200, Calls: []string{"{a} and {b}? <tool_call>{a}+{b}</tool_call>"}}},
		Tokenizer: Tokenizer{Control: control, BOS: "<bos>", EOS: "<eos>"},
		Stop:      Stop{Steps: 1},
	}
	count := func(special bool) (calls int, c *Corpus) {
		cfg.Data.Special = special
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		c = prepare(t, cfg, t.TempDir())
		ids := make([]int32, c.Train.Len())
		c.Train.Read(ids, 0)
		for _, id := range ids {
			if id == 2 {
				calls++
			}
		}
		return calls, c
	}
	if n, _ := count(false); n != 0 {
		t.Errorf("%d control tokens in literal text", n)
	}
	n, c := count(true)
	if n < 15 || n > 25 { // one document in eight calls a tool, 5 % are held out
		t.Errorf("%d tool calls in 190 documents", n)
	}
	if slices.ContainsFunc(c.Tokenizer.Vocabulary().Tokens[4:], func(t tokenizer.Token) bool { return t.Text == "tool_call" || t.Text == "_call" }) {
		t.Error("tokenizer learned the name of a control token")
	}
	cfg.Data = Data{}
	if cfg.Validate() == nil {
		t.Error("accepted a run without data")
	}
}

// In conversations only the assistant's words are learned, and a tool call ends
// with the end token.
func TestChatData(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := `{"messages":[{"role":"user","content":"1+2?"},{"role":"assistant","content":"add"},{"role":"tool","content":"3"},{"role":"assistant","content":"three"}]}` + "\n"
	write("chat.jsonl", strings.Repeat(line, 40))
	write("form.jinja", `{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}`)
	cfg := Config{
		Model:     llm.Config{Vocab: 300, Dim: 16, Layers: 1, Heads: 2, Context: 24},
		Data:      Data{Files: []string{"chat.jsonl"}, Format: "chat", Template: "form.jinja", Held: 0.1},
		Tokenizer: Tokenizer{Control: []string{"<eos>"}, EOS: "<eos>"},
		Stop:      Stop{Steps: 1},
	}
	c := prepare(t, cfg, dir)
	b := dataset.NewBatch(1, 60)
	// A template that writes EOS itself has one target for it, whether the
	// tokenizer is trained or read from a file.
	write("ends.jinja", `{% for m in messages %}{{ m.content }}{{ eos_token if m.role == "assistant" }}{% endfor %}`)
	ends := cfg
	ends.Data.Template, ends.Data.Special = "ends.jinja", true
	for range 2 {
		e := prepare(t, ends, dir)
		w := dataset.NewBatch(1, 60)
		for w := range dataset.Windows(e.Held, w, 1) {
			targets := ""
			for _, v := range w.Targets {
				if v >= 0 {
					targets += e.Tokenizer.Piece(v)
				}
			}
			if !strings.HasPrefix(targets, "add<eos>three<eos>add<eos>") {
				t.Errorf("targets %q", targets)
			}
		}
		var gg bytes.Buffer
		if _, err := gguf.Write(&gg, e.Tokenizer.KVs(), nil); err != nil {
			t.Fatal(err)
		}
		write("tok.gguf", gg.String())
		ends.Tokenizer = Tokenizer{File: "tok.gguf"}
	}
	for b := range dataset.Windows(c.Held, b, 1) {
		text, targets := "", ""
		for i, v := range b.Targets {
			text += c.Tokenizer.Piece(b.Tokens[i])
			if v >= 0 {
				targets += c.Tokenizer.Piece(v)
			}
		}
		if !strings.HasPrefix(text, "u:1+2?;a:add;t:3;a:three;<eos>u:") || !strings.HasPrefix(targets, "add;<eos>three;<eos>add;<eos>") {
			t.Errorf("%q: targets %q", text, targets)
		}
	}
	for name, change := range map[string]func(*Data){
		"no template": func(d *Data) { d.Template = "" }, "text with one": func(d *Data) { d.Format = "" },
		"no such file": func(d *Data) { d.Template = "none" }, "bad template": func(d *Data) { d.Template = "bad.jinja" },
		"given": func(d *Data) { d.Context = []string{"x"} },
	} {
		write("bad.jinja", "{% if %}")
		wrong := cfg
		change(&wrong.Data)
		if c, err := Prepare(wrong, dir); err == nil {
			c.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	data := Data{Files: []string{"x"}, Format: "jsonl", Keys: []string{"q", "a"}, Context: []string{"q"}}
	if err := data.validate(); err != nil {
		t.Error(err)
	}
	if data.Context = []string{"q", "a"}; data.validate() == nil {
		t.Error("accepted data without anything to learn")
	}
}
