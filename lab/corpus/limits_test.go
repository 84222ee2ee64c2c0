package corpus

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// At most maxFaults faults of rows are reported.
func TestFaultLimit(t *testing.T) {
	for _, n := range []int{maxFaults, maxFaults + 1} {
		dir := t.TempDir()
		_, err := Build(t.Context(), manifest(t, source(t, dir, "a.jsonl", strings.Repeat("{\n", n), ""), ""), Options{Dir: dir, Out: filepath.Join(dir, "out")})
		if got := len(codes(err)); got != maxFaults {
			t.Errorf("%d faults: %d reported", n, got)
		}
	}
}

// In a group of more than maxBucket documents, each pairs with the first and with
// the maxBucket before it.
func TestBucketLimit(t *testing.T) {
	for n, want := range map[int]int64{maxBucket: maxBucket * (maxBucket - 1) / 2, maxBucket + 2: (maxBucket+2)*(maxBucket+1)/2 - 0} {
		dir, err := fsx.Open(t.TempDir(), fsx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		c := &collector{bands: NewSorter(dir, "b", 16)}
		for i := range n {
			c.bands.Add(binary.BigEndian.AppendUint64(make([]byte, 8), uint64(i)))
		}
		pairs := NewSorter(dir, "p", 16)
		if err := c.pair(t.Context(), pairs); err != nil || pairs.Len() != want {
			t.Errorf("%d documents: %d pairs, want %d, %v", n, pairs.Len(), want, err)
		}
	}
}

// A damaged file is a diagnostic.
func TestParquetDiagnostic(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.parquet": "PAR1PAR1PAR1", "b.parquet": "no"} {
		if _, err := Build(t.Context(), manifest(t, source(t, dir, name, text, ""), ""), Options{Dir: dir, Out: filepath.Join(dir, "out")}); !slices.Equal(codes(err), []diag.Code{diag.ParquetFault}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A footer and a page header beyond their limits are refused.
func TestParquetLimits(t *testing.T) {
	for _, n := range []int{maxFooter, maxFooter + 1} {
		b := make([]byte, n+12)
		copy(b, "PAR1")
		binary.LittleEndian.PutUint32(b[len(b)-8:], uint32(n))
		copy(b[len(b)-4:], "PAR1")
		err := checkFooter(bytes.NewReader(b), int64(len(b)))
		if limit := err != nil && contains(err.Error(), "limit"); limit != (n > maxFooter) {
			t.Errorf("footer of %d bytes: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{1000: true, 8 * maxPageHeader: false} {
		b := append(binary.AppendUvarint([]byte{0x18}, uint64(n)), make([]byte, n+1)...)
		c := &column{r: io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))}
		var buf []byte
		if _, _, err := c.header(0, &buf); (err == nil) != ok {
			t.Errorf("header of %d bytes: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{maxPages: true, maxPages + 1: false} {
		b := make([]byte, n) // each byte is a header of an empty page
		c := &column{r: io.NewSectionReader(bytes.NewReader(b), 0, int64(n))}
		if err := c.check(); (err == nil) != ok {
			t.Errorf("%d pages: %v", n, fmt.Sprint(err))
		}
	}
}

// More similar documents than memory is planned for are refused.
func TestCandidates(t *testing.T) {
	if list := checkCandidates(maxCandidates, diag.Pos{}); list.Failed() {
		t.Error(list)
	}
	if list := checkCandidates(maxCandidates+1, diag.Pos{}); len(list) != 1 || list[0].Code != diag.NearMany {
		t.Errorf("got %v, want MM1575", list)
	}
}

// A frame of zstd that declares a larger window is refused before it is allocated.
func TestZstdWindow(t *testing.T) {
	for exponent, ok := range map[int]bool{bits.Len(maxWindow) - 1: true, bits.Len(maxWindow): false} {
		frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(exponent-10) << 3, 1, 0, 0} // an empty last block
		r, err := content(bytes.NewReader(frame), Zstd)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.ReadAll(r); (err == nil) != ok {
			t.Errorf("window of 2^%d bytes: got %v, want it read: %v", exponent, err, ok)
		}
		r.Close()
	}
}
