// A cache stores the keys and values of attention of every layer and key/value
// head, for the positions of one session.
//
// The memory consists of chunks of [kvChunk] positions, allocated as positions
// arrive. Within a chunk the keys of a head are transposed, in blocks of 32
// positions by D dimensions, so that a vector register holds one dimension of
// many positions and scores need no sums across registers; values are rows of
// 32 dimensions. Both are the right factor of [tensor.MulPanel].
//
// Elements are stored as F32, F16, or Q8_0: signed bytes, with an f16 scale for
// every 32 dimensions of a position. Keys have dimensions that are large at
// every position and would take the bits from the 31 that share their scale:
// for Q8_0, [kvCache.Spread] mixes the dimensions of keys and of queries in the
// same way, which preserves their products. Attention reads float32 through
// [kvCache.Keys] and [kvCache.Values], or float16 through [kvCache.KeysF16] and
// [kvCache.ValuesF16] if that is faster.

package infer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"mm-abi.org/mm/core/tensor"
)

var le = binary.LittleEndian

const (
	// kvChunk is the number of positions read at a time.
	kvChunk = 256
	// Block is the number of positions in a block of keys.
	Block = tensor.PanelWidth
)

// cacheShape is the layout of a position.
type cacheShape struct {
	Layers int
	Heads  int // key/value heads
	Dim    int // D, dimensions of a head
	// Latent is the number of first dimensions of a key that are the value too.
	// If zero, values are stored.
	Latent int
	// Local marks the layers whose LocalHeads have LocalDim dimensions; nil: none.
	Local                []bool
	LocalHeads, LocalDim int
}

// cacheSlot is the layout of a layer.
type cacheSlot struct {
	heads, dim int
	panels     int // ⌈D/32⌉
	spread     int // dimensions that are mixed, a power of two
	values     int // dimensions of a value
	keyBytes   int // keys of a head in a chunk, including scales
	valueBytes int
	at         int // of the layer in a chunk
}

// kvCache holds the keys and values of a session. It is not safe for concurrent
// use, except that different positions may be stored concurrently, and read
// concurrently.
type kvCache struct {
	shape  cacheShape
	typ    tensor.Type
	slots  []cacheSlot // by layer
	bytes  int         // of a chunk
	chunks [][]byte
	shared []int // first positions of each chunk that others read too
}

// kvSupported reports whether a cache stores type t: F32, F16 or Q8_0.
func kvSupported(t tensor.Type) bool {
	return t == tensor.F32 || t == tensor.F16 || t == tensor.Q8_0
}

// newCache returns an empty cache.
func newCache(s cacheShape, t tensor.Type) (*kvCache, error) {
	if !kvSupported(t) {
		return nil, fmt.Errorf("unsupported type of keys and values: %v", t)
	}
	if s.Layers < 0 || s.Layers > 0 && (s.Heads < 1 || s.Dim < 1) || s.Local != nil && (len(s.Local) != s.Layers || s.LocalHeads < 1 || s.LocalDim < 1) {
		return nil, fmt.Errorf("bad cache shape: %+v", s)
	}
	c := &kvCache{shape: s, typ: t}
	for i := range s.Layers {
		one := newSlot(s.Heads, s.Dim, s.Latent, t)
		if s.Local != nil && s.Local[i] {
			one = newSlot(s.LocalHeads, s.LocalDim, s.Latent, t)
		}
		one.at = c.bytes
		c.bytes += one.heads * (one.keyBytes + one.valueBytes)
		c.slots = append(c.slots, one)
	}
	return c, nil
}

func newSlot(heads, dim, latent int, t tensor.Type) cacheSlot {
	s := cacheSlot{heads: heads, dim: dim, panels: (dim + Block - 1) / Block, spread: (dim | latent) & -(dim | latent), values: dim}
	size := elemBytes(t)
	s.keyBytes = dim * kvChunk * size
	s.valueBytes = s.panels * Block * kvChunk * size
	if t == tensor.Q8_0 {
		s.keyBytes += s.panels * kvChunk * 2
		s.valueBytes += s.panels * kvChunk * 2
	}
	if latent > 0 {
		s.valueBytes, s.values = 0, latent
	}
	return s
}

func elemBytes(t tensor.Type) int {
	switch t {
	case tensor.F32:
		return 4
	case tensor.F16:
		return 2
	}
	return 1
}

// Panels returns the number of value panels of a head.
func (c *kvCache) Panels(layer int) int { return (c.slots[layer].values + Block - 1) / Block }

// Type returns the element type.
func (c *kvCache) Type() tensor.Type { return c.typ }

// ChunkBytes returns the memory of a chunk.
func (c *kvCache) ChunkBytes() int { return c.bytes }

