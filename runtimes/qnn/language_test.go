package qnn_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/step"
)

// passed is a core in a folder: a model of random weights, a context with the inputs and outputs of its
// pass, and the record of both.
type passed struct {
	context htp.Context
	record  map[string]any
	of      step.Record
	dir     string
}

const (
	positions = 2
	places    = 16 // of the window
)

func digestOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

func newPassed(t *testing.T) *passed {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "core")
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core", Seed: 3, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(filepath.Join(dir, "core.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := arch.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	p := &passed{context: htptest.Sample(), dir: dir}
	m, err := window.Step(f, window.StepOptions{Positions: positions, Window: places})
	if err != nil {
		t.Fatal(err)
	}
	g := &p.context.Graphs[0]
	g.Inputs, g.Outputs = nil, nil
	for i, v := range append(m.Inputs(), m.Graph.Outputs...) {
		tensor := htp.Tensor{ID: uint32(i + 1), Name: v.Name, DType: htp.Float32, Version: 1, Quant: htp.Quantization{Encoding: htp.Unquantized}}
		for _, d := range v.Type.Dims {
			tensor.Dims = append(tensor.Dims, uint32(d.Value))
		}
		if i < len(m.Inputs()) {
			g.Inputs = append(g.Inputs, tensor)
			continue
		}
		tensor.Kind = htptest.Sample().Graphs[0].Outputs[0].Kind
		g.Outputs = append(g.Outputs, tensor)
	}
	p.of = step.Record{Model: digestOf(t, filepath.Join(dir, "core.gguf")), Vocab: s.Vocab, Window: places, Positions: positions}
	p.record = map[string]any{}
	return p
}

// bundle writes the context and the record.
func (p *passed) bundle(t *testing.T) runtimes.Bundle {
	t.Helper()
	file := filepath.Join(p.dir, "core.bin")
	if err := os.WriteFile(file, htptest.Context(p.context), 0o600); err != nil {
		t.Fatal(err)
	}
	r := map[string]any{"context": digestOf(t, file), "language": p.of}
	for key, value := range p.record {
		r[key] = value
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "core.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return runtimes.Bundle{Part: builds.Part{Name: "core", Version: "1.0.0", Type: abi.Core, Files: builds.Formats{"gguf": {"core.gguf"}, "qnn": {"core.bin", "core.json"}}}, Files: folder(p.dir)}
}

// A context of another model, vocabulary or record, or without a pass, is refused before anything starts.
func TestUnpaired(t *testing.T) {
	input := func(p *passed, name string) *htp.Tensor {
		for i := range p.context.Graphs[0].Inputs {
			if in := &p.context.Graphs[0].Inputs[i]; in.Name == name {
				return in
			}
		}
		t.Fatal(name)
		return nil
	}
	for name, c := range map[string]struct {
		context func(*passed)
		bundle  func(*runtimes.Bundle)
		code    diag.Code
		want    []string
	}{
		"another context":    {context: func(p *passed) { p.record["context"] = "sha256:00" }, code: diag.QNNUnpaired, want: []string{"core.bin", "sha256:00"}},
		"another model":      {context: func(p *passed) { p.of.Model = "sha256:11" }, code: diag.QNNUnpaired, want: []string{"sha256:11", "core.gguf"}},
		"another vocabulary": {context: func(p *passed) { p.of.Vocab++ }, code: diag.QNNUnpaired, want: []string{"tokens"}},
		"logits of another vocabulary": {context: func(p *passed) { p.context.Graphs[0].Outputs[0].Dims[2]++ },
			code: diag.QNNUnpaired, want: []string{"output logits"}},
		"another window":     {context: func(p *passed) { p.of.Window++ }, code: diag.QNNUnpaired, want: []string{"mask"}},
		"some layers alone":  {context: func(p *passed) { p.of.Span = window.Span{First: 1, Count: 1} }, code: diag.QNNUnpaired, want: []string{"inputs"}},
		"layers of no model": {context: func(p *passed) { p.of.Span = window.Span{First: 1, Count: 900} }, code: diag.QNNUnpaired, want: []string{"layers 1 to 900"}},
		"a renamed input":    {context: func(p *passed) { input(p, window.PastKey(0)).Name = "other" }, code: diag.QNNUnpaired, want: []string{"lacks", window.PastKey(0)}},
		"an input more": {context: func(p *passed) {
			x := *input(p, window.Cos)
			x.Name, x.ID = "more", 999
			p.context.Graphs[0].Inputs = append(p.context.Graphs[0].Inputs, x)
		}, code: diag.QNNUnpaired, want: []string{"inputs"}},
		"halves":       {context: func(p *passed) { input(p, window.Hidden).DType = htp.Float16 }, code: diag.QNNUnpaired, want: []string{"fp16"}},
		"no record":    {bundle: func(b *runtimes.Bundle) { b.Part.Files["qnn"] = []string{"core.bin"} }, code: diag.QNNUnpaired, want: []string{"core.json"}},
		"a function's": {context: func(p *passed) { p.record["language"] = nil }, code: diag.QNNUnpaired, want: []string{"not a record of a compiled language model"}},
		"no weights":   {bundle: func(b *runtimes.Bundle) { delete(b.Part.Files, "gguf") }, want: []string{"gguf"}},
		"a newer SDK": {context: func(p *passed) {
			p.context.Build, p.context.Core.Minor, p.context.API.Minor = "v2.51.0.260929181845", 40, 51
		}, want: []string{"v2.51.0"}},
		"an adapter":         {bundle: func(b *runtimes.Bundle) { b.Adapters = []runtimes.Adapter{{Bundle: *b, Scale: 1}} }, want: []string{"core@1.0.0", "fixed"}},
		"keys of 8 bits":     {bundle: func(b *runtimes.Bundle) { b.KV = abi.Int8 }, want: []string{"int8"}},
		"a little memory":    {want: []string{"memory"}},
		"a part of no files": {bundle: func(b *runtimes.Bundle) { b.Part.Files["qnn"] = []string{"core.json"} }, want: []string{"no context"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, started := recorded(t)
			p := newPassed(t)
			if c.context != nil {
				c.context(p)
			}
			b := p.bundle(t)
			if c.bundle != nil {
				c.bundle(&b)
			}
			var l runtimes.Limits
			if name == "a little memory" {
				l.Memory = 1000
			}
			m, err := e.Open(t.Context(), b, l)
			if err == nil {
				m.Close()
				t.Fatal("it opened")
			}
			text := err.Error()
			if list, ok := diag.From(err); ok && c.code != "" {
				if text = list[0].Pos.File + list[0].Detail; list[0].Code != c.code {
					t.Errorf("code %s", list[0].Code)
				}
			} else if c.code != "" {
				t.Errorf("no diagnostic: %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("%s\nwant %q", text, w)
				}
			}
			if started() {
				t.Error("mm-native was started for it")
			}
		})
	}
	// Unchanged it comes as far as mm-native.
	e, started := recorded(t)
	if _, err := e.Open(t.Context(), newPassed(t).bundle(t), runtimes.Limits{}); err == nil || !started() {
		t.Errorf("a sound context: %v", err)
	}
}
