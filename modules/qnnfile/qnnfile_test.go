package qnnfile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func sample(change func(*htp.Context)) []byte {
	c := htptest.Sample()
	c.BlobSize = 512
	if change != nil {
		change(&c)
	}
	return htptest.Context(c)
}

func write(t testing.TB, path string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// world writes one file of each format and returns their paths.
func world(t testing.TB, dir string) map[string]string {
	t.Helper()
	plain := sample(nil)
	mixed := htptest.LiteRT{Stamp: "SM8750", Left: []uint32{156}, Parts: []htptest.Part{{Graph: "main", Context: plain}, {Graph: "main", Context: sample(func(c *htp.Context) { c.BlobSize = 100 })}}}
	whole := htptest.LiteRT{Stamp: "SM8750", Parts: mixed.Parts[:1]}
	out := map[string]string{}
	for name, b := range map[string][]byte{
		"a.bin": plain, "whole.tflite": whole.Bytes(), "mixed.tflite": mixed.Bytes(), "net.dlc": htptest.DLC("net", nil), "cached.dlc": htptest.DLC("net", plain),
	} {
		out[name] = write(t, filepath.Join(dir, name), b)
	}
	for name, embed := range map[string]bool{"beside_ctx.onnx": false, "inside_ctx.onnx": true} {
		out[name] = filepath.Join(dir, name)
		if _, err := qnnfile.Wrap(out["a.bin"], qnnfile.WrapOptions{Out: out[name], Embed: embed, Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// target is one of which everything is known.
func target(t testing.TB, name, build string) htp.Target {
	t.Helper()
	x, err := htp.ParseTarget(name, htp.KnownChips())
	if err != nil {
		t.Fatal(err)
	}
	x.Memory = 1 << 30
	x.Libs = &htp.Libraries{Dir: "lib", HTP: true, System: true, Stubs: []htp.Arch{69, 73, 79}, Skels: []htp.Arch{69, 73, 79}, Build: build, Builds: 1}
	return x
}

func right(t testing.TB) htp.Target { return target(t, "SM8750@2.47", "v2.47.0.260601114230") }

// Files made from one context are reported the same way.
func TestFormats(t *testing.T) {
	files := world(t, t.TempDir())
	for name, want := range map[string]struct {
		format   qnnfile.Format
		contexts int
		fits     bool
		codes    []diag.Code
	}{
		"a.bin":           {qnnfile.Context, 1, true, nil},
		"whole.tflite":    {qnnfile.LiteRT, 1, true, nil},
		"mixed.tflite":    {qnnfile.LiteRT, 2, false, []diag.Code{diag.OperatorsLeft, diag.OperatorsLeft}},
		"beside_ctx.onnx": {qnnfile.EPContext, 1, true, nil},
		"inside_ctx.onnx": {qnnfile.EPContext, 1, true, nil},
		"net.dlc":         {qnnfile.DLC, 0, false, []diag.Code{diag.QNNNoContext}},
		"cached.dlc":      {qnnfile.DLC, 1, true, nil},
	} {
		v, err := qnnfile.Inspect(files[name], htp.KnownChips())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v.Format != want.format || len(v.Contexts) != want.contexts {
			t.Errorf("%s: %s with %d contexts", name, v.Format, len(v.Contexts))
		}
		for _, c := range v.Contexts {
			if c.SoCModel != 69 || c.Arch != "v79" || !cmp.Equal(c.SoCs, []string{"SM8750"}) || c.Graphs[0].Inputs[0].Bytes != 256 || !c.Graphs[0].Used {
				t.Errorf("%s: %+v", name, c)
			}
		}
		r, err := qnnfile.Check(files[name], qnnfile.CheckOptions{Target: right(t)})
		if err != nil {
			t.Fatal(err)
		}
		if r.Fits != want.fits {
			t.Errorf("%s: fits %v: %v", name, r.Fits, r.Faults)
		}
		var codes []diag.Code
		for _, d := range r.Faults {
			codes = append(codes, d.Code)
		}
		if d := cmp.Diff(want.codes, codes); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Each axis that does not fit has its code.
func TestCodes(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		change func(*htp.Context)
		on     func(*htp.Target)
		want   diag.Code
	}{
		"backend":   {func(c *htp.Context) { c.Backend = htp.CPU }, nil, diag.TargetBackend},
		"arch":      {func(c *htp.Context) { c.SoC, c.Arch = 57, 75 }, nil, diag.TargetChip},
		"sdk":       {func(c *htp.Context) { c.Build, c.API.Minor = "v2.51.0.260929181845", 51 }, nil, diag.TargetSDK},
		"libraries": {nil, func(x *htp.Target) { x.Libs.Skels = nil }, diag.TargetLibraries},
		"dtype":     {func(c *htp.Context) { c.Graphs[0].Inputs[0].Dims = []uint32{0} }, nil, diag.TargetDType},
		"memory":    {nil, func(x *htp.Target) { x.Memory = 1 }, diag.TargetMemory},
		"unknown":   {nil, func(x *htp.Target) { x.Memory = 0 }, diag.TargetUnknown},
	} {
		x := right(t)
		if tc.on != nil {
			tc.on(&x)
		}
		r, err := qnnfile.Check(write(t, filepath.Join(dir, "c.bin"), sample(tc.change)), qnnfile.CheckOptions{Target: x})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, d := range r.Faults {
			found = found || d.Code == tc.want && d.Severity == diag.Error
		}
		if r.Fits || !found {
			t.Errorf("%s: fits %v: %v", name, r.Fits, r.Faults)
		}
	}
}

// An unknown axis passes if accepted; one that does not fit never passes.
func TestAccept(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "c.bin"), sample(nil))
	x := right(t)
	x.Memory, x.Libs = 0, nil
	for _, tc := range []struct {
		accept []string
		fits   bool
	}{{nil, false}, {[]string{"skel"}, false}, {[]string{"skel", "memory"}, true}} {
		r, err := qnnfile.Check(path, qnnfile.CheckOptions{Target: x, Accept: tc.accept})
		if err != nil || r.Fits != tc.fits {
			t.Errorf("%v: %v, %v", tc.accept, r.Fits, err)
		}
	}
	r, err := qnnfile.Check(path, qnnfile.CheckOptions{Target: x, Partial: true})
	if err != nil || !r.Fits || !slices.Equal(r.Unchecked, []string{"skel", "memory"}) {
		t.Errorf("chip and SDK alone: %+v, %v", r, err)
	}
	if r, err := qnnfile.Check(path, qnnfile.CheckOptions{Target: right(t), Partial: true}); err != nil || !r.Fits || len(r.Unchecked) > 0 {
		t.Errorf("all specified: %+v, %v", r, err)
	}
	unread := write(t, filepath.Join(t.TempDir(), "c.bin"), sample(func(c *htp.Context) { c.Schema = 2 }))
	if r, err := qnnfile.Check(unread, qnnfile.CheckOptions{Target: x, Accept: htp.Axes()}); err != nil || r.Fits {
		t.Errorf("a file that cannot be read fits: %+v, %v", r, err)
	}
	other := target(t, "SM8550@2.47", "v2.47.0.260601114230")
	if r, err := qnnfile.Check(path, qnnfile.CheckOptions{Target: other, Accept: htp.Axes()}); err != nil || r.Fits {
		t.Errorf("%+v, %v", r, err)
	}
}

// A stamp of another chip, another maker or none.
func TestStamp(t *testing.T) {
	dir := t.TempDir()
	for stamp, want := range map[string]htp.Verdict{"SM8750": htp.Fits, "sm8750": htp.Fits, "V79": htp.Fits, "SM8650": htp.Not, "SXR2330P": htp.Not, "V75": htp.Not, "SM9999": htp.Unknown, "": htp.Unknown} {
		m := htptest.LiteRT{Stamp: stamp, Parts: []htptest.Part{{Graph: "main", Context: sample(nil)}}}
		r, err := qnnfile.Check(write(t, filepath.Join(dir, "m.tflite"), m.Bytes()), qnnfile.CheckOptions{Target: right(t)})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range r.Contexts[0].Axes {
			if a.Name == htp.AxisStamp && a.Verdict != want {
				t.Errorf("%q: %+v", stamp, a)
			}
		}
	}
}

// A replaced context of a wrapper is reported, and so is a missing one.
func TestWrapper(t *testing.T) {
	dir := t.TempDir()
	files := world(t, dir)
	write(t, files["a.bin"], sample(func(c *htp.Context) { c.Graphs[0].Inputs[0].Name = "z" }))
	r, err := qnnfile.Check(files["beside_ctx.onnx"], qnnfile.CheckOptions{Target: right(t)})
	if err != nil || r.Fits || r.Faults[0].Code != diag.WrapperDiffers || !strings.Contains(r.Faults[0].Detail, "input 0: x in the model, z in the context") {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.Remove(files["a.bin"]); err != nil {
		t.Fatal(err)
	}
	var faults *diag.Faults
	if _, err := qnnfile.Inspect(files["beside_ctx.onnx"], htp.KnownChips()); !errors.As(err, &faults) || !strings.Contains(err.Error(), `missing context "a.bin" next to the model`) {
		t.Error(err)
	}
}

// Extracted contexts equal the embedded ones, once each; no file is overwritten.
func TestExtract(t *testing.T) {
	dir := t.TempDir()
	files, plain := world(t, dir), sample(nil)
	for name, count := range map[string]int{"mixed.tflite": 2, "inside_ctx.onnx": 1, "cached.dlc": 1} {
		out := filepath.Join(dir, name+".out")
		x, err := qnnfile.Extract(context.Background(), files[name], out, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Files) != count || (len(x.Left) == 1) != (name == "mixed.tflite") {
			t.Errorf("%+v", x)
		}
		if b, err := os.ReadFile(x.Files[0].File); err != nil || !bytes.Equal(b, plain) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if _, err := qnnfile.Extract(context.Background(), files[name], out, false); !errors.Is(err, qnnfile.ErrExists) {
			t.Error(err)
		}
		if _, err := qnnfile.Extract(context.Background(), files[name], out, true); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string][2]string{
		"a.bin": {"a context itself", "as it is"}, "beside_ctx.onnx": {"in another file", "use "}, "net.dlc": {"without a context", "compile the model first"},
	} {
		_, err := qnnfile.Extract(context.Background(), files[name], dir, true)
		if list, ok := diag.From(err); !ok || !strings.Contains(list[0].Detail, want[0]) || !strings.Contains(list[0].Hint, want[1]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(dir, "cut")
	if _, err := qnnfile.Extract(gone, files["cached.dlc"], out, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(out, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWrapRefuses(t *testing.T) {
	dir := t.TempDir()
	files := world(t, dir)
	for name, tc := range map[string]struct {
		path string
		opt  qnnfile.WrapOptions
		want string
	}{
		"outside":       {files["a.bin"], qnnfile.WrapOptions{Out: filepath.Join(dir, "sub", "m.onnx")}, "is outside of the folder"},
		"there already": {files["a.bin"], qnnfile.WrapOptions{Out: files["net.dlc"]}, "file exists"},
		"no context":    {files["net.dlc"], qnnfile.WrapOptions{Out: filepath.Join(dir, "m.onnx")}, "is a dlc, not a context"},
		"no graph":      {files["a.bin"], qnnfile.WrapOptions{Out: filepath.Join(dir, "m.onnx"), Graph: "g"}, `unknown graph "g"`},
	} {
		if w, err := qnnfile.Wrap(tc.path, tc.opt); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
}

// Nodes that share a context are reported with the one that names it.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	b := sample(func(c *htp.Context) {
		g := c.Graphs[0]
		g.Name = "decode"
		c.Graphs = append(c.Graphs, g)
	})
	path := write(t, filepath.Join(dir, "two.bin"), b)
	c, err := htp.ReadContext(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := htp.Wrap(c, htp.WrapOptions{Graph: "main", File: "two.bin"})
	if err != nil {
		t.Fatal(err)
	}
	second := m.Graph.Nodes[0]
	second.Name, second.Outputs = "second", []string{"y2"}
	second.Attributes = []onnx.Attribute{onnx.Int("main_context", 0), onnx.Int("embed_mode", 0), onnx.String("partition_name", "decode"), onnx.String("source", "QNNExecutionProvider")}
	m.Graph.Nodes = append(m.Graph.Nodes, second)
	var out bytes.Buffer
	if _, err := onnx.Write(&out, m); err != nil {
		t.Fatal(err)
	}
	model := write(t, filepath.Join(dir, "two.onnx"), out.Bytes())
	v, err := qnnfile.Inspect(model, htp.KnownChips())
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Contexts) != 1 || len(v.ONNX.Nodes) != 2 || !v.Contexts[0].Graphs[1].Used || v.Contexts[0].File != path || len(v.ONNX.Nodes[1].Differs) != 1 {
		t.Errorf("%+v %+v", v.Contexts, v.ONNX)
	}
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	plain := sample(nil)
	wrong := htptest.LiteRT{Parts: []htptest.Part{{Graph: "other", Context: plain}}}
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"empty.tflite": {nil, "the file is empty"},
		"text.bin":     {[]byte("a text"), "detected text"},
		"cut.bin":      {plain[:len(plain)-1], "truncated"},
		"cpu.tflite":   {htptest.LiteRT{Left: []uint32{3}}.Bytes(), "missing operator DISPATCH_OP"},
		"graph.tflite": {wrong.Bytes(), `missing graph "other"`},
		"code.tflite":  {htptest.LiteRT{Parts: []htptest.Part{{Graph: "g", Context: []byte("no context at all, really none")}}}.Bytes(), "bytecode 0 at"},
		"zip.dlc":      {[]byte("PK\x03\x04 and no more"), "dlc"},
	} {
		var faults *diag.Faults
		path := write(t, filepath.Join(dir, name), tc.file)
		if _, err := qnnfile.Inspect(path, htp.KnownChips()); !errors.As(err, &faults) || faults.List[0].Code != diag.QNNUnread || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := qnnfile.Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := qnnfile.Open(dir); err == nil {
		t.Error("a folder was opened")
	}
}

// Two thousand damaged files of all formats: nothing panics, the report adds
// up, and none comes to fit a target of another chip and an older SDK, as the
// intact ones do not: a file has its chip and its SDK in two
// places each. MM_HOSTILE is another number for each file.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	files := world(t, dir)
	each := 2000/len(files) + 1
	if n, err := strconv.Atoi(os.Getenv("MM_HOSTILE")); err == nil {
		each = n
	}
	wrong := target(t, "SM8550@2.40", "v2.40.0.251030000000")
	total, read, fits := 0, 0, 0
	for name, path := range files {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range each {
			total++
			damaged := filepath.Join(dir, "damaged"+filepath.Ext(name))
			write(t, damaged, htptest.Mutate(whole, 3000, uint64(seed)))
			v, err := qnnfile.Inspect(damaged, htp.KnownChips())
			if err != nil {
				continue
			}
			read++
			if _, err := json.Marshal(v); err != nil {
				t.Fatalf("%s, %d: %v", name, seed, err)
			}
			for _, c := range v.Contexts {
				if c.Bytes != c.BlobOffset+c.BlobBytes || c.File == damaged && c.Offset+c.Bytes > v.Bytes {
					t.Fatalf("%s, %d: %+v", name, seed, c)
				}
			}
			if r, err := qnnfile.Check(damaged, qnnfile.CheckOptions{Target: wrong, Accept: htp.Axes()}); err == nil && r.Fits {
				t.Fatalf("%s, %d: a damaged file fits %s", name, seed, r.Target)
			}
			if r, err := qnnfile.Check(damaged, qnnfile.CheckOptions{Target: right(t)}); err == nil && r.Fits {
				fits++
			}
		}
	}
	t.Logf("%d damaged files, %d of them still read, %d still fit where the whole ones do", total, read, fits)
	if read == 0 || read == total || fits == 0 {
		t.Error("the test is blind")
	}
}

// The report about files from Qualcomm's and Microsoft's tools.
func TestSamples(t *testing.T) {
	const dir = "../../../shared/data/qnn"
	files, _ := filepath.Glob(dir + "/*")
	var told bytes.Buffer
	enc := json.NewEncoder(&told)
	enc.SetIndent("", " ")
	for _, path := range files {
		switch filepath.Ext(path) {
		case ".bin", ".onnx", ".tflite":
		default:
			continue
		}
		v, err := qnnfile.Inspect(path, htp.KnownChips())
		if err != nil {
			t.Error(err)
			continue
		}
		v.File = filepath.Base(v.File)
		for i := range v.Contexts {
			v.Contexts[i].File = filepath.Base(v.Contexts[i].File)
		}
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if told.Len() == 0 {
		t.Skip("skipped: no ../shared/data/qnn")
	}
	golden := filepath.Join("testdata", "samples.json")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, golden, told.Bytes())
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), told.String()); d != "" {
		t.Error(d)
	}
}
