package net_test

import (
	"fmt"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/nn"
)

// vit is an encoder of images of 128×128 pixels.
func vit(patch int) net.Config {
	c := net.Config{
		Inputs: []net.Port{{Name: "image", Rows: 128 * 128, Cols: 3}},
		Layers: []net.Layer{{Name: "patches", Kind: "patches", Out: 192, Kernel: net.Sizes{patch}}, {Name: "position", Kind: "position"}},
	}
	for i := range 4 {
		c.Layers = append(c.Layers, net.Layer{Name: fmt.Sprintf("block%d", i), Kind: "block", Heads: 6})
	}
	c.Layers = append(c.Layers, net.Layer{Name: "last", Kind: "layer_norm"}, net.Layer{Kind: "mean"}, net.Layer{Name: "class", Kind: "linear", Out: 10})
	c.Outputs = []string{"class"}
	return c
}

// dit predicts the velocity of 256 tokens of 48 numbers from text vectors.
func dit() net.Config {
	c := net.Config{
		Inputs: []net.Port{{Name: "x", Rows: 256, Cols: 48}, {Name: "t", Rows: 1, Cols: 1}, {Name: "text", Rows: 16, Cols: 192}},
		Layers: []net.Layer{
			{Name: "t.wave", Kind: "time", Inputs: []string{"t"}, Out: 128}, {Name: "t.up", Kind: "linear", Out: 192}, {Name: "t.act", Kind: "silu"}, {Name: "c", Kind: "linear", Out: 192},
			{Name: "in", Kind: "linear", Inputs: []string{"x"}, Out: 192}, {Name: "position", Kind: "position"},
		},
	}
	for i := range 4 {
		c.Layers = append(c.Layers, net.Layer{Name: fmt.Sprintf("block%d", i), Kind: "block", Heads: 6, Memory: "text", Condition: "c"})
	}
	c.Layers = append(c.Layers, net.Layer{Name: "last", Kind: "layer_norm"}, net.Layer{Name: "v", Kind: "linear", Out: 48})
	c.Outputs = []string{"v"}
	return c
}

// cnn is a convolutional encoder of images of 64×64 pixels and a decoder back
// to them.
func cnn() net.Config {
	conv := func(out, stride int) net.Layer {
		return net.Layer{Kind: "conv2d", Out: out, Kernel: net.Sizes{3}, Stride: net.Sizes{stride}, Pad: net.Sizes{1}}
	}
	gelu, twice := net.Layer{Kind: "gelu"}, net.Layer{Kind: "upsample2d", Factor: 2}
	c := net.Config{Inputs: []net.Port{{Name: "image", Rows: 64 * 64, Cols: 3, Height: 64}}, Outputs: []string{"y"}}
	c.Layers = []net.Layer{conv(32, 1), gelu, conv(64, 2), gelu, conv(128, 2), gelu, conv(128, 1), gelu, twice, conv(64, 1), gelu, twice, conv(32, 1), gelu, conv(3, 1)}
	for i := range c.Layers {
		c.Layers[i].Name = fmt.Sprintf("%s%d", c.Layers[i].Kind, i)
	}
	c.Layers[len(c.Layers)-1].Name = "y"
	return c
}

func benchmark(b *testing.B, cfg net.Config) {
	n, err := net.New[float32](cfg)
	if err != nil {
		b.Fatal(err)
	}
	n.Init(1)
	p := pool.New(1)
	defer p.Close()
	const B = 16
	pass, r := n.NewPass(p, B), nn.NewRandom(2)
	for _, in := range cfg.Inputs {
		nn.FillNormal(pass.In(in.Name).Data, r, 1)
	}
	dy := pass.OutGrad(cfg.Outputs[0])
	for b.Loop() {
		pass.Forward(B)
		nn.FillNormal(dy.Data[:dy.Cols], r, 1)
		pass.Backward(B, false)
		n.Pack(false)
	}
	b.ReportMetric(float64(n.FLOPs())*B*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

func BenchmarkViT16(b *testing.B) { benchmark(b, vit(16)) }
func BenchmarkViT8(b *testing.B)  { benchmark(b, vit(8)) }
func BenchmarkDiT(b *testing.B)   { benchmark(b, dit()) }
func BenchmarkCNN(b *testing.B)   { benchmark(b, cnn()) }