// Reserve allocates the positions below n.
func (c *kvCache) Reserve(n int) {
	for len(c.chunks)*kvChunk < n {
		c.chunks = append(c.chunks, make([]byte, c.ChunkBytes()))
		c.shared = append(c.shared, 0)
	}
}

// Release frees chunks without a position below n.
func (c *kvCache) Release(n int) {
	keep := min(len(c.chunks), (n+kvChunk-1)/kvChunk)
	clear(c.chunks[keep:])
	c.chunks, c.shared = c.chunks[:keep], c.shared[:keep]
}

// Lend returns the chunks of the positions below n, which others may read: they
// do not change.
func (c *kvCache) Lend(n int) [][]byte {
	for i := range kvChunks(n) {
		c.shared[i] = max(c.shared[i], min(n-i*kvChunk, kvChunk))
	}
	return slices.Clone(c.chunks[:kvChunks(n)])
}

// Borrow replaces the contents by chunks that others read, and may append to.
func (c *kvCache) Borrow(chunks [][]byte) {
	c.chunks = append(c.chunks[:0], chunks...)
	c.shared = slices.Repeat([]int{kvChunk}, len(chunks))
}

// missing returns the number of chunks that must be allocated to write the
// positions from n on, below end.
func (c *kvCache) missing(n, end int) int {
	out := max(0, kvChunks(end)-len(c.chunks))
	for i := n / kvChunk; i < len(c.chunks); i++ {
		if max(n-i*kvChunk, 0) < c.shared[i] {
			out++
		}
	}
	return out
}

// Own prepares the positions from n on to be written: chunks that others read
// there are copied.
func (c *kvCache) Own(n int) {
	for i := n / kvChunk; i < len(c.chunks); i++ {
		if max(n-i*kvChunk, 0) < c.shared[i] {
			c.chunks[i], c.shared[i] = slices.Clone(c.chunks[i]), 0
		}
	}
}

// Bytes returns the memory in use.
func (c *kvCache) Bytes() int { return len(c.chunks) * c.ChunkBytes() }

// keys and values return the memory of a head in a chunk.
func (c *kvCache) keys(chunk, layer, head int) []byte {
	s := &c.slots[layer]
	at := s.at + head*(s.keyBytes+s.valueBytes)
	return c.chunks[chunk][at : at+s.keyBytes]
}

func (c *kvCache) values(chunk, layer, head int) []byte {
	s := &c.slots[layer]
	at := s.at + head*(s.keyBytes+s.valueBytes) + s.keyBytes
	return c.chunks[chunk][at : at+s.valueBytes]
}

// Spread prepares heads of a layer to be stored as keys or multiplied by
// keys. For Q8_0 it multiplies by Hadamard's matrix over √n, n the largest
// power of two that divides D (and the latent dimensions), which is its own
// inverse (Ashkboos et al., arXiv 2404.00456); otherwise it does nothing.
func (c *kvCache) Spread(layer int, heads []float32) {
	if c.typ != tensor.Q8_0 {
		return
	}
	n := c.slots[layer].spread
	scale := float32(1 / math.Sqrt(float64(n)))
	for ; len(heads) > 0; heads = heads[n:] {
		x := heads[:n]
		for half := 1; half < n; half *= 2 {
			for i := 0; i < n; i += 2 * half {
				lo, hi := x[i:i+half], x[i+half:i+2*half]
				for j, a := range lo {
					lo[j], hi[j] = a+hi[j], a-hi[j]
				}
			}
		}
		tensor.Scale(x, scale)
	}
}

// Store stores the key, after [kvCache.Spread], and the value (D numbers each)
// of a reserved position. A value within the key is not stored.
func (c *kvCache) Store(layer, head, pos int, key, value []float32) {
	if c.shape.Latent > 0 {
		value = nil
	}
	k := c.keys(pos/kvChunk, layer, head)
	v := c.values(pos/kvChunk, layer, head)
	p := pos % kvChunk
	switch c.typ {
	case tensor.F32:
		block := floats(k)[p/Block*len(key)*Block+p%Block:]
		for d, x := range key {
			block[d*Block] = x
		}
		if value == nil {
			return
		}
		rows := floats(v)
		for j := 0; j*Block < len(value); j++ {
			copy(rows[(j*kvChunk+p)*Block:], value[j*Block:min((j+1)*Block, len(value))])
		}
	case tensor.F16:
		c.storeF16(k, v, p, key, value)
	case tensor.Q8_0:
		c.storeQ8(c.slots[layer].panels, k, v, p, key, value)
	}
}

func (c *kvCache) storeF16(k, v []byte, p int, key, value []float32) {
	var half [2 * Block]byte
	block := k[2*(p/Block*len(key)*Block+p%Block):]
	for j := 0; j < len(key); j += Block {
		n := min(Block, len(key)-j)
		tensor.ToF16(half[:2*n], key[j:j+n])
		column := block[2*j*Block:]
		for d := range n {
			le.PutUint16(column[2*d*Block:], le.Uint16(half[2*d:]))
		}
		if value != nil {
			tensor.ToF16(v[2*(j/Block*kvChunk+p)*Block:][:2*n], value[j:j+n])
		}
	}
}

