package engines_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// folder contains the files of a build.
type folder string

func (f folder) Path(name string) (string, error) { return filepath.Join(string(f), name), nil }
func (f folder) Open(name string) (*os.File, error) {
	return os.Open(filepath.Join(string(f), name))
}
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

// module writes a part from a seed and returns its bundle.
func module(t *testing.T, typ abi.ModuleType, width int) runtimes.Bundle {
	t.Helper()
	name, dir := string(typ), t.TempDir()
	if err := seed.Write(filepath.Join(dir, name), seed.Options{Type: typ, Name: name, Seed: 3, DModel: width}); err != nil {
		t.Fatal(err)
	}
	return runtimes.Bundle{
		Part:  builds.Part{Name: name, Version: "0.1.0", Type: typ, Files: builds.Formats{"gguf": {name + "/" + name + ".gguf"}}},
		Files: folder(dir),
	}
}

var prompt = []int32{0, 40, 41, 42, 43, 44, 45}

func core(t *testing.T) runtimes.Bundle {
	b := module(t, abi.Core, 64)
	b.KV, b.Tokens = abi.Int8, abi.TokenContract{DModel: 64, MaxSeq: 200}
	return b
}

func TestConformance(t *testing.T) {
	b := core(t)
	runtimetest.Run(t, runtimetest.Language{Engine: engines.Core{}, Bundle: b, Prompt: prompt}.Cases())
	d := module(t, abi.DraftCore, 32)
	b.Draft, b.DraftTokens, b.KV = &d, 3, ""
	t.Run("draft", func(t *testing.T) {
		runtimetest.Run(t, runtimetest.Language{Engine: engines.Core{}, Bundle: b, Prompt: prompt}.Cases())
	})
}

func open(t *testing.T, b runtimes.Bundle, l runtimes.Limits) runtimes.Language {
	t.Helper()
	m, err := engines.Core{}.Open(t.Context(), b, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m.(runtimes.Language)
}

func say(t *testing.T, m runtimes.Language, opt runtimes.Generation) []int32 {
	t.Helper()
	s, err := m.NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Feed(t.Context(), runtimes.Positions{Tokens: prompt}); err != nil {
		t.Fatal(err)
	}
	var ids []int32
	if _, err := s.Generate(t.Context(), opt, func(id int32) error { ids = append(ids, id); return nil }); err != nil {
		t.Fatal(err)
	}
	return ids
}

// More threads than the machine has are not started, and do not change the text.
func TestManyThreads(t *testing.T) {
	b := core(t)
	want := say(t, open(t, b, runtimes.Limits{Threads: 1}), runtimes.Generation{MaxTokens: 20})
	before := runtime.NumGoroutine()
	m := open(t, b, runtimes.Limits{Threads: 500})
	if n := runtime.NumGoroutine() - before; n > runtime.NumCPU() {
		t.Errorf("%d threads on a machine of %d", n, runtime.NumCPU())
	}
	if got := say(t, m, runtimes.Generation{MaxTokens: 20}); !slices.Equal(got, want) {
		t.Errorf("%v, with one thread %v", got, want)
	}
}

// The build's max_seq bounds a sequence, but a larger one does not extend the model's context.
func TestMaxSeq(t *testing.T) {
	b := core(t)
	for _, c := range []struct{ maxSeq, want int }{{200, 200}, {0, 512}, {4096, 512}} {
		b.Tokens.MaxSeq = c.maxSeq
		if got := open(t, b, runtimes.Limits{}).Shape().Context; got != c.want {
			t.Errorf("max_seq %d of a model of 512 gives %d positions, want %d", c.maxSeq, got, c.want)
		}
	}
}

// Exactly the requested tokens are fed, without another BOS.
func TestFeedsWhatItIsGiven(t *testing.T) {
	s, err := open(t, core(t), runtimes.Limits{}).NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := s.Feed(t.Context(), runtimes.Positions{Tokens: prompt[:2]}, runtimes.Positions{Vectors: make([]float32, 64)}); err != nil || s.Len() != 3*(i+1) {
			t.Fatalf("%d positions, %v", s.Len(), err)
		}
	}
}

