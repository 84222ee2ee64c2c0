package train

import (
	"slices"
	"testing"

	"mm-abi.org/mm/core/dataset/synth"
	"mm-abi.org/mm/core/llm"
	"mm-abi.org/mm/core/tokenizer"
)

// Control tokens that the templates write count as such, and the tokenizer
// learns nothing from their names.
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
	if n < 15 || n > 25 { // one document in eight asks a tool, 5 % are held out
		t.Errorf("%d tool calls in 190 documents", n)
	}
	if slices.ContainsFunc(c.Tokenizer.Vocabulary().Tokens[4:], func(t tokenizer.Token) bool { return t.Text == "tool_call" || t.Text == "_call" }) {
		t.Error("the tokenizer learned the name of a control token")
	}
	cfg.Data = Data{}
	if cfg.Validate() == nil {
		t.Error("a run without data was accepted")
	}
}