// Q8_0: the scales follow the elements. A block of keys has ⌈D/32⌉ rows of 32
// scales, one for each position; a panel of values has one for each row.
func (c *kvCache) storeQ8(panels int, k, v []byte, p int, key, value []float32) {
	elems := len(key) * kvChunk
	block := k[p/Block*len(key)*Block+p%Block:]
	keyScales := k[elems+2*(p/Block*panels*Block+p%Block):]
	var valueScales []byte
	if value != nil {
		valueScales = v[panels*Block*kvChunk:]
	}
	var q [Block]int8
	for j := 0; j < len(key); j += Block {
		n := min(Block, len(key)-j)
		le.PutUint16(keyScales[2*j:], quantize(q[:n], key[j:j+n]))
		for d := range n {
			block[(j+d)*Block] = byte(q[d])
		}
		if value == nil {
			continue
		}
		le.PutUint16(valueScales[2*(j/Block*kvChunk+p):], quantize(q[:n], value[j:j+n]))
		row := v[(j/Block*kvChunk+p)*Block:]
		for d := range n {
			row[d] = byte(q[d])
		}
	}
}

// quantize rounds x to multiples of max|x|/127 and returns that scale as f16.
func quantize(q []int8, x []float32) uint16 {
	var most float32
	for _, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
	}
	if !(most > 0) {
		clear(q)
		return tensor.F32ToF16(most)
	}
	inv := 127 / most
	for i, v := range x {
		q[i] = int8(math.RoundToEven(float64(v * inv)))
	}
	return tensor.F32ToF16(most / 127)
}

// KeysF16 returns the keys of a head for the block-th 32 positions of a chunk
// in a cache of F16: D × 32, positions contiguous.
func (c *kvCache) KeysF16(chunk, layer, head, block int) []byte {
	n := 2 * c.slots[layer].dim * Block
	return c.keys(chunk, layer, head)[block*n : (block+1)*n]
}

// ValuesF16 returns a panel of the values of a head for the first n positions
// of a chunk in a cache of F16: n × 32.
func (c *kvCache) ValuesF16(chunk, layer, head, part, n int) []byte {
	at := 2 * part * kvChunk * Block
	return c.values(chunk, layer, head)[at : at+2*n*Block]
}

// Keys returns the keys of a head for the block-th 32 positions of a chunk, as
// D × 32 float32 with positions contiguous. It converts into buf, of at least
// D·32 numbers, unless the elements are float32.
func (c *kvCache) Keys(chunk, layer, head, block int, buf []float32) []float32 {
	k := c.keys(chunk, layer, head)
	s := &c.slots[layer]
	n := s.dim * Block
	switch c.typ {
	case tensor.F32:
		return floats(k)[block*n : (block+1)*n]
	case tensor.F16:
		tensor.FromF16(buf[:n], c.KeysF16(chunk, layer, head, block))
	case tensor.Q8_0:
		var scales [Block]float32
		for d := range s.dim {
			if d%Block == 0 {
				at := s.dim*kvChunk + 2*(block*s.panels+d/Block)*Block
				tensor.FromF16(scales[:], k[at:at+2*Block])
			}
			row, out := k[block*n+d*Block:][:Block], buf[d*Block:][:Block]
			for i, q := range row {
				out[i] = float32(int8(q)) * scales[i]
			}
		}
	}
	return buf[:n]
}

// Values returns a panel of the values of a head, dimensions 32·part to
// 32·part+31, for the first n positions of a chunk: n × 32 float32. Dimensions
// beyond D are 0. It converts into buf, of at least n·32 numbers, unless the
// elements are float32.
func (c *kvCache) Values(chunk, layer, head, part, n int, buf []float32) []float32 {
	v := c.values(chunk, layer, head)
	at := part * kvChunk * Block
	switch c.typ {
	case tensor.F32:
		return floats(v)[at : at+n*Block]
	case tensor.F16:
		tensor.FromF16(buf[:n*Block], c.ValuesF16(chunk, layer, head, part, n))
	case tensor.Q8_0:
		scales := v[c.slots[layer].panels*Block*kvChunk+2*part*kvChunk:]
		for p := range n {
			d := tensor.F16ToF32(le.Uint16(scales[2*p:]))
			row, out := v[at+p*Block:][:Block], buf[p*Block:][:Block]
			for i, q := range row {
				out[i] = float32(int8(q)) * d
			}
		}
	}
	return buf[:n*Block]
}

// floats views aligned memory as float32.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}
