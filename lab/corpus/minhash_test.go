package corpus

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// open returns a folder for files.
func open(t *testing.T) *fsx.Dir {
	t.Helper()
	d, err := fsx.Open(t.TempDir(), fsx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// A sorter sorts like the library, in memory, in a few files and in more files
// than it merges at a time.
func TestSorter(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 101, 5000, 100 * (maxMerged + 1), 100*maxMerged*2 + 7} {
		d := open(t)
		s := NewSorter(d, "s", 9)
		s.limit = 900
		r := rand.New(rand.NewPCG(1, uint64(n)))
		var want [][]byte
		for range n {
			b := binary.BigEndian.AppendUint64(nil, r.Uint64N(uint64(n)))
			b = append(b, byte(r.IntN(3)))
			want = append(want, b)
			if err := s.Add(b); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortFunc(want, bytes.Compare)
		if s.Len() != int64(n) {
			t.Errorf("length %d, want %d", s.Len(), n)
		}
		i := 0
		for got, err := range s.Sorted(t.Context()) {
			if err != nil || !bytes.Equal(got, want[i]) {
				t.Fatalf("%d records: record %d: %v, %v", n, i, got, err)
			}
			i++
		}
		if left, _ := os.ReadDir(d.Path()); i != n || len(left) > 0 {
			t.Errorf("%d of %d records, %d files left", i, n, len(left))
		}
	}
}

func TestSorterLimit(t *testing.T) {
	s := NewSorter(open(t), "s", 16)
	if s.limit > maxRun || s.limit%16 != 0 || s.limit < maxRun-16 {
		t.Errorf("limit %d", s.limit)
	}
	for range s.limit/16 - 1 {
		s.Add(make([]byte, 16))
	}
	if len(s.runs) != 0 {
		t.Error("spilled below the limit")
	}
	if s.Add(make([]byte, 16)); len(s.runs) != 1 || len(s.buf) != 0 {
		t.Errorf("%d runs, %d bytes at the limit", len(s.runs), len(s.buf))
	}
}

func text(words []string) []byte { return []byte(strings.Join(words, " ")) }

func TestShingles(t *testing.T) {
	h := NewMinHasher(3)
	for s, want := range map[string]int{"": 1, "a": 1, "a b": 1, "a b c": 1, "a b c d": 2, "a b c a b c": 3, "a  b\nc d": 2} {
		if got := h.Shingles([]byte(s)); len(got) != want || !slices.IsSorted(got) {
			t.Errorf("%q: %d shingles, want %d", s, len(got), want)
		}
	}
	if a, b := h.Shingles([]byte("a b c d")), h.Shingles([]byte("b a c d")); Jaccard(a, b) == 1 {
		t.Error("order of words does not matter")
	}
}

// Documents share a key about as often as the bands predict.
func TestBands(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	h := NewMinHasher(1)
	for _, want := range []float64{0.3, 0.5, 0.7, 0.85} {
		shared, n := 0, 400
		for i := range n {
			var a, b []string
			for k := range 200 {
				one, other := fmt.Sprint("w", i, "-", k), fmt.Sprint("v", i, "-", k)
				a = append(a, one)
				if r.Float64() < 2*want/(1+want) { // of the words, so that the sets have this similarity
					other = one
				}
				b = append(b, other)
			}
			x, y := h.Bands(text(a)), h.Bands(text(b))
			if slices.ContainsFunc(x, func(k uint64) bool { return slices.Contains(y, k) }) {
				shared++
			}
		}
		p := 1 - math.Pow(1-math.Pow(want, minhashRows), bands)
		if got := float64(shared) / float64(n); math.Abs(got-p) > 0.12 {
			t.Errorf("similarity %v: %.3f share a key, want %.3f", want, got, p)
		}
	}
}

func TestJaccard(t *testing.T) {
	for _, c := range []struct {
		a, b []uint64
		want float64
	}{{nil, nil, 1}, {[]uint64{1}, nil, 0}, {[]uint64{1, 2, 3}, []uint64{2, 3, 4}, 0.5}, {[]uint64{1, 2}, []uint64{1, 2}, 1}} {
		if got := Jaccard(c.a, c.b); got != c.want {
			t.Errorf("%v %v: %v", c.a, c.b, got)
		}
	}
}

// The smallest document of a cluster stays, in any order of the pairs.
func TestClusters(t *testing.T) {
	pairs := [][2]uint64{{5, 9}, {2, 9}, {7, 8}, {5, 3}, {11, 12}, {12, 13}, {8, 13}}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		r.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		var c Clusters
		for _, p := range pairs {
			c.Join(p[r.IntN(2)], p[0])
			c.Join(p[1], p[0])
		}
		if got := c.Dropped(); !slices.Equal(got, []uint64{3, 5, 8, 9, 11, 12, 13}) {
			t.Fatalf("dropped %v", got)
		}
		if c.Find(13) != 7 || c.Find(9) != 2 || c.Find(1) != 1 {
			t.Fatal("wrong representatives")
		}
	}
}
