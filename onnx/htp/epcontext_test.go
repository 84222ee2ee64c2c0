package htp_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

// sampleContext is the context of htptest and its bytes.
func sampleContext(t testing.TB, change func(*htp.Context)) (*htp.Context, []byte) {
	t.Helper()
	c := htptest.Sample()
	if change != nil {
		change(&c)
	}
	b := htptest.Context(c)
	read, err := htp.ReadContext(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return read, b
}

// written returns a model as read back from disk.
func written(t testing.TB, m *onnx.Model) *onnx.Model {
	t.Helper()
	var b bytes.Buffer
	if _, err := onnx.Write(&b, m); err != nil {
		t.Fatal(err)
	}
	back, err := onnx.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range back.Check(onnx.CheckOptions{Domains: []string{htp.Domain}}) {
		if !strings.Contains(p.Text, "compiled code for a device") { // as expected
			t.Errorf("the model has a fault: %v", p)
		}
	}
	return back
}

// A wrapper matches its context.
func TestWrap(t *testing.T) {
	c, b := sampleContext(t, nil)
	for _, opt := range []htp.WrapOptions{{File: "sub/a.bin"}, {Bytes: b}} {
		m, err := htp.Wrap(c, opt)
		if err != nil {
			t.Fatal(err)
		}
		got, err := htp.ReadEPContext(written(t, m))
		if err != nil {
			t.Fatal(err)
		}
		n := got.Nodes[0]
		if len(got.Nodes) != 1 || n.Graph != "main" || n.SDK != c.Build || !n.Main || !n.QNN() || n.File != opt.File || n.Embed != (opt.Bytes != nil) || !bytes.Equal(n.Bytes, opt.Bytes) {
			t.Errorf("%+v", n)
		}
		if d := n.Compare(c); d != nil {
			t.Errorf("the wrapper differs from its context: %v", d)
		}
	}
}

func TestWrapRefuses(t *testing.T) {
	input := func(change func(*htp.Tensor)) func(*htp.Context) {
		return func(c *htp.Context) { change(&c.Graphs[0].Inputs[0]) }
	}
	for name, tc := range map[string]struct {
		change func(*htp.Context)
		opt    htp.WrapOptions
		want   string
	}{
		"two graphs": {func(c *htp.Context) {
			g := c.Graphs[0]
			g.Name = "decode"
			c.Graphs = append(c.Graphs, g)
		}, htp.WrapOptions{File: "a.bin"}, "has 2, choose one of main, decode"},
		"no such graph":    {nil, htp.WrapOptions{File: "a.bin", Graph: "x"}, `unknown graph "x", the context has main`},
		"absolute":         {nil, htp.WrapOptions{File: "/a.bin"}, "is absolute"},
		"out of the way":   {nil, htp.WrapOptions{File: "../a.bin"}, "leaves the model's folder"},
		"of the processor": {func(c *htp.Context) { c.Backend, c.Arch = htp.CPU, 0; c.Graphs[0].Memory = nil }, htp.WrapOptions{File: "a.bin"}, "backend CPU"},
		"dynamic":          {input(func(x *htp.Tensor) { x.Dynamic = []bool{true, false} }), htp.WrapOptions{File: "a.bin"}, "dynamic dimension"},
		"four bits":        {input(func(x *htp.Tensor) { x.DType = htp.UFixed4 }), htp.WrapOptions{File: "a.bin"}, "ufixed4 is not an ONNX type"},
		"unread":           {func(c *htp.Context) { c.Schema = 2 }, htp.WrapOptions{File: "a.bin"}, "schema 2"},
	} {
		c, _ := sampleContext(t, tc.change)
		if m, err := htp.Wrap(c, tc.opt); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v; want %s", name, m, err, tc.want)
		}
	}
}

