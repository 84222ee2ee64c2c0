package inspect_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/onnx"
)

// seeded is the folder of a new module.
func seeded(t *testing.T, opt seed.Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "m")
	if err := seed.Write(dir, opt); err != nil {
		t.Fatal(err)
	}
	return dir
}

func edit(t *testing.T, file, old, with string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), old) {
		t.Fatalf("no %q in %s: %v\n%s", old, file, err, data)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(data), old, with, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// found are the codes, places and texts of what Module finds.
func found(t *testing.T, dir string) []string {
	t.Helper()
	_, list := inspect.Module(context.Background(), dir)
	var out []string
	for _, d := range list {
		if strings.Contains(d.Detail, dir) && d.Code != diag.FileMissing {
			t.Errorf("the file is not called by its own name: %s", d.Detail)
		}
		out = append(out, fmt.Sprintf("%s %d:%d %s", d.Code, d.Pos.Line, d.Pos.Col, d.Detail))
	}
	return out
}

// A difference between manifest and model file is reported at the
// manifest's word, and each fault has a separate position.
func TestGGUF(t *testing.T) {
	for _, tc := range []struct {
		name, old, with string
		want            []string
	}{
		{"sound", "type: core", "type: core", nil},
		{"width", "d_model: 64", "d_model: 72", []string{"MM0211 11:12 core@0.1.0: llama.embedding_length is 64 in core.gguf, 72 in the manifest"}},
		{"length", "max_seq: 512", "max_seq: 100", []string{"MM0211 10:12 core@0.1.0: llama.context_length is 512 in core.gguf, 100 in the manifest"}},
		{"vocabulary", "vocab_size: 268", "vocab_size: 269", []string{"MM0211 9:15 core@0.1.0: core.gguf has 268 tokens, the manifest 269"}},
		{"fewer tokens", "vocab_size: 268", "vocab_size: 267", []string{"MM0211 9:15 core@0.1.0: core.gguf has 268 tokens, the manifest 267"}},
		{"special token that is not there", "- <scratch>", "- <nowhere>", []string{"MM0211 24:7 core@0.1.0: missing token in the vocabulary of core.gguf: <nowhere>"}},
		{"special token that text can forge", "- <scratch>", "- a", []string{"MM0211 24:7 core@0.1.0: a is a plain token in core.gguf: text could forge it"}},
		{"width and vocabulary", "max_seq: 512\n  d_model: 64", "max_seq: 511\n  d_model: 56", []string{
			"MM0211 10:12 core@0.1.0: llama.context_length is 512 in core.gguf, 511 in the manifest", "MM0211 11:12 core@0.1.0: llama.embedding_length is 64 in core.gguf, 56 in the manifest"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := seeded(t, seed.Options{Type: abi.Core, Name: "core", DModel: 64})
			edit(t, filepath.Join(dir, "module.yaml"), tc.old, tc.with)
			if d := cmp.Diff(tc.want, found(t, dir)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A fault of the file itself is reported at the export.
func TestFaultOfTheFile(t *testing.T) {
	dir := seeded(t, seed.Options{Type: abi.Core, Name: "core", DModel: 64})
	rewrite(t, filepath.Join(dir, "core.gguf"), func(kvs []gguf.KV) []gguf.KV {
		for i := range kvs {
			if kvs[i].Key == gguf.KeyTokens {
				kvs[i].Value = uint32(7)
			}
		}
		return kvs
	})
	if got := found(t, dir); len(got) != 1 || !strings.HasPrefix(got[0], "MM0211 28:9 core@0.1.0: core.gguf: ") {
		t.Errorf("%q", got)
	}
}

// A model without a tokenizer still has a token count.
func TestVocabularySizeAlone(t *testing.T) {
	dir := seeded(t, seed.Options{Type: abi.Core, Name: "core", DModel: 64})
	rewrite(t, filepath.Join(dir, "core.gguf"), func(kvs []gguf.KV) []gguf.KV {
		return slices.DeleteFunc(kvs, func(kv gguf.KV) bool { return strings.HasPrefix(kv.Key, "tokenizer.") })
	})
	if got := found(t, dir); got != nil {
		t.Errorf("%q", got)
	}
	edit(t, filepath.Join(dir, "module.yaml"), "vocab_size: 268", "vocab_size: 300")
	if d := cmp.Diff([]string{"MM0211 9:15 core@0.1.0: core.gguf has 268 tokens, the manifest 300"}, found(t, dir)); d != "" {
		t.Error(d)
	}
}

// rewrite changes the metadata of a GGUF file.
func rewrite(t *testing.T, file string, change func([]gguf.KV) []gguf.KV) {
	t.Helper()
	f, err := gguf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var sources []gguf.Source
	for _, tensor := range f.Tensors {
		data := make([]byte, f.Section(tensor).Size())
		if _, err := f.Section(tensor).ReadAt(data, 0); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, gguf.Source{Name: tensor.Name, Type: tensor.Type, Dims: tensor.Dims, Data: gguf.Bytes(data)})
	}
	var out bytes.Buffer
	if _, err := gguf.Write(&out, change(slices.Clone(f.KVs)), sources); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Other weights than a core's are only read.
func TestAdapter(t *testing.T) {
	dir := seeded(t, seed.Options{Type: abi.Adapter, Name: "tuned", DModel: 64})
	if got := found(t, dir); got != nil {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "tuned.gguf"), []byte("GGUF, or not"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := found(t, dir); len(got) != 1 || !strings.Contains(got[0], "MM0211") || !strings.Contains(got[0], "tuned.gguf: ") {
		t.Errorf("%q", got)
	}
}

// Ports, element types and dimensions are compared with the model's, and a
// dimension is named by its meaning.
func TestONNX(t *testing.T) {
	for _, tc := range []struct {
		name, old, with string
		want            []string
	}{
		{"sound", "modality: image", "modality: image", nil},
		{"port that is not there", "name: patch_tokens", "name: tokens", []string{
			`MM0211 13:3 enc@0.1.0: enc.onnx: the file's output "patch_tokens" is not in the manifest`, `MM0211 13:5 enc@0.1.0: enc.onnx: output "tokens" is not in the file, which has patch_tokens`}},
		{"element type", "dtype: uint8", "dtype: fp32", []string{`MM0211 9:5 enc@0.1.0: enc.onnx: "image" is uint8 in the file, fp32 in the manifest`}},
		{"rank", "shape: [T_enc, D_enc]", "shape: [D_enc]", []string{`MM0211 13:5 enc@0.1.0: enc.onnx: "patch_tokens" has 3 dimensions in the file, [D_enc] in the manifest`}},
		{"size by name", "D_enc: 8", "D_enc: 9", []string{`MM0211 14:20 enc@0.1.0: enc.onnx: D_enc (dimension 1) of "patch_tokens" is 8 in the file, 9 in enc@0.1.0 caps.D_enc`}},
		{"size by itself", "shape: [H, W, 3]", "shape: [H, W, 4]", []string{`MM0211 10:19 enc@0.1.0: enc.onnx: dimension 2 of "image" is 3 in the file, 4 in the manifest`}},
		{"both", "shape: [T_enc, D_enc]\n    dtype: fp16", "shape: [T_enc, 7]\n    dtype: fp32", []string{
			`MM0211 13:5 enc@0.1.0: enc.onnx: "patch_tokens" is float16 in the file, fp32 in the manifest`, `MM0211 14:20 enc@0.1.0: enc.onnx: dimension 1 of "patch_tokens" is 8 in the file, 7 in the manifest`}},
		{"raw input that is prepared", "caps:", "preprocess: {layout: NHWC, dtype: uint8}\ncaps:", nil},
		{"prepared by name", "caps:", "preprocess: {image: {layout: NHWC, dtype: uint8, resize: [32, 32]}}\ncaps:", nil},
		{"prepared without a batch", "caps:", "preprocess: {layout: HWC, dtype: uint8}\ncaps:", nil},
		{"prepared as a sound", "caps:", "preprocess: {sample_rate: 16000, dtype: int16}\ncaps:", []string{
			`MM0211 16:13 enc@0.1.0: enc.onnx: "image" is [N, H, W, 3] in the file, preprocess produces [1, ?]`,
			`MM0211 16:13 enc@0.1.0: enc.onnx: "image" is uint8 in the file, preprocess produces int16`}},
		{"prepared otherwise", "caps:", "preprocess: {layout: NCHW, resize: [8, 9]}\ncaps:", []string{
			`MM0211 16:13 enc@0.1.0: enc.onnx: "image" is [N, H, W, 3] in the file, preprocess produces [1, 3, 8, 9]`,
			`MM0211 16:13 enc@0.1.0: enc.onnx: "image" is uint8 in the file, preprocess produces fp32`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := seeded(t, seed.Options{Type: abi.Encoder, Name: "enc", DEnc: 8})
			file := filepath.Join(dir, "module.yaml")
			if strings.Contains(tc.with, "preprocess") {
				edit(t, file, "mm-abi-1.0", "mm-abi-1.1")
			}
			edit(t, file, tc.old, tc.with)
			if d := cmp.Diff(tc.want, found(t, dir)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Invalid ONNX, and other formats, are reported under the file's name.
func TestONNXRules(t *testing.T) {
	dir := seeded(t, seed.Options{Type: abi.Encoder, Name: "enc", DEnc: 8})
	model := read(t, filepath.Join(dir, "enc.onnx"))
	model.Graph.Nodes[0].Domain = "com.example"
	write(t, filepath.Join(dir, "enc.onnx"), model)
	if got := found(t, dir); len(got) == 0 || !strings.Contains(got[0], "MM1012 ") || !strings.Contains(got[0], "enc@0.1.0: enc.onnx: graph ") {
		t.Errorf("%q", got)
	}
	for bad, code := range map[string]string{"version https://git-lfs": "MM1002", "\xff\xff\xff\xff": "MM1001", "": "MM1001"} {
		if err := os.WriteFile(filepath.Join(dir, "enc.onnx"), []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := found(t, dir); len(got) == 0 || !strings.Contains(got[0], code+" 20:9 enc@0.1.0: enc.onnx: ") {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

func read(t *testing.T, file string) *onnx.Model {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func write(t *testing.T, file string, m *onnx.Model) {
	t.Helper()
	var out bytes.Buffer
	if _, err := onnx.Write(&out, m); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// External data is next to the model, in a folder as well, and belongs to it;
// data that is missing, or too short, is a fault.
func TestExternalData(t *testing.T) {
	for _, folder := range []string{"", "sub/"} {
		dir := seeded(t, seed.Options{Type: abi.Encoder, Name: "enc", DEnc: 8})
		model := read(t, filepath.Join(dir, "enc.onnx"))
		i := slices.IndexFunc(model.Graph.Initializers, func(t onnx.Tensor) bool { return len(t.Raw) > 256 })
		tensor := &model.Graph.Initializers[i]
		raw := slices.Clone(tensor.Raw)
		tensor.Raw = nil
		tensor.External = &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: "big.bin"}, {Key: "length", Value: fmt.Sprint(len(raw))}}}
		entry := filepath.Join(dir, folder, "enc.onnx")
		data := filepath.Join(dir, folder, "big.bin")
		if folder != "" {
			if err := os.Remove(filepath.Join(dir, "enc.onnx")); err != nil {
				t.Fatal(err)
			}
		}
		write(t, entry, model)
		yaml := filepath.Join(dir, "module.yaml")
		edit(t, yaml, "onnx: enc.onnx", "onnx: {path: "+folder+"enc.onnx, with: ["+folder+"big.bin]}")
		if got := found(t, dir); len(got) != 1 || !strings.Contains(got[0], "MM0205 20:3") {
			t.Errorf("%s: data that is not there: %q", folder, got)
		}
		if err := os.WriteFile(data, raw[:len(raw)-1], 0o644); err != nil {
			t.Fatal(err)
		}
		if got := found(t, dir); len(got) != 1 || !strings.Contains(got[0], `MM1025`) || !strings.Contains(got[0], `exceed "big.bin" of`) {
			t.Errorf("%s: data that is too short: %q", folder, got)
		}
		if err := os.WriteFile(data, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := found(t, dir); got != nil {
			t.Errorf("%s: %q", folder, got)
		}
	}
}

// Weights are the files of an export, the files of its model, and those called
// after it; the entry comes first.
func TestWeights(t *testing.T) {
	dir := seeded(t, seed.Options{Type: abi.Encoder, Name: "enc", DEnc: 8})
	model := read(t, filepath.Join(dir, "enc.onnx"))
	model.Graph.Initializers[0].External = &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: "far.bin"}}}
	model.Graph.Initializers[0].Raw = nil
	write(t, filepath.Join(dir, "enc.onnx"), model)
	var files strings.Builder
	files.WriteString("files:\n")
	for _, name := range []string{"enc.onnx", "far.bin", "enc.onnx.data", "enc.onnx_data", "enc.onnxx", "enc.json", "gone.bin"} {
		if name != "gone.bin" && name != "enc.onnx" {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&files, "  - {path: %s, sha256: %s, size: 0}\n", name, strings.Repeat("0a", 32))
	}
	edit(t, filepath.Join(dir, "module.yaml"), "export:\n", "export:\n  boxed: {path: enc.json}\n")
	edit(t, filepath.Join(dir, "module.yaml"), "card:", files.String()+"card:")
	m, list := modules.Load(dir)
	if m == nil {
		t.Fatal(list)
	}
	got := inspect.Weights(m, inspect.Folder(m))
	want := map[abi.Format][]string{"onnx": {"enc.onnx", "far.bin", "enc.onnx.data", "enc.onnx_data"}, "boxed": {"enc.json"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A link out of the module's folder, a folder, and a device count as missing.
func TestFolder(t *testing.T) {
	dir := seeded(t, seed.Options{Type: abi.Encoder, Name: "enc", DEnc: 8})
	m, _ := modules.Load(dir)
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "out")); err != nil {
		t.Skip("skipped: no symbolic links")
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	locate := inspect.Folder(m)
	for path, want := range map[string]bool{"enc.onnx": true, "out": false, "sub": false, "../m/enc.onnx": false, "none": false} {
		if _, _, ok := locate(path); ok != want {
			t.Errorf("%s: %v", path, ok)
		}
	}
	if m, list := inspect.Module(t.Context(), t.TempDir()); m != nil || len(list) != 1 || list[0].Code != diag.Unreadable {
		t.Errorf("a folder without a manifest: %v", list)
	}
}

// State and constants are compared with the file, which need not list them as
// ports.
func TestState(t *testing.T) {
	f32 := func(name string, dims ...onnx.Dim) onnx.Value {
		return onnx.Value{Name: name, Type: onnx.Type{Kind: onnx.TensorKind, DType: onnx.FLOAT, Dims: dims, Ranked: true}}
	}
	rate := onnx.Value{Name: "sr", Type: onnx.Type{Kind: onnx.TensorKind, DType: onnx.INT64, Ranked: true}}
	const base = "preprocess: {sample_rate: 16000, chunk: 512, context: 64}\n"
	for _, tc := range []struct {
		name, blocks string
		hn           onnx.Value
		want         []string
	}{
		{"sound", "state: {h: hn}\nconstants: {sr: 16000}\n", f32("hn", onnx.Dim{Value: 2}), nil},
		{"the other way round", "state: {hn: h}\nconstants: {sr: {value: 16000, dtype: int64}}\n", f32("hn", onnx.Dim{Value: onnx.Unknown, Param: "K"}), nil},
		{"not said", "", f32("hn", onnx.Dim{Value: 2}), []string{`the file's input "h" is not in the manifest`, `the file's input "sr" is not in the manifest`, `the file's output "hn" is not in the manifest`}},
		{"another shape", "state: {h: hn}\nconstants: {sr: 16000}\n", f32("hn", onnx.Dim{Value: 3}), []string{`"h" is float32 [2], and its next value "hn" is float32 [3]`}},
		{"another rank", "state: {h: hn}\nconstants: {sr: 16000}\n", f32("hn"), []string{`its next value "hn" is float32 []`}},
		{"stated otherwise", "state: {h: {from: hn, shape: [4], dtype: fp16}}\nconstants: {sr: {value: 1, shape: [1], dtype: int32}}\n", f32("hn", onnx.Dim{Value: 2}), []string{
			`"h" is [2] in the file, [4] in state`, `"h" is float32 in the file, fp16 in state`, `"sr" is [] in the file, [1] in constants`, `"sr" is int64 in the file, int32 in constants`}},
		{"not there", "state: {h: hx, k: hn}\nconstants: {sr: 16000, rate: 1}\n", f32("hn", onnx.Dim{Value: 2}), []string{
			`unknown output "hx"`, `unknown input "k"`, `unknown input "rate"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "v.onnx"), &onnx.Model{IRVersion: 8, Opsets: []onnx.Opset{{Version: 13}}, Graph: onnx.Graph{
				Name: "g", Inputs: []onnx.Value{f32("x", onnx.Dim{Value: onnx.Unknown}, onnx.Dim{Value: 576}), f32("h", onnx.Dim{Value: 2}), rate},
				Outputs: []onnx.Value{f32("y", onnx.Dim{Value: onnx.Unknown}, onnx.Dim{Value: 576}), tc.hn},
				Nodes:   []onnx.Node{{Op: "Identity", Inputs: []string{"x"}, Outputs: []string{"y"}}, {Op: "Identity", Inputs: []string{"h"}, Outputs: []string{"hn"}}},
			}})
			text := "name: v\nversion: 1.0.0\ntype: encoder\nmodality: audio\nabi: mm-abi-1.1\nlicense: MIT\ninputs: [{name: x, shape: [S], dtype: fp32}]\n" +
				"outputs: [{name: y, shape: [576], dtype: fp32}]\nexport: {onnx: v.onnx}\n" + base + tc.blocks
			if err := os.WriteFile(filepath.Join(dir, "module.yaml"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			all := strings.Join(found(t, dir), "\n")
			if n := strings.Count(all, "MM0211"); n != len(tc.want) {
				t.Errorf("%d faults, want %d:\n%s", n, len(tc.want), all)
			}
			for _, want := range tc.want {
				if !strings.Contains(all, want) {
					t.Errorf("no %q in\n%s", want, all)
				}
			}
		})
	}
}

// Labels files are compared with the number of classes in the file, unless it is dynamic.
func TestLabels(t *testing.T) {
	dim := func(n int64) onnx.Dim { return onnx.Dim{Value: n} }
	const file = 5 // lines
	for _, tc := range []struct {
		name, block string
		dims        []onnx.Dim
		want        string
	}{
		{"ctc", "ctc: {labels: keys.txt}", []onnx.Dim{dim(1), dim(onnx.Unknown), dim(file + 1)}, ""},
		{"ctc without a batch", "ctc: {labels: keys.txt}", []onnx.Dim{dim(onnx.Unknown), dim(file + 1)}, ""},
		{"space", "ctc: {labels: keys.txt, space: true}", []onnx.Dim{dim(1), dim(4), dim(file + 2)}, ""},
		{"without space", "ctc: {labels: keys.txt}", []onnx.Dim{dim(1), dim(4), dim(file + 2)}, `"y" has 7 classes in the file, keys.txt has 5 labels, want 6, or space: true`},
		{"space too many", "ctc: {labels: keys.txt, space: true}", []onnx.Dim{dim(1), dim(4), dim(file + 1)}, `"y" has 6 classes in the file, keys.txt has 5 labels, want 4`},
		{"another alphabet", "ctc: {labels: keys.txt}", []onnx.Dim{dim(1), dim(4), dim(97)}, `"y" has 97 classes in the file, keys.txt has 5 labels, want 96`},
		{"blank", "ctc: {labels: keys.txt, blank: 6}", []onnx.Dim{dim(1), dim(4), dim(file + 1)}, `"y" has 6 classes in the file, blank is class 6`},
		{"last class is blank", "ctc: {labels: keys.txt, blank: 5}", []onnx.Dim{dim(1), dim(4), dim(file + 1)}, ""},
		{"rank of ctc", "ctc: {labels: keys.txt}", []onnx.Dim{dim(1), dim(1), dim(4), dim(file + 1)}, "ctc decodes [N, T, classes]"},
		{"dynamic", "ctc: {labels: keys.txt}", []onnx.Dim{dim(1), dim(4), {Value: onnx.Unknown, Param: "C"}}, ""},
		{"labels", "labels: {file: keys.txt}", []onnx.Dim{dim(1), dim(file)}, ""},
		{"too few labels", "labels: {file: keys.txt}", []onnx.Dim{dim(1), dim(file + 1)}, `"y" has 6 classes in the file, keys.txt has 5 labels`},
		{"too many labels", "labels: {file: keys.txt}", []onnx.Dim{dim(file - 1)}, `"y" has 4 classes in the file, keys.txt has 5 labels`},
		{"numbers only", "labels: {top: 2}", []onnx.Dim{dim(1), dim(9)}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			value := func(name string) onnx.Value {
				return onnx.Value{Name: name, Type: onnx.Type{Kind: onnx.TensorKind, DType: onnx.FLOAT, Dims: tc.dims, Ranked: true}}
			}
			write(t, filepath.Join(dir, "v.onnx"), &onnx.Model{IRVersion: 8, Opsets: []onnx.Opset{{Version: 13}}, Graph: onnx.Graph{
				Name: "g", Inputs: []onnx.Value{value("x")}, Outputs: []onnx.Value{value("y")},
				Nodes: []onnx.Node{{Op: "Identity", Inputs: []string{"x"}, Outputs: []string{"y"}}},
			}})
			shape := make([]string, len(tc.dims))
			for i, d := range tc.dims {
				if shape[i] = strconv.FormatInt(d.Value, 10); d.Value == onnx.Unknown {
					shape[i] = "D" + strconv.Itoa(i)
				}
			}
			ports := "[{name: %s, shape: [" + strings.Join(shape, ", ") + "], dtype: fp32}]\n"
			text := "name: v\nversion: 1.0.0\ntype: encoder\nmodality: image\nabi: mm-abi-1.1\nlicense: MIT\ninputs: " + fmt.Sprintf(ports, "x") +
				"outputs: " + fmt.Sprintf(ports, "y") + "export: {onnx: v.onnx}\npostprocess: {y: {" + tc.block + "}}\n"
			for name, data := range map[string]string{"module.yaml": text, "keys.txt": "a\nb\nc\n \ne\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := strings.Join(found(t, dir), "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
