package infer

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/tools/libllama"
)

// BenchmarkDecode and BenchmarkPrefill run the model MM_BENCH_MODEL on
// MM_BENCH_THREADS threads, with keys and values of type MM_BENCH_KV.
// BenchmarkPrefill reads MM_BENCH_TOKENS tokens, by default 256.
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

// BenchmarkDraft generates 300 tokens without a draft, with the draft model
// MM_BENCH_DRAFT adaptively and always, and with an untrained draft of the same
// shape adaptively, in turn. It reports the means of the ratios of tokens per
// second of processor time and their standard errors, in percent.
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
	blank, err := New(m.Config(), random(m.Config(), 1), Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { blank.Close() })
	tok, err := tokenizer.FromGGUF(s.m.File())
	if err != nil {
		b.Fatal(err)
	}
	story := tok.Encode("Once upon a time, there was a little girl named Lily.", tokenizer.Options{Special: true})
	for _, temperature := range []float32{0, 0.8} {
		b.Run(fmt.Sprintf("temperature %v", temperature), func(b *testing.B) {
			var draft, bad *Session
			if draft, err = m.NewSession(SessionOptions{}); err == nil {
				bad, err = blank.NewSession(SessionOptions{})
			}
			if err != nil {
				b.Fatal(err)
			}
			ways := []GenerateOptions{{}, {Draft: draft}, {Draft: draft, AlwaysDraft: true}, {Draft: bad}}
			ratios := make([][]float64, len(ways))
			last := make([]Stats, len(ways))
			seed := uint64(0)
			for b.Loop() {
				var spent [4]float64
				seed++
				for i, opt := range ways {
					opt.Sampler, opt.MaxTokens = sample.Options{Temperature: temperature, Seed: seed}, 300
					m.pace, blank.pace = pace{}, pace{} // each text starts without measurements
					s.Truncate(0)
					if opt.Draft != nil {
						opt.Draft.Truncate(0)
					}
					if _, err := s.Prompt(b.Context(), story); err != nil {
						b.Fatal(err)
					}
					from := libllama.CPUTime()
					if last[i], err = s.Generate(b.Context(), opt, func(Token) error { return nil }); err != nil {
						b.Fatal(err)
					}
					spent[i] = (libllama.CPUTime() - from).Seconds() / float64(last[i].Tokens)
					ratios[i] = append(ratios[i], 100*spent[0]/spent[i])
				}
			}
			for i, name := range []string{"", "auto", "always", "bad"} {
				if i == 0 {
					continue
				}
				mean, sure := average(ratios[i])
				b.ReportMetric(mean, name+"-%")
				b.ReportMetric(sure, name+"-±")
				b.ReportMetric(float64(last[i].Accepted)/float64(max(1, last[i].Drafted)), name+"-accepted")
				b.ReportMetric(float64(last[i].Drafted), name+"-drafted")
			}
		})
	}
}

// average returns the mean and its standard error.
func average(x []float64) (mean, sure float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sure += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sure / float64(max(1, len(x)-1)) / float64(len(x)))
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
	m, err := Load(path, Options{Threads: threads, Prefixes: -1})
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
