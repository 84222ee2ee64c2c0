package net_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/net"
)

// The kept part computes the same outputs, with tensors of the same names, and
// contains nothing else.
func TestKeep(t *testing.T) {
	cfg := pictures()
	cfg.Layers = append(cfg.Layers, net.Layer{Name: "z", Kind: "linear", Inputs: []string{"x"}, Out: 3}, net.Layer{Kind: "gelu", Name: "w"})
	cfg.Outputs = []string{"y", "w"}
	kept := cfg.Keep("y")
	if d := cmp.Diff(net.Config{Outputs: []string{"y"}}.Outputs, kept.Outputs); d != "" {
		t.Error(d)
	}
	full, part := newNet(t, cfg), newNet(t, kept)
	for _, to := range part.Params().Tensors() {
		copy(to.Data, full.Params().Tensor(to.Name).Data)
	}
	if full.Params().Tensor("z.weight") == nil || part.Params().Tensor("z.weight") != nil {
		t.Error("kept a layer that y does not depend on")
	}
	part.Pack(true)
	if d := cmp.Diff(compute(full), compute(part)); d != "" {
		t.Error(d)
	}
	if only := cfg.Keep("w"); len(only.Inputs) != 1 || only.Inputs[0].Name != "image" || len(only.Layers) != 6 {
		t.Errorf("kept %d inputs and %d layers, want 1 and 6", len(only.Inputs), len(only.Layers))
	}
	if _, err := net.New[float32](cfg.Keep("nobody")); err == nil {
		t.Error("unknown output accepted")
	}
}

func newNet(t *testing.T, cfg net.Config) *net.Net[float32] {
	t.Helper()
	n, err := net.New[float32](cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Init(5)
	return n
}

// compute returns y of n for an image and a time.
func compute(n *net.Net[float32]) []float32 {
	p := n.NewPass(nil, 1)
	for t := range p.In("image").Rows {
		for c := range 3 {
			p.In("image").Row(t)[c] = float32((t*7+c*5)%11) / 11
		}
	}
	p.In("t").Row(0)[0] = 0.5
	p.Forward(1)
	var out []float32
	for t := range p.Out("y").Rows {
		out = append(out, p.Out("y").Row(t)...)
	}
	return out
}
