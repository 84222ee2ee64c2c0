package loose_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/onnxtest"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/workspace/loose"
)

// sources are intact models to damage: small ones of every operator that our
// engine has, the reference modules', and the available models of others.
func sources(t *testing.T) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testfiles.Root(t), "onnx", "engine", "testdata", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Model []byte `json:"model"`
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, path := range models(t) {
		if info, err := os.Stat(path); err != nil || info.Size() > 4<<20 {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	for i := range cases { // as many of either kind, turn about
		all = append(all, cases[i*7%len(cases)].Model)
		if len(all) >= 64 {
			break
		}
	}
	return all
}

// patience bounds the time of one damaged file, at many times the sum of its
// limits.
const patience = 20 * time.Second

// Damaged ONNX files are refused, or run within their limits to an end: the
// engine neither crashes nor hangs, and does not answer from a file in which
// the check finds a fault.
func TestDamagedONNX(t *testing.T) {
	all := sources(t)
	n := runtimetest.Hostile(t)
	count := make(map[string]int)
	path := filepath.Join(t.TempDir(), "m.onnx")
	for i := range n {
		if err := os.WriteFile(path, onnxtest.Mutate(all[i%len(all)], uint64(i)), 0o600); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		what, err := outcome(t.Context(), path)
		if took := time.Since(begin); took > patience {
			t.Errorf("file %d took %v", i, took)
		}
		if what == "crashed" || what == "answered though refused" {
			t.Errorf("file %d: %s: %v", i, what, err)
		}
		count[what]++
	}
	t.Logf("%d damaged ONNX files of %d models: %d refused by the check, %d by the engine, %d failed in the run, %d ran, %d out of time, %d crashed",
		n, len(all), count["refused by the check"], count["refused by the engine"], count["failed"], count["ran"], count["out of time"], count["crashed"])
}

// outcome checks, compiles and runs a file.
func outcome(ctx context.Context, path string) (what string, err error) {
	defer func() {
		if r := recover(); r != nil {
			what, err = "crashed", fmt.Errorf("%v", r)
		}
	}()
	list, err := loose.Check(ctx, path, loose.Options{})
	if err != nil {
		return "crashed", err
	}
	m, err := onnx.Admit(path, onnx.AdmitOptions{CheckOptions: engine.Checks()})
	if err != nil {
		return "refused by the check", err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	p, err := engine.Compile(ctx, m, engine.Options{Threads: 1, Memory: 64 << 20, Steps: 100})
	switch {
	case errors.Is(err, engine.ErrInternal):
		return "crashed", err
	case ctx.Err() != nil:
		return "out of time", err
	case err != nil:
		return "refused by the engine", err
	}
	defer p.Close()
	if err := engine.Claims(m); err != nil {
		return "crashed", fmt.Errorf("compiled, though: %w", err)
	}
	shapes := make(map[string][]int)
	for _, v := range p.Inputs() {
		shape := []int{}
		for k, d := range v.Type.Dims {
			size := int(d.Value)
			if d.Value < 0 {
				size = map[bool]int{true: 1, false: 64}[k == 0]
			}
			shape = append(shape, size)
		}
		shapes[v.Name] = shape
	}
	in, err := drift.Noise(m, shapes, 1)
	if err != nil {
		return "refused by the engine", err
	}
	switch _, err = p.Run(ctx, in); {
	case errors.Is(err, engine.ErrInternal):
		return "crashed", err
	case ctx.Err() != nil:
		return "out of time", err
	case err != nil:
		return "failed", err
	case list.Failed() && !only(list, "MM1011", "MM1012"): // our engine has more opsets than ONNX Runtime
		return "answered though refused", list.Err()
	}
	return "ran", nil
}

// only reports that every fault has one of the codes.
func only(list diag.List, codes ...diag.Code) bool {
	return !slices.ContainsFunc(list, func(d diag.Diagnostic) bool {
		return d.Severity == diag.Error && !slices.Contains(codes, d.Code)
	})
}
