// Similar documents are found in bounded memory.
//
// Documents are sets of shingles, sequences of words. [MinHasher.Bands] returns
// keys of a document such that similar documents have an equal key with high
// probability (MinHash, then bands of rows). Documents with an equal key are
// candidates; [Jaccard] of their shingles decides. [Clusters] joins the similar
// ones, so that the smallest of each cluster can represent it.
//
// A [Sorter] sorts keys in files. The memory is that of the sorter and 32 bytes
// for each candidate.

package corpus

import (
	"math/bits"
	"slices"
)

// Bands and rows of a signature: documents of similarity s have an equal key
// with probability 1-(1-s⁵)²⁵, which is 0.55 at 0.5, 0.99 at 0.7 and 1-5·10⁻⁵ at
// 0.8.
const (
	bands       = 25
	minhashRows = 5
)

// MinHashKeys is the number of keys of a document.
const MinHashKeys = bands

// MinHasher computes the shingles and keys of documents. It is safe for concurrent
// use.
type MinHasher struct {
	words int
	mul   [bands * minhashRows]uint64
	add   [bands * minhashRows]uint64
}

// NewMinHasher returns a hasher of shingles of the given number of words.
func NewMinHasher(words int) *MinHasher {
	h := &MinHasher{words: words}
	x := uint64(0x6d6d2d64617461)
	for i := range h.mul {
		x += 0x9e3779b97f4a7c15
		h.mul[i] = mix(x) | 1
		x += 0x9e3779b97f4a7c15
		h.add[i] = mix(x)
	}
	return h
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Shingles returns the hashes of the shingles of a text, sorted, without
// duplicates. Words are separated by spaces and lines. A text of fewer words
// than a shingle is one shingle.
func (h *MinHasher) Shingles(text []byte) []uint64 {
	var words []uint64
	for i := 0; i < len(text); {
		x, from := uint64(0xcbf29ce484222325), i
		for ; i < len(text) && text[i] != ' ' && text[i] != '\n'; i++ {
			x = (x ^ uint64(text[i])) * 0x100000001b3
		}
		if i > from {
			words = append(words, mix(x))
		}
		i++
	}
	n := max(len(words)-h.words+1, 1)
	out := make([]uint64, n)
	for i := range out {
		x := uint64(0)
		for _, w := range words[i:min(i+h.words, len(words))] {
			x = mix(bits.RotateLeft64(x, 5) ^ w)
		}
		out[i] = x
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Bands returns the keys of a text. Keys of different bands differ.
func (h *MinHasher) Bands(text []byte) []uint64 {
	var least [bands * minhashRows]uint32
	shingles := h.Shingles(text)
	for i := range least {
		m, a, v := h.mul[i], h.add[i], uint64(1<<64-1)
		for _, s := range shingles {
			v = min(v, s*m+a)
		}
		least[i] = uint32(v >> 32)
	}
	keys := make([]uint64, bands)
	for b := range keys {
		x := uint64(b) + 1
		for _, v := range least[b*minhashRows : (b+1)*minhashRows] {
			x = mix(x<<7 ^ x>>57 ^ uint64(v))
		}
		keys[b] = x
	}
	return keys
}

// Jaccard returns the similarity of two sorted sets: the size of the
// intersection by that of the union.
func Jaccard(a, b []uint64) float64 {
	both := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] < b[j]:
			i++
		case a[i] > b[j]:
			j++
		default:
			both++
			i++
			j++
		}
	}
	if len(a)+len(b) == 0 {
		return 1
	}
	return float64(both) / float64(len(a)+len(b)-both)
}

// Clusters joins documents (union-find). The representative of a cluster is its
// smallest document.
type Clusters struct {
	parent map[uint64]uint64
}

// Join joins the clusters of a and b.
func (c *Clusters) Join(a, b uint64) {
	if c.parent == nil {
		c.parent = map[uint64]uint64{}
	}
	a, b = c.Find(a), c.Find(b)
	if a != b {
		c.parent[max(a, b)] = min(a, b)
	}
}

// Find returns the representative of a document.
func (c *Clusters) Find(a uint64) uint64 {
	for {
		p, ok := c.parent[a]
		if !ok {
			return a
		}
		if q, ok := c.parent[p]; ok {
			c.parent[a] = q
		}
		a = p
	}
}

// Dropped returns the documents that are not representatives, sorted.
func (c *Clusters) Dropped() []uint64 {
	out := make([]uint64, 0, len(c.parent))
	for a := range c.parent {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}