// ONNX Runtime maps by position, so every difference counts.
func TestCompare(t *testing.T) {
	two := func(c *htp.Context) {
		x := c.Graphs[0].Inputs[0]
		x.Name, x.ID = "z", 9
		c.Graphs[0].Inputs = append(c.Graphs[0].Inputs, x)
	}
	for name, tc := range map[string]struct {
		change func(m *onnx.Model)
		want   []string
	}{
		"as it is":        {func(*onnx.Model) {}, nil},
		"another graph":   {func(m *onnx.Model) { m.Graph.Nodes[0].Attributes[4].String = []byte("other") }, []string{"graph other main"}},
		"swapped":         {func(m *onnx.Model) { m.Graph.Nodes[0].Inputs = []string{"z", "x"} }, []string{"input 0 z x", "input 1 x z"}},
		"one is missing":  {func(m *onnx.Model) { m.Graph.Nodes[0].Inputs = []string{"x"} }, []string{"inputs 1 2"}},
		"another type":    {func(m *onnx.Model) { m.Graph.Inputs[0].Type.DType = onnx.INT8 }, []string{`input "x", element type int8 float32`}},
		"another shape":   {func(m *onnx.Model) { m.Graph.Outputs[0].Type.Dims[0].Value = 5 }, []string{`output "y", dimensions [5 8] [4 8]`}},
		"a named size":    {func(m *onnx.Model) { m.Graph.Outputs[0].Type.Dims[0] = onnx.Dim{Value: -1, Param: "N"} }, []string{`output "y", dimensions [N 8] [4 8]`}},
		"a type left out": {func(m *onnx.Model) { m.Graph.Outputs[0].Type = onnx.Type{} }, nil},
	} {
		c, _ := sampleContext(t, two)
		m, err := htp.Wrap(c, htp.WrapOptions{File: "a.bin"})
		if err != nil {
			t.Fatal(err)
		}
		tc.change(m)
		got, err := htp.ReadEPContext(m)
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, d := range got.Nodes[0].Compare(c) {
			have = append(have, d.What+" "+d.Node+" "+d.Context)
		}
		if d := cmp.Diff(tc.want, have); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestEPContextRefuses(t *testing.T) {
	c, _ := sampleContext(t, nil)
	for name, tc := range map[string]struct {
		change func(n *onnx.Node)
		want   string
	}{
		"no such node":    {func(n *onnx.Node) { n.Domain = "" }, "no node EPContext"},
		"leads out":       {func(n *onnx.Node) { n.Attributes[2].String = []byte("../a.bin") }, "leaves the model's folder"},
		"a number":        {func(n *onnx.Node) { n.Attributes[2] = onnx.Int("ep_cache_context", 1) }, "is not a string"},
		"a text":          {func(n *onnx.Node) { n.Attributes[0] = onnx.String("main_context", "1") }, "is not a number"},
		"a third mode":    {func(n *onnx.Node) { n.Attributes[1].Int = 2 }, "bad embed_mode: got 2"},
		"duplicate":       {func(n *onnx.Node) { n.Attributes = append(n.Attributes, n.Attributes[0]) }, "duplicate attribute"},
		"a mode as float": {func(n *onnx.Node) { n.Attributes[1] = onnx.Float("embed_mode", 1) }, "is not a number"},
	} {
		m, err := htp.Wrap(c, htp.WrapOptions{File: "a.bin"})
		if err != nil {
			t.Fatal(err)
		}
		tc.change(&m.Graph.Nodes[0])
		_, err = htp.ReadEPContext(m)
		if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, htp.ErrOther) != (tc.want == "no node EPContext") {
			t.Errorf("%s: %v; want %s", name, err, tc.want)
		}
	}
}

// Models of ONNX Runtime, with their contexts.
func TestSamples(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/data/qnn/*_ctx.onnx")
	if len(files) == 0 {
		t.Skip("skipped: no ../shared/data/qnn")
	}
	for _, path := range files {
		m, err := onnx.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		got, err := htp.ReadEPContext(m)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(filepath.Dir(path), got.Nodes[0].File))
		if err != nil {
			t.Fatal(err)
		}
		c, err := htp.ReadContext(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if n := got.Nodes[0]; !n.QNN() || n.SDK != c.Build || n.Compare(c) != nil || len(got.Left) != 0 {
			t.Errorf("%s: %+v, %v", path, n, n.Compare(c))
		}
	}
}

func FuzzOf(f *testing.F) {
	c, b := sampleContext(f, func(c *htp.Context) { c.BlobSize = 64 })
	for _, opt := range []htp.WrapOptions{{File: "a.bin"}, {Bytes: b}} {
		m, err := htp.Wrap(c, opt)
		if err != nil {
			f.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := onnx.Write(&out, m); err != nil {
			f.Fatal(err)
		}
		f.Add(out.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := onnx.Parse(b)
		if err != nil {
			return
		}
		got, err := htp.ReadEPContext(m)
		if err != nil {
			return
		}
		for _, n := range got.Nodes {
			n.Compare(c)
			if n.Main && !n.Embed && onnx.CheckLocation(n.File) != nil {
				t.Fatalf("a context at %q", n.File)
			}
		}
	})
}
