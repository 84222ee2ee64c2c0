package infer_test

import (
	"context"
	"fmt"

	"mm-abi.org/mm/core/infer"
)

// counter is a model that counts: its layers add nothing, and its output matrix
// maps each token to the next one.
func counter(vocab int) (infer.Config, infer.Memory) {
	c := infer.Config{
		Arch: "llama", Context: 64, Layers: 1, Width: vocab, Heads: 1, KVHeads: 1, HeadDim: 2, Hidden: 1, Vocab: vocab,
		Epsilon: 1e-5, Rope: infer.Rope{Dims: 2, Base: 10000, OriginalContext: 64},
	}
	w := make(infer.Memory)
	zero := func(name string, dims ...int) []float32 {
		n := 1
		for _, d := range dims {
			n *= d
		}
		w[name] = infer.Array{Dims: dims, Data: make([]float32, n)}
		return w[name].Data
	}
	for _, name := range []string{"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"} {
		for i := range zero(name+".weight", vocab) {
			w[name+".weight"].Data[i] = 1
		}
	}
	for _, name := range []string{"attn_q", "attn_k", "attn_v"} {
		zero("blk.0."+name+".weight", vocab, 2)
	}
	zero("blk.0.attn_output.weight", 2, vocab)
	zero("blk.0.ffn_gate.weight", vocab, 1)
	zero("blk.0.ffn_up.weight", vocab, 1)
	zero("blk.0.ffn_down.weight", 1, vocab)
	in, out := zero("token_embd.weight", vocab, vocab), zero("output.weight", vocab, vocab)
	for t := range vocab {
		in[t*vocab+t] = 1
		out[(t+1)%vocab*vocab+t] = 1
	}
	return c, w
}

func ExampleSession_Generate() {
	model, err := newCounter()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	session, err := model.NewSession(infer.SessionOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if _, err := session.Prompt(ctx, []int32{1, 2, 3}); err != nil {
		fmt.Println(err)
		return
	}
	stats, err := session.Generate(ctx, infer.GenerateOptions{
		StopTokens:  []int32{0},
		Decode:      func(token int32) string { return fmt.Sprint(token, " ") },
		StopStrings: []string{"8 9"},
	}, func(t infer.Token) error {
		fmt.Print(t.Text)
		return nil
	})
	fmt.Println(stats.Reason, err)
	// Output: 4 5 6 7 string <nil>
}

func newCounter() (*infer.Model, error) {
	c, w := counter(10)
	return infer.New(c, w, infer.Options{Threads: 1})
}
