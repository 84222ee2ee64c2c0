package qnn_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn"
)

// recorded returns an engine whose libraries exist only as a record, of SDK 2.47; started reports whether
// mm-native was started.
func recorded(t *testing.T) (e *qnn.Engine, started func() bool) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("skipped: scripts are no programs there")
	}
	home := t.TempDir()
	const version = "2.47.0+260601114230"
	put := func(mode os.FileMode, text string, elem ...string) string {
		path := filepath.Join(append([]string{home}, elem...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put(0o600, `{"name":"qnn","version":"`+version+`"}`, "engines", "qnn", version, "engine.json")
	mark := filepath.Join(home, "started")
	t.Setenv("MM_NATIVE", put(0o700, "#!/bin/sh\ntouch "+mark+"\nexit 3\n", "mm-native"))
	return &qnn.Engine{Home: func() (string, error) { return home, nil }}, func() bool {
		_, err := os.Lstat(mark)
		return err == nil
	}
}

// wrapped writes a changed model around a context.
func wrapped(t *testing.T, dir string, c htp.Context, change func(*onnx.Model)) string {
	t.Helper()
	file := filepath.Join(dir, "c.bin")
	if err := os.WriteFile(file, htptest.Context(c), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := htp.Wrap(&c, htp.WrapOptions{File: "c.bin"})
	if err != nil {
		t.Fatal(err)
	}
	change(m)
	return write(t, filepath.Join(dir, "c_ctx.onnx"), m)
}

// A file that cannot run is refused by its contents, with a specific reason, before anything starts.
func TestRefused(t *testing.T) {
	sample := func(change func(*htp.Context)) []byte {
		c := htptest.Sample()
		change(&c)
		return htptest.Context(c)
	}
	two := htptest.Sample()
	two.Graphs[0].Inputs = append(two.Graphs[0].Inputs, htp.Tensor{ID: 3, Name: "z", DType: htp.Float32, Dims: []uint32{4, 16}, Version: 1, Quant: htp.Quantization{Encoding: htp.Unquantized}})
	good := sample(func(*htp.Context) {})
	for name, c := range map[string]struct {
		data   []byte
		wrap   func(*onnx.Model)
		device string
		ports  *modules.Manifest
		want   []string
	}{
		"a newer SDK": {data: sample(func(c *htp.Context) {
			c.Build, c.Core.Minor, c.API.Minor = "v2.51.0.260929181845", 40, 51
		}), want: []string{"v2.51.0.260929181845", "v2.47.0.260601114230"}},
		"another backend":      {data: sample(func(c *htp.Context) { c.Backend = htp.CPU }), want: []string{"backend", "CPU", "HTP"}},
		"another chip":         {data: good, device: "SM8650", want: []string{"another chip", "v79", "v75"}},
		"of one architecture":  {data: sample(func(c *htp.Context) { c.SoC, c.Arch = 43, 73 }), device: "soc:66", want: []string{"soc: the file", "(43)", "(66)"}},
		"another architecture": {data: good, device: "v75", want: []string{"arch", "v79", "v75"}},
		"a chip against arch":  {data: sample(func(c *htp.Context) { c.Arch = 75 }), want: []string{"contradicts the table"}},
		"no such device":       {data: good, device: "abacus", want: []string{"device abacus"}},
		"cut off":              {data: good[:len(good)-1], want: []string{"truncated"}},
		"nothing":              {data: nil, want: []string{"empty"}},
		"another file":         {data: []byte("GGUF and no context"), want: []string{"not a QNN file"}},
		"an unknown element":   {data: sample(func(c *htp.Context) { c.Graphs[0].Inputs[0].DType = 0x999 }), want: []string{"dtype"}},
		"a dynamic dimension":  {data: sample(func(c *htp.Context) { c.Graphs[0].Inputs[0].Dynamic = []bool{true, false} }), want: []string{"x"}},
		"a processor's part": {data: htptest.LiteRT{Stamp: "SM8750", Parts: []htptest.Part{{Graph: "main", Context: good}}, Left: []uint32{156}}.Bytes(),
			want: []string{"operators", "ATAN2"}},
		"two contexts": {data: htptest.LiteRT{Parts: []htptest.Part{{Graph: "main", Context: good}, {Graph: "main", Context: sample(func(c *htp.Context) { c.SoC, c.Arch = 57, 75 })}}}.Bytes(),
			want: []string{"2 contexts"}},
		"two contexts and a processor's part": {data: htptest.LiteRT{Parts: []htptest.Part{{Graph: "main", Context: good}, {Graph: "main", Context: sample(func(c *htp.Context) { c.SoC, c.Arch = 57, 75 })}}, Left: []uint32{156, 156}}.Bytes(),
			want: []string{"2 contexts", "ATAN2 2"}},
		"another port":    {data: good, ports: ports("image", "y", abi.FP32), want: []string{`"image"`, "missing in the graph"}},
		"another type":    {data: good, ports: ports("x", "y", abi.DType("int64")), want: []string{"int64", "fp32"}},
		"renamed inputs":  {wrap: func(m *onnx.Model) { rename(m, "x", "z") }, want: []string{"wrapper", "input 0"}},
		"swapped inputs":  {wrap: func(m *onnx.Model) { n := m.Graph.Nodes[0].Inputs; n[0], n[1] = n[1], n[0] }, want: []string{"wrapper", "input 0"}},
		"reshaped inputs": {wrap: func(m *onnx.Model) { m.Graph.Inputs[0].Type.Dims[0].Value = 5 }, want: []string{"wrapper", "dimensions"}},
		"retyped inputs":  {wrap: func(m *onnx.Model) { m.Graph.Inputs[0].Type.DType = onnx.INT32 }, want: []string{"wrapper", "element type"}},
		"another source":  {wrap: func(m *onnx.Model) { attribute(m, "source").String = []byte("VitisAI") }, want: []string{"VitisAI"}},
		"a path upwards":  {wrap: func(m *onnx.Model) { attribute(m, "ep_cache_context").String = []byte("../c.bin") }, want: []string{"c.bin"}},
		"no such graph":   {wrap: func(m *onnx.Model) { attribute(m, "partition_name").String = []byte("other") }, want: []string{"graph", "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, started := recorded(t)
			dir := t.TempDir()
			b := bundle(abi.QNN, filepath.Join(dir, "m.bin"))
			if err := os.WriteFile(filepath.Join(dir, "m.bin"), c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.wrap != nil {
				b = bundle(abi.QNN, wrapped(t, dir, two, c.wrap), filepath.Join(dir, "c.bin"))
			}
			b.Manifest = c.ports
			m, err := e.Open(t.Context(), b, runtimes.Limits{Device: c.device})
			if err == nil {
				m.Close()
				t.Fatal("it opened")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\nwant %q", err, w)
				}
			}
			if started() {
				t.Error("mm-native was started for it")
			}
		})
	}
	// The refusals above are due to the changes: unchanged, the file comes as
	// far as mm-native.
	e, started := recorded(t)
	path := filepath.Join(t.TempDir(), "m.bin")
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Open(t.Context(), bundle(abi.QNN, path), runtimes.Limits{Device: "SM8750"}); err == nil || !started() {
		t.Errorf("a sound context: %v", err)
	}
}

// ports returns a manifest with one input and one output.
func ports(in, out string, d abi.DType) *modules.Manifest {
	return &modules.Manifest{Tensors: modules.Tensors{Inputs: []abi.Port{{Name: in, DType: d}}, Outputs: []abi.Port{{Name: out}}}}
}

func attribute(m *onnx.Model, name string) *onnx.Attribute {
	for i := range m.Graph.Nodes[0].Attributes {
		if a := &m.Graph.Nodes[0].Attributes[i]; a.Name == name {
			return a
		}
	}
	panic(fmt.Sprintf("no attribute %s", name))
}

func rename(m *onnx.Model, from, to string) {
	for i := range m.Graph.Inputs {
		switch m.Graph.Inputs[i].Name {
		case from:
			m.Graph.Inputs[i].Name = to
		case to:
			m.Graph.Inputs[i].Name = from
		}
	}
	n := m.Graph.Nodes[0].Inputs
	n[0], n[1] = n[1], n[0]
}