func TestBundlesThatDoNotFit(t *testing.T) {
	draft, adapter := module(t, abi.DraftCore, 32), module(t, abi.Adapter, 64)
	wide := module(t, abi.Adapter, 128)
	bare := draft
	bare.Part.Files = nil
	gone := draft
	gone.Files = folder(t.TempDir())
	for name, c := range map[string]struct {
		change func(*runtimes.Bundle)
		want   error
	}{
		"another width":           {func(b *runtimes.Bundle) { b.Tokens.DModel = 128 }, nil},
		"an unknown KV type":      {func(b *runtimes.Bundle) { b.KV = abi.Int4 }, nil},
		"a draft without GGUF":    {func(b *runtimes.Bundle) { b.Draft = &bare }, runtimes.ErrUnavailable},
		"a draft of no file":      {func(b *runtimes.Bundle) { b.Draft = &gone }, fs.ErrNotExist},
		"an adapter without GGUF": {func(b *runtimes.Bundle) { b.Adapters = []runtimes.Adapter{{Bundle: bare, Scale: 1}} }, runtimes.ErrUnavailable},
		"an adapter of another":   {func(b *runtimes.Bundle) { b.Adapters = []runtimes.Adapter{{Bundle: wide, Scale: 1}} }, nil},
		"an adapter, and no width": {func(b *runtimes.Bundle) {
			b.Adapters = []runtimes.Adapter{{Bundle: adapter, Scale: 1}}
			b.Tokens.DModel = 1
		}, nil},
	} {
		b := core(t)
		c.change(&b)
		m, err := engines.Core{}.Open(t.Context(), b, runtimes.Limits{})
		if err == nil {
			m.Close()
		}
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A draft core does not change the text, at any temperature; an adapter is applied with its strength, and
// not at all at 0.
func TestDraftAndAdapters(t *testing.T) {
	b := core(t)
	adapter := module(t, abi.Adapter, 64)
	for _, o := range []sample.Options{{}, {Temperature: 1, Seed: 5}, {Temperature: 0.8, TopK: 40, TopP: 0.9, Seed: 6}} {
		opt := runtimes.Generation{Options: o, MaxTokens: 60}
		b.Draft, b.Adapters = nil, nil
		want := say(t, open(t, b, runtimes.Limits{Threads: 1}), opt)
		d := module(t, abi.DraftCore, 32)
		b.Draft, b.DraftTokens = &d, 3
		if got := say(t, open(t, b, runtimes.Limits{}), opt); !slices.Equal(got, want) {
			t.Errorf("%+v: with a draft core %v, want %v", o, got, want)
		}
		b.Adapters = []runtimes.Adapter{{Bundle: adapter, Scale: 1}} // a seeded adapter has no effect
		if got := say(t, open(t, b, runtimes.Limits{}), opt); !slices.Equal(got, want) {
			t.Errorf("%+v: with an adapter %v, want %v", o, got, want)
		}
		b.Adapters[0].Scale = 0
		if got := say(t, open(t, b, runtimes.Limits{}), opt); !slices.Equal(got, want) {
			t.Errorf("%+v: with an adapter of no strength %v, want %v", o, got, want)
		}
	}
}

// The limit of memory holds for all files together.
func TestMemory(t *testing.T) {
	b := core(t)
	d := module(t, abi.DraftCore, 32)
	size := func(b runtimes.Bundle) int64 {
		path, err := b.Entry("gguf")
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	limit := runtimes.Limits{Memory: size(b) + size(d) - 1}
	open(t, b, limit)
	b.Draft = &d
	if _, err := (engines.Core{}).Open(t.Context(), b, limit); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("core and draft in a byte less than they have: %v", err)
	}
	limit.Memory++
	open(t, b, limit)
}

// The limit of a generation applies to each token, without the time of the caller.
func TestTimeOfTokens(t *testing.T) {
	s, err := open(t, core(t), runtimes.Limits{Time: time.Second}).NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err == nil {
		err = s.Feed(t.Context(), runtimes.Positions{Tokens: prompt})
	}
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	stop, err := s.Generate(t.Context(), runtimes.Generation{MaxTokens: 2}, func(int32) error { n++; time.Sleep(1100 * time.Millisecond); return nil })
	if err != nil || stop != runtimes.StopLength || n != 2 {
		t.Errorf("%d tokens, %q, %v", n, stop, err)
	}
}

// The time limit is an error of the engine, a deadline one of the caller.
func TestTime(t *testing.T) {
	m := open(t, core(t), runtimes.Limits{Time: time.Hour})
	s, err := m.NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if err := s.Feed(ctx, runtimes.Positions{Tokens: prompt}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, runtimes.ErrTime) {
		t.Errorf("the caller's deadline: %v", err)
	}
	if _, err := s.(runtimes.Scorer).Logits(t.Context()); err == nil || !strings.Contains(err.Error(), "no logits") {
		t.Errorf("logits of nothing: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.(runtimes.Scorer).Logits(t.Context()); !errors.Is(err, runtimes.ErrClosed) {
		t.Errorf("logits of a closed sequence: %v", err)
	}
	if _, err := s.(runtimes.Hidden).Hidden(0, 0); !errors.Is(err, runtimes.ErrClosed) {
		t.Errorf("states of a closed sequence: %v", err)
	}
	if err := errors.Join(s.(runtimes.Saver).Save(nil), s.(runtimes.Saver).Restore(nil)); !errors.Is(err, runtimes.ErrClosed) || s.Len() != 0 {
		t.Errorf("a closed sequence on disk: %v", err)
	}
}
