package infer

import (
	"os"
	"testing"
)

// BenchmarkDecode and BenchmarkPrefill run the model that MM_BENCH_MODEL
// names, on as many threads as MM_BENCH_THREADS says.
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
	tokens := make([]int32, 256)
	for i := range tokens {
		tokens[i] = int32(i * 7919 % 1000)
	}
	for b.Loop() {
		s.Truncate(0)
		if err := s.Feed(b.Context(), tokens); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(256*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
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
	s, err := m.NewSession(SessionOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}
