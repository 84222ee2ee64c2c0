package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/registry/modelpack"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/loose"
)

// outsideWeights moves the weights of a model into a file beside it, behind so
// much nothing that files of its size are linked into a store.
func outsideWeights(t *testing.T, path, location string) {
	t.Helper()
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	out, err := os.Create(filepath.Join(filepath.Dir(path), location))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	at := int64(modelpack.LinkFrom)
	for i := range m.Graph.Initializers {
		w := &m.Graph.Initializers[i]
		if w.DType != onnx.FLOAT { // ONNX Runtime wants shapes in the file
			continue
		}
		raw, err := w.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.WriteAt(raw, at); err != nil {
			t.Fatal(err)
		}
		e := &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: location}, {Key: "offset", Value: fmt.Sprint(at)}, {Key: "length", Value: fmt.Sprint(len(raw))}}}
		*w = onnx.Tensor{Name: w.Name, DType: w.DType, Dims: w.Dims, External: e}
		at += int64(len(raw))
	}
	to, err := os.Create(path + ".new")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := onnx.Write(to, m); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// A module whose model has its weights beside it is validated, twice, and
// assembled, twice; out of the store both engines give what the model gave that
// held them itself.
func TestExternalWeights(t *testing.T) {
	jsonWorld(t)
	shipped := modulesOf(t)
	graph := "name: p-lite\nversion: 0.1.0\nmodalities:\n  - enc: {ref: vision-enc@^1}\nexports:\n  laptop: {onnx: [vision-enc]}\n"
	if err := os.WriteFile("eye.graph.yaml", []byte(graph), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("mm.yaml", []byte("modules: [modules]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	do := func(args string) {
		t.Helper()
		var out strings.Builder
		if code := run(context.Background(), strings.Fields("mm "+args), strings.NewReader(""), &out, &out); code != exitOK {
			t.Fatalf("mm %s: exit %d: %s", args, code, out.String())
		}
	}
	dir := filepath.Join("modules", "vision-enc")
	do("module new encoder vision-enc --modality image --seed 13 --version 1.3.0 --dir " + dir)
	in := map[string]runtimes.Tensor{"image": {Type: runtimes.Uint8, Shape: []int64{1, 32, 32, 3}, Data: slices.Repeat([]byte{7, 90, 200}, 32*32)}}
	answer := func(t *testing.T, e runtimes.Engine, b runtimes.Bundle) []byte {
		t.Helper()
		m, err := e.Open(t.Context(), b, runtimes.Limits{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		out, err := m.(runtimes.Function).Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return out["patch_tokens"].Data
	}
	bundle := func() runtimes.Bundle {
		t.Helper()
		w, err := workspace.Open(workspace.Options{Home: os.Getenv("MM_HOME")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
		b, err := w.Runnable(t.Context(), "p-lite:0.1.0", workspace.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(b.Assembly.Parts(), func(p builds.Part) bool { return p.Name == "vision-enc" })
		return runtimes.Bundle{Part: b.Assembly.Parts()[i], Files: b.Files}
	}
	do("keys generate --unencrypted")
	whole, err := loose.Bundle(filepath.Join(dir, "vision_enc.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	want := answer(t, engines.ONNX{}, whole)

	outsideWeights(t, filepath.Join(dir, "vision_enc.onnx"), "weights.bin")
	manifest := filepath.Join(dir, "module.yaml")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(strings.Replace(string(text), "onnx: vision_enc.onnx", "onnx: {path: vision_enc.onnx, with: [weights.bin]}", 1), "version: 1.3.0", "version: 1.3.1", 1)
	if err := os.WriteFile(manifest, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		do("validate --files modules/vision-enc")
		do("lock eye.graph.yaml --update vision-enc")
		do("assemble eye.graph.yaml --target laptop --sign default --force")
	}
	b := bundle()
	if files := b.Part.Files[string(abi.ONNX)]; b.Part.Version != "1.3.1" || len(files) != 2 || !strings.HasSuffix(files[1], "weights.bin") {
		t.Fatalf("%s ships %v", b.Part.ID(), files)
	}
	if got := answer(t, engines.ONNX{}, b); string(got) != string(want) || len(want) == 0 {
		t.Errorf("our engine gives %d other bytes", len(got))
	}
	t.Run("ONNX Runtime", func(t *testing.T) {
		t.Chdir(filepath.Dir(shipped))
		got := answer(t, engines.ONNXRuntime{Home: runtimetest.Home(t, native.ONNXRuntime)}, b)
		if len(got) != len(want) {
			t.Errorf("%d bytes, not %d", len(got), len(want))
		}
	})
}

// modulesOf is the folder of modules that mm.yaml names.
func modulesOf(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("mm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(string(data), `"`)
	path, _, _ = strings.Cut(path, `"`)
	return path
}
