package train

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/train/dataset"
)

// Each limit accepts its value and refuses one more.
func TestLimits(t *testing.T) {
	settings := func(set func(*Settings)) error {
		s := Settings{}.WithDefaults()
		set(&s)
		return s.Validate()
	}
	config := func(set func(*Config)) error {
		c := smallConfig(t, t.TempDir())
		set(&c)
		return c.Validate()
	}
	curves := func(n int) error {
		const head = `{"event":"step","name":"`
		line := head + strings.Repeat("x", n-len(head)-2) + `"}` + "\n"
		_, _, err := ReadCurves(strings.NewReader(line))
		return err
	}
	file := func(n int) error {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readBounded(path, maxTemplate)
		return err
	}
	window := func(n int) error { // refused later: there is no held-out data
		_, err := Evaluate(nil, nil, (*dataset.Tokens)(nil), n, 0, nil)
		return err
	}
	for name, c := range map[string]struct{ at, beyond error }{
		"maxThreads":        {settings(func(s *Settings) { s.Threads = maxThreads }), settings(func(s *Settings) { s.Threads = maxThreads + 1 })},
		"maxThreads, model": {config(func(c *Config) { c.Threads = maxThreads }), config(func(c *Config) { c.Threads = maxThreads + 1 })},
		"maxHeldOut":        {settings(func(s *Settings) { s.Eval.N = maxHeldOut }), settings(func(s *Settings) { s.Eval.N = maxHeldOut + 1 })},
		"maxPositions": {config(func(c *Config) { c.BatchSize, c.SeqLen = maxPositions/16, 16 }),
			config(func(c *Config) { c.BatchSize, c.SeqLen = maxPositions/16+1, 16 })},
		"maxRecord":        {curves(maxRecord), curves(maxRecord + 1)},
		"maxTemplate":      {file(maxTemplate), file(maxTemplate + 1)},
		"maxTokenizerFile": {checkSize("x", maxTokenizerFile, maxTokenizerFile), checkSize("x", maxTokenizerFile+1, maxTokenizerFile)},
	} {
		if c.at != nil {
			t.Errorf("%s: %v", name, c.at)
		}
		if c.beyond == nil {
			t.Errorf("%s + 1: accepted", name)
		}
	}
	if err := window(maxPositions + 1); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("evaluation windows of maxPositions + 1: %v", err)
	}
}

// Continue keeps the options of the caller and fills in the others.
func TestContinue(t *testing.T) {
	stop, threads := Stop{Steps: 1}, 3
	opt := Options{From: "a", Resumed: &Resumed{Stop: Stop{Steps: 2}}}
	if err := opt.Continue(nil, &stop, &threads, "b"); err != nil || opt.From != "a" || stop.Steps != 2 || threads != 0 {
		t.Errorf("from %q, stop %+v, %d threads: %v", opt.From, stop, threads, err)
	}
	opt = Options{}
	if err := opt.Continue(nil, &stop, &threads, "b"); err != nil || opt.From != "b" || stop.Steps != 2 {
		t.Errorf("from %q, stop %+v: %v", opt.From, stop, err)
	}
}
