package hf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimits has a file at each limit, and one that is a byte too large; the
// large ones are sparse and not read, unless they are small.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: files at the limits")
	}
	dir := t.TempDir()
	size := func(name string, n int64) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("---\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), n); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		limit int64
		read  func() error
	}{
		{"config.json", maxConfig, func() error { _, err := Open(dir, Options{}); return err }},
		{"generation_config.json", maxConfig, func() error { _, err := endings(dir, &config{}); return err }},
		{indexFile, maxIndex, func() error { _, err := openShards(dir); return err }},
		{"README.md", maxCard, func() error { _, err := readCard(dir); return err }},
		{"tokenizer.json", maxTokenizer, func() error { _, err := readTokenizer(dir, &config{heeded: map[string]bool{}}, 1); return err }},
	} {
		for n, want := range map[int64]bool{c.limit: false, c.limit + 1: true} {
			size(c.name, n)
			if err := c.read(); strings.Contains(fmt.Sprint(err), fmt.Sprintf("%s exceeds %d bytes", c.name, c.limit)) != want {
				t.Errorf("%s of %d bytes: %v", c.name, n, err)
			}
		}
		if err := os.Remove(filepath.Join(dir, c.name)); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int64]bool{maxTemplate: true, maxTemplate + 1: false} {
		size("chat_template.jinja", n)
		if _, err := readOptional(dir, "chat_template.jinja", maxTemplate); (err == nil) != want {
			t.Errorf("maxTemplate: %d bytes: %v", n, err)
		}
	}
	for n, want := range map[int]bool{maxShards: true, maxShards + 1: false} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"t%d":"%d.safetensors"`, i, i)
		}
		if _, err := parseIndex([]byte(`{"weight_map":{` + b.String()[1:] + `}}`)); (err == nil) != want {
			t.Errorf("maxShards: %d: %v", n, err)
		}
	}
	var c config
	b := builder{}
	for range maxFaults + 1 {
		if len(b.errs) < maxFaults && b.failed() {
			t.Errorf("failed after %d errors", len(b.errs))
		}
		c.fail("fault")
		b.fail("fault")
	}
	if len(c.errs) != maxFaults || !b.failed() {
		t.Errorf("%d faults of a configuration, %d of weights", len(c.errs), len(b.errs))
	}
}
