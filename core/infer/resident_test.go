package infer

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"mm-abi.org/mm/core/tensor"
)

// TestEmbeddingResident: the pages of token vectors that were read are dropped after
// each embeddedVectors of them, and the vectors remain the same.
func TestEmbeddingResident(t *testing.T) {
	cfg := tiny("llama", 12)
	cfg.Vocab = 1 << 16
	path := write(t, cfg, random(cfg, 1), matrices(tensor.F32))
	m, err := Load(path, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	row := make([]float32, cfg.Width)
	embed := func(n int) {
		for i := range n {
			m.embed(row, int32(i*(cfg.Vocab/embeddedVectors)))
		}
	}
	embed(embeddedVectors - 1)
	first, before := row[0], mapped(t, path)
	if size := cfg.Vocab * cfg.Width * 4; before < size/8 {
		t.Fatalf("%d of %d bytes are resident after %d vectors", before, size, embeddedVectors-1)
	}
	m.embed(row, 0)
	if after := mapped(t, path); after > before/8 {
		t.Errorf("%d bytes are resident after %d vectors, %d before the last", after, embeddedVectors, before)
	}
	embed(embeddedVectors - 1)
	if row[0] != first {
		t.Errorf("the vector is %v after its pages were dropped, want %v", row[0], first)
	}
}

// mapped returns the resident bytes of the mappings of a file.
func mapped(t *testing.T, path string) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("skipped: no /proc/self/smaps")
	}
	found := regexp.MustCompile(regexp.QuoteMeta(path)+`\n(?:.*\n)*?Rss:\s+(\d+) kB`).FindAllSubmatch(text, -1)
	if found == nil {
		t.Skip("skipped: the mapping is not listed by its path")
	}
	for _, f := range found {
		kib, err := strconv.Atoi(string(f[1]))
		if err != nil {
			t.Fatal(err)
		}
		n += kib << 10
	}
	return n
}
