package fonts

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"strings"
	"testing"
)

// Held-out fonts are not in training.
func TestSplits(t *testing.T) {
	seen := map[string]bool{}
	for _, split := range []struct {
		heldOut bool
		read    func() ([]Font, error)
	}{{false, Training}, {true, HeldOut}} {
		fonts, err := split.read()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fonts {
			if seen[f.Name] || strings.HasPrefix(f.Name, "Liberation") != split.heldOut {
				t.Errorf("%s: held out %v", f.Name, split.heldOut)
			}
			seen[f.Name] = true
		}
	}
	if len(seen) != 45 {
		t.Errorf("%d fonts", len(seen))
	}
}

// packed compresses unsigned numbers as a font file.
func packed(t *testing.T, numbers ...int64) []byte {
	t.Helper()
	var b []byte
	for _, n := range numbers {
		b = binary.AppendUvarint(b, uint64(n))
	}
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The limits of each count: a file at the limit is read, one above is refused.
func TestLimits(t *testing.T) {
	zigzag := func(v int64) int64 { return v<<1 ^ v>>63 }
	repeat := func(n int64, numbers ...int64) (out []int64) {
		for range n {
			out = append(out, numbers...)
		}
		return out
	}
	join := func(parts ...[]int64) (out []int64) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	glyph := func(c int64) []int64 { return []int64{c, 0, 0} } // rune, advance, no segments
	for name, build := range map[string]struct {
		limit int64
		file  func(n int64) []int64
	}{
		"maxFonts":   {maxFonts, func(n int64) []int64 { return join([]int64{n}, repeat(n, 0, 0, 0)) }},
		"maxName":    {maxName, func(n int64) []int64 { return join([]int64{1, 0, n}, repeat(n, 'x'), []int64{0}) }},
		"maxGlyphs":  {maxGlyphs, func(n int64) []int64 { return join([]int64{1, 0, 0, n}, repeat(n, glyph('x')...)) }},
		"maxRune":    {maxRune, func(n int64) []int64 { return join([]int64{1, 0, 0, 1}, glyph(n)) }},
		"maxOps":     {maxOps, func(n int64) []int64 { return join([]int64{1, 0, 0, 1, 'x', 0, n}, repeat(n, 0, 0, 0)) }},
		"maxExtent":  {maxExtent, func(n int64) []int64 { return []int64{1, 0, 0, 1, 'x', zigzag(n), 0} }},
		"-maxExtent": {maxExtent, func(n int64) []int64 { return []int64{1, 0, 0, 1, 'x', zigzag(-n), 0} }},
	} {
		if _, err := read(packed(t, build.file(build.limit)...), false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := read(packed(t, build.file(build.limit+1)...), false); err == nil {
			t.Errorf("%s + 1: accepted", name)
		}
	}
}

// Damaged files are an error.
func FuzzFonts(f *testing.F) {
	f.Add(file)
	f.Add(file[:1000])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 && len(b) != len(file) {
			t.Skip()
		}
		if fonts, err := read(b, false); err == nil && len(fonts) == 0 {
			t.Error("no fonts and no error")
		}
	})
}
