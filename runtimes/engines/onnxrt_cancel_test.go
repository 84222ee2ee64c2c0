package engines_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// powers returns a model that multiplies a matrix with itself many times.
func powers(t *testing.T, steps int) string {
	m := onnx.New("powers", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", 1, "N", "N")}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", 1, "N", "N")}
	last := "x"
	for i := range steps {
		next := fmt.Sprint("y", i)
		if i == steps-1 {
			next = "y"
		}
		last = m.Graph.Add("MatMul", []string{last, "x"}, next)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	ortWrite(t, path, m)
	return path
}

// A cancellation ends a computation at any moment, and the session continues with the next.
func TestCancelInside(t *testing.T) {
	e := engines.ONNXRuntime{Home: runtimetest.Home(t, native.ONNXRuntime)}
	floats := func(shape ...int64) runtimes.Tensor {
		n := int64(4)
		for _, d := range shape {
			n *= d
		}
		return runtimes.Tensor{Type: runtimes.Float32, Shape: shape, Data: make([]byte, n)}
	}
	t.Run("matrices", func(t *testing.T) {
		cancelled(t, e, powers(t, 200), "x", floats(1024, 1024), floats(2, 2))
	})
	t.Run("text detection", func(t *testing.T) {
		path := testfiles.Models(t, "ocr", "ch_PP-OCRv4_det_infer.onnx")
		cancelled(t, e, path, "x", floats(1, 3, 1600, 1600), floats(1, 3, 64, 64))
	})
}

func cancelled(t *testing.T, e engines.ONNXRuntime, path, name string, large, small runtimes.Tensor) {
	m, err := e.Open(t.Context(), ortBundle(path), runtimes.Limits{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	run := func(ctx context.Context, x runtimes.Tensor) (map[string]runtimes.Tensor, error) {
		return m.(runtimes.Function).Run(ctx, map[string]runtimes.Tensor{name: x})
	}
	want, err := run(t.Context(), small)
	if err != nil {
		t.Fatal(err)
	}
	children := runtimetest.Children(t)
	const tries = 20
	var took []time.Duration
	for i := range tries {
		ctx, cancel := context.WithCancel(t.Context())
		var struck time.Time
		timer := time.AfterFunc(time.Duration(60+20*i)*time.Millisecond, func() {
			struck = time.Now()
			cancel()
		})
		_, err := run(ctx, large)
		ended := time.Now()
		if timer.Stop() || !errors.Is(err, context.Canceled) {
			t.Fatalf("try %d: it was computed first: %v", i, err)
		}
		took = append(took, ended.Sub(struck))
	}
	got, err := run(t.Context(), small)
	if err != nil {
		t.Fatal(err)
	}
	for output, w := range want {
		if !slices.Equal(w.Data, got[output].Data) {
			t.Errorf("%s is another than before", output)
		}
	}
	if now := runtimetest.Children(t); !slices.Equal(children, now) {
		t.Errorf("it took another child (%v, then %v): the library did not hear", children, now)
	}
	slices.Sort(took)
	p95 := took[tries*95/100-1]
	t.Logf("%d computations were ended: median %v, p95 %v, longest %v", tries, took[tries/2], p95, took[tries-1])
	// The slower ones are as slow as the machine is busy.
	if quarter := took[tries/4]; quarter > runtimetest.Hearing {
		t.Errorf("three quarters took more than %v, the limit is %v", quarter, runtimetest.Hearing)
	}
}
