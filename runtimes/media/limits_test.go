package media

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
)

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	cache, err := OpenVectorCache(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	entry := func(n int) error {
		file := filepath.Join(dir, "x"+suffix)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, int64(n)); err != nil {
			t.Fatal(err)
		}
		_, err := cache.read("x" + suffix)
		return err
	}
	head := func(n int) error {
		const around = `{"width":1,"assumed":[""]}`
		k := NewKey()
		b, err := encode(k, Vectors{Numbers: []float32{1}, Width: 1, Assumed: []string{strings.Repeat("x", n-len(around))}})
		if err == nil {
			_, err = decode(k, b)
		}
		return err
	}
	inputs := func(n int) error {
		return new(Senses).Read(t.Context(), []Medium{{Part: &talk.Part{Type: abi.Image, Data: []byte{1}}, source: &source{size: int64(n)}}})
	}
	for _, c := range []struct {
		name  string
		check func(int) error
		limit int
	}{{"maxEntry", entry, maxEntry}, {"maxHead", head, maxHead}, {"maxInputs", inputs, maxInputs}} {
		if err := c.check(c.limit); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.check(c.limit+1) == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
}

// An entry as large as the cache is kept, a larger one is not.
func TestCacheLimit(t *testing.T) {
	k, v := NewKey(), Vectors{Numbers: []float32{1, 2}, Width: 1}
	data, err := encode(k, v)
	if err != nil {
		t.Fatal(err)
	}
	for limit, kept := range map[int]bool{len(data): true, len(data) - 1: false} {
		cache, err := OpenVectorCache(t.TempDir(), int64(limit))
		if err != nil {
			t.Fatal(err)
		}
		if err := cache.Put(t.Context(), k, v); err != nil {
			t.Error(err)
		}
		if _, ok := cache.Get(k); ok != kept {
			t.Errorf("%d bytes in a cache of %d: kept %v", len(data), limit, ok)
		}
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	}
}
