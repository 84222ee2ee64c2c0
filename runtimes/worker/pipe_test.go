//go:build unix

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// piped is the core engine in a child.
type piped struct{ engines.Core }

func (p piped) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(ctx.Err(), l.Check(), p.Can(b.Part)); err != nil {
		return nil, err
	}
	path, err := b.Entry(abi.GGUF)
	if err != nil {
		return nil, err
	}
	return worker.Open(ctx, options("core", ""), wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.GGUF, Path: path, Tokens: b.Tokens, KV: b.KV, Limits: l})
}

// folder contains the files of a build.
type folder string

func (f folder) Path(name string) (string, error)               { return filepath.Join(string(f), name), nil }
func (f folder) Open(name string) (*os.File, error)             { return os.Open(filepath.Join(string(f), name)) }
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

func coreModule(t testing.TB) runtimes.Bundle {
	return runtimes.Bundle{
		Part:   builds.Part{Name: "core-llm", Version: "1.0.0", Type: abi.Core, Files: builds.Formats{"gguf": {"core-llm.gguf"}}},
		Files:  folder(filepath.Join(testfiles.Root(t), "catalog", "core-llm")),
		Tokens: abi.TokenContract{MaxSeq: 200},
	}
}

// A real engine in a child passes the conformance suite.
func TestConformance(t *testing.T) {
	runtimetest.Run(t, runtimetest.Language{Engine: piped{}, Bundle: coreModule(t), Prompt: []int32{1, 40, 41, 42, 43, 44, 45}}.Cases())
}

// pipedFunction is the onnx engine in a child.
type pipedFunction struct{ engines.ONNX }

func (p pipedFunction) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(ctx.Err(), l.Check(), p.Can(b.Part)); err != nil {
		return nil, err
	}
	path, err := b.Entry(abi.ONNX)
	if err != nil {
		return nil, err
	}
	return worker.Open(ctx, options("onnx", ""), wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.ONNX, Path: path, Limits: l})
}

// So does a function: Close during a Run is reported, and cancellation works through the pipe.
func TestFunctionConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "deep.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	m, in, long := runtimetest.Deep()
	_, err = onnx.Write(f, m)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	runtimetest.Run(t, runtimetest.Function{
		Engine: pipedFunction{}, In: in, Long: long,
		Bundle: runtimes.Bundle{Part: builds.Part{Name: "deep", Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{"onnx": {"deep.onnx"}}}, Files: folder(dir)},
	}.Cases())
}

// The cost of the pipe: the same tokens with and without it.
func BenchmarkPipe(b *testing.B) {
	for name, e := range map[string]runtimes.Engine{"direct": engines.Core{}, "piped": piped{}} {
		b.Run(name, func(b *testing.B) {
			m, err := e.Open(b.Context(), coreModule(b), runtimes.Limits{Threads: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			s, err := m.(runtimes.Language).NewSequence(b.Context(), runtimes.SequenceOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := errors.Join(s.Truncate(0), s.Feed(b.Context(), runtimes.Positions{Tokens: []int32{1, 40}})); err != nil {
					b.Fatal(err)
				}
				if ids, err := say(b.Context(), s, 100); err != nil || len(ids) != 100 {
					b.Fatal(len(ids), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(100*b.N), "µs/token")
		})
	}
}

// The cost of the pipe with an engine of no cost.
func BenchmarkToken(b *testing.B) {
	m, err := worker.Open(b.Context(), options("x", ""), wire.Open{Type: abi.Core})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	s, err := m.(runtimes.Language).NewSequence(b.Context(), runtimes.SequenceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := errors.Join(s.Truncate(0), s.Feed(b.Context(), runtimes.Positions{Tokens: []int32{1}})); err != nil {
			b.Fatal(err)
		}
		if ids, err := say(b.Context(), s, 1000); err != nil || len(ids) != 1000 {
			b.Fatal(len(ids), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(1000*b.N), "µs/token")
}

// The cost of a tensor there and back.
func BenchmarkTensor(b *testing.B) {
	m, err := worker.Open(b.Context(), options("x", ""), wire.Open{Type: abi.Encoder})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for _, n := range []int{4 << 10, 184 << 10, 600 << 10, 16 << 20} {
		b.Run(fmt.Sprint(n>>10, "KiB"), func(b *testing.B) {
			in := map[string]runtimes.Tensor{"x": {Type: runtimes.Uint8, Shape: []int64{int64(n)}, Data: make([]byte, n)}}
			for b.Loop() {
				if _, err := m.(runtimes.Function).Run(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(2 * int64(n))
		})
	}
}
