package qnn_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/qnn/ask"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// older returns the engine with the libraries of MM_QNN_LIB_OLD, of QAIRT 2.47, which print on standard
// output while they compile.
func older(t *testing.T) *qnn.Engine {
	t.Helper()
	dir := os.Getenv("MM_QNN_LIB_OLD")
	if dir == "" {
		t.Skip("skipped: MM_QNN_LIB_OLD names no folder with the libraries of QAIRT 2.47")
	}
	runtimetest.Program(t)
	return &qnn.Engine{Library: dir}
}

// captured replaces mm-native by a program that runs it and writes its output to a file.
func captured(t *testing.T) (file string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("skipped: scripts are no programs there")
	}
	dir := t.TempDir()
	file = filepath.Join(dir, "printed")
	script := filepath.Join(dir, "mm-native")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' \"$@\" 2>>'%s'\n", os.Getenv("MM_NATIVE"), file), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MM_NATIVE", script)
	return file
}

// compilations is the number of compilations in TestNoise.
const compilations = 50

// The output of libraries during compilations does not corrupt frames: fifty compilations in one child
// succeed, concurrently with runs of a context in the same child, although lines were printed.
func TestNoise(t *testing.T) {
	e := older(t)
	c := compiled(t, e, mlp(2), 69)
	printed := captured(t)
	opt, err := native.At(native.QNNCompiler, e.Library, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := worker.Open(t.Context(), opt, wire.Open{Name: "m", Version: "1.0.0", Type: abi.Encoder, Format: abi.ONNX, Path: c.Wrapper})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	child := runtimetest.Children(t)
	in := map[string]runtimes.Tensor{"x": wave(1, 2, 8)}
	want, err := m.(runtimes.Function).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(filepath.Dir(c.Context), "m.onnx")
	info, err := os.Stat(source)
	if err != nil {
		t.Fatal(err)
	}
	began, faults := time.Now(), 0
	for i := range compilations {
		var got ask.Compiled
		dir := t.TempDir()
		args := ask.Compilation{Model: ask.File{Path: source, Size: info.Size(), Digest: c.Source}, SoC: 69, Out: filepath.Join(dir, "m_ctx.onnx")}
		err := m.(worker.Asker).Ask(t.Context(), ask.Compile, args, &got)
		if err != nil || len(got.Nodes) != 3 || got.Why != "" {
			faults++
			t.Errorf("compilation %d: %v, %+v", i+1, err, got)
			continue
		}
		f, err := qnnfile.Open(args.Out)
		if err != nil {
			t.Fatalf("compilation %d: %v", i+1, err)
		}
		if c := f.Parts[0].Context; c.SoC != 69 || len(c.Graphs) != 1 || c.Graphs[0].Inputs[0].Name != "x" {
			t.Errorf("compilation %d gives %+v", i+1, c)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if out, err := m.(runtimes.Function).Run(t.Context(), in); err != nil || !reflect.DeepEqual(out, want) {
			faults++
			t.Errorf("a run beside compilation %d: other numbers (%v)", i+1, err)
		}
	}
	if now := runtimetest.Children(t); !reflect.DeepEqual(now, child) {
		t.Errorf("the child is %v and was %v: it was started again", now, child)
	}
	text, err := os.ReadFile(printed)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Count(text, []byte("\n"))
	t.Logf("%d compilations in %v, %d faults of framing, %d lines printed beside them", compilations, time.Since(began).Round(time.Millisecond), faults, lines)
	if lines < compilations {
		t.Errorf("the libraries printed %d lines: this shows nothing", lines)
	}
}
