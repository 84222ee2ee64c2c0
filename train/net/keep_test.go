package net_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/net"
)

// What is kept of a network gives the same, with tensors of the same names, and
// nothing of what was left out.
func TestKeep(t *testing.T) {
	cfg := pictures()
	cfg.Layers = append(cfg.Layers, net.Layer{Name: "z", Kind: "linear", Inputs: []string{"x"}, Out: 3}, net.Layer{Kind: "gelu", Name: "w"})
	cfg.Outputs = []string{"y", "w"}
	kept := cfg.Keep("y")
	if d := cmp.Diff(net.Config{Outputs: []string{"y"}}.Outputs, kept.Outputs); d != "" {
		t.Error(d)
	}
	whole, part := made(t, cfg), made(t, kept)
	for _, to := range part.Params().Tensors() {
		copy(to.Data, whole.Params().Tensor(to.Name).Data)
	}
	if whole.Params().Tensor("z.weight") == nil || part.Params().Tensor("z.weight") != nil {
		t.Error("a layer that y does not follow from was kept")
	}
	part.Pack(true)
	if d := cmp.Diff(given(whole), given(part)); d != "" {
		t.Error(d)
	}
	if only := cfg.Keep("w"); len(only.Inputs) != 1 || only.Inputs[0].Name != "image" || len(only.Layers) != 6 {
		t.Errorf("w follows from one input and six layers, kept were %d and %d", len(only.Inputs), len(only.Layers))
	}
	if _, err := net.New[float32](cfg.Keep("nobody")); err == nil {
		t.Error("an output that is no layer was accepted")
	}
}

func made(t *testing.T, cfg net.Config) *net.Net[float32] {
	t.Helper()
	n, err := net.New[float32](cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Init(5)
	return n
}

// given is what n gives as y of a picture and a time.
func given(n *net.Net[float32]) []float32 {
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
