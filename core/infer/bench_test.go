package infer

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/internal/libllama"
)

// BenchmarkDecode and BenchmarkPrefill run the model that MM_BENCH_MODEL
// names, on as many threads as MM_BENCH_THREADS says, with keys and values as
// MM_BENCH_KV has them. BenchmarkPrefill reads MM_BENCH_TOKENS, or 256.
func BenchmarkDecode(b *testing.B) {
	s := benchSession(b)
	for b.Loop() {
		if s.Len() == 64 {
			s.Truncate(0)
		}
		if err := s.Feed(b.Context(), []int32{int32(b.N*7919) % 1000}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrefill(b *testing.B) {
	s := benchSession(b)
	n, err := strconv.Atoi(os.Getenv("MM_BENCH_TOKENS"))
	if err != nil {
		n = 256
	}
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(i * 7919 % 1000)
	}
	from := libllama.CPUTime()
	for b.Loop() {
		s.Truncate(0)
		if err := s.Feed(b.Context(), tokens); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
	b.ReportMetric(float64(n)*float64(b.N)/(libllama.CPUTime()-from).Seconds(), "tok/cpu-s")
}

// BenchmarkDraft writes 300 tokens alone, with the draft model that
// MM_BENCH_DRAFT names as it pays, and with it always.
func BenchmarkDraft(b *testing.B) {
	path := os.Getenv("MM_BENCH_DRAFT")
	if path == "" {
		b.Skip("skipped: MM_BENCH_DRAFT names no model")
	}
	s := benchSession(b)
	m, err := Load(path, Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	draft, err := m.NewSession(SessionOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, temperature := range []float32{0, 0.8} {
		for _, way := range []struct {
			name string
			opt  GenerateOptions
		}{
			{"alone", GenerateOptions{}},
			{"as it pays", GenerateOptions{Draft: draft, DraftTokens: 4}},
			{"always", GenerateOptions{Draft: draft, DraftTokens: 4, AlwaysDraft: true}},
		} {
			b.Run(fmt.Sprintf("temperature %v/%s", temperature, way.name), func(b *testing.B) {
				way.opt.Sampler = sample.Options{Temperature: temperature, Seed: 7}
				way.opt.MaxTokens = 300
				n, from := 0, libllama.CPUTime()
				for b.Loop() {
					s.Truncate(0)
					draft.Truncate(0)
					if _, err := s.Prompt(b.Context(), []int32{1}); err != nil {
						b.Fatal(err)
					}
					stats, err := s.Generate(b.Context(), way.opt, func(Token) error { return nil })
					if err != nil {
						b.Fatal(err)
					}
					n += stats.Tokens
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "tok/s")
				b.ReportMetric(float64(n)/(libllama.CPUTime()-from).Seconds(), "tok/cpu-s")
			})
		}
	}
}

func benchSession(b *testing.B) *Session {
	path := os.Getenv("MM_BENCH_MODEL")
	if path == "" {
		b.Skip("skipped: MM_BENCH_MODEL names no model")
	}
	threads := 1
	if os.Getenv("MM_BENCH_THREADS") == "2" {
		threads = 2
	}
	m, err := Load(path, Options{Threads: threads})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	s, err := m.NewSession(SessionOptions{KV: os.Getenv("MM_BENCH_KV"), Context: m.Config().Context})
	if err != nil {
		b.Fatal(err)
	}
	return s
}
