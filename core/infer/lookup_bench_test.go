package infer

import (
	"os"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/tools/libllama"
)

// edited is text that an edit repeats almost entirely.
const edited = `{
  "name": "weather-station",
  "version": "1.4.2",
  "sensors": [
    {"id": "t-outdoor", "kind": "temperature", "unit": "celsius", "interval": 60, "enabled": true},
    {"id": "t-indoor", "kind": "temperature", "unit": "celsius", "interval": 60, "enabled": true},
    {"id": "h-outdoor", "kind": "humidity", "unit": "percent", "interval": 120, "enabled": true},
    {"id": "p-roof", "kind": "pressure", "unit": "hectopascal", "interval": 300, "enabled": false},
    {"id": "w-mast", "kind": "wind", "unit": "metres per second", "interval": 10, "enabled": true}
  ],
  "upload": {"host": "station.example", "port": 8443, "retry": [1, 5, 30, 300], "compress": "zstd"},
  "log": {"level": "info", "file": "/var/log/station.log", "keep": 14}
}
`

// BenchmarkLookup generates 512 tokens, in units of processor time: a text that
// the prompt contains twice (copy) and a story, without proposals, with lookup
// always and adaptively.
func BenchmarkLookup(b *testing.B) {
	if os.Getenv("MM_BENCH_LOOKUP") == "" {
		b.Skip("skipped: MM_BENCH_LOOKUP is not set")
	}
	s := benchSession(b)
	tok, err := tokenizer.FromGGUF(s.m.File())
	if err != nil {
		b.Fatal(err)
	}
	text := edited
	for {
		n := len(tok.Encode(text, tokenizer.Options{}))
		if n < s.Context()/5 {
			break
		}
		text = text[:len(text)/2] // fits a small model's context
	}
	for _, task := range []struct{ name, prompt string }{
		{"copy", text + "\n" + strings.Replace(text, "info", "debug", 1) + "\n" + text[:12]},
		{"story", "Once upon a time, there was a little girl named Lily."},
	} {
		prompt := tok.Encode(task.prompt, tokenizer.Options{Special: true})
		for _, temperature := range []float32{0, 0.8} {
			var spent [3]time.Duration
			var last [3]Stats
			b.Run(task.name+"/"+map[float32]string{0: "greedy", 0.8: "drawn"}[temperature], func(b *testing.B) {
				ways := [3]GenerateOptions{{}, {Lookup: true}, {Lookup: true, AlwaysDraft: true, DraftTokens: 4}}
				for b.Loop() {
					for i, opt := range ways { // in turn, since the machine may be busy
						opt.MaxTokens, opt.Sampler = min(512, s.Context()-len(prompt)), sample.Options{Temperature: temperature, Seed: 7}
						s.Truncate(0)
						if _, err := s.Prompt(b.Context(), prompt); err != nil {
							b.Fatal(err)
						}
						from := libllama.CPUTime()
						stats, err := s.Generate(b.Context(), opt, func(Token) error { return nil })
						if err != nil {
							b.Fatal(err)
						}
						spent[i] += libllama.CPUTime() - from
						last[i] = stats
					}
				}
				for i, name := range []string{"alone", "auto", "always"} {
					b.ReportMetric(float64(last[i].Tokens*b.N)/spent[i].Seconds(), name+"-tok/cpu-s")
					if i > 0 && last[i].Drafted > 0 {
						b.ReportMetric(float64(last[i].Accepted)/float64(last[i].Drafted), name+"-accepted")
						b.ReportMetric(float64(last[i].Drafted), name+"-drafted")
					}
				}
			})
		}
	}
}
