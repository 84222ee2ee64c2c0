package panel

import (
	"math"
	"unsafe"
)

// Batch holds T rows of K activations for multiplication. The zero value is
// ready for Resize.
//
// The integers are stored in tiles of eight rows (of one row if T is 1), padded
// with zeros: K/4 × rows × 4 bytes, so that four columns of each row are
// adjacent. AMX kernels use a blocked layout for each two tiles: K/32 × 16 × 32 bytes.
// For every 32 columns a tile holds each row's scale d, d·Σq, and -128·Σq, the
// correction of products with unsigned bytes (the weight plus 128); the latter
// for every 16 columns too.
type Batch struct {
	rows, cols int // T, K
	tile       int // rows in a tile: 1 or 8

	x      []float32 // T × K, the activations
	q      []int8
	scale  []float32
	sum    []float32
	fix32  []int32
	fix16  []int32
	staged []int8  // the integers row by row, before interleaving
	few    []Batch // each row of a batch smaller than a tile, for one-row kernels
}

// Resize sets the shape of the batch: rows × cols. The contents are undefined
// until each row has been set through Row and Prepare.
func (b *Batch) Resize(rows, cols int) {
	b.rows, b.cols = rows, cols
	b.tile = tileRows
	if rows == 1 {
		b.tile = 1
	}
	padded := b.Tiles() * b.tile
	b.x = grow(b.x, padded*cols)
	groups := (cols + groupLen - 1) / groupLen
	b.q = growAligned(b.q, padded*groups*groupLen)
	if b.tile > 1 {
		b.staged = grow(b.staged, padded*groups*groupLen)
	}
	b.scale = grow(b.scale, padded*groups)
	b.sum = grow(b.sum, padded*groups)
	b.fix32 = grow(b.fix32, padded*groups)
	b.fix16 = grow(b.fix16, padded*groups*2)
	b.resizeFew()
}

// Rows returns T.
func (b *Batch) Rows() int { return b.rows }

// Cols returns K.
func (b *Batch) Cols() int { return b.cols }

// Tiles returns the number of tiles, the unit of Prepare.
func (b *Batch) Tiles() int { return (b.rows + b.tile - 1) / b.tile }

// TileRows returns the half-open range of rows in tile i.
func (b *Batch) TileRows(i int) (lo, hi int) {
	return i * b.tile, min((i+1)*b.tile, b.rows)
}

// Row returns the activations of row t, to be filled.
func (b *Batch) Row(t int) []float32 { return b.x[t*b.cols : (t+1)*b.cols] }

// From returns the activations of the rows from t on, one after the other.
func (b *Batch) From(t int) []float32 { return b.x[t*b.cols : b.rows*b.cols] }

// Prepare quantizes the rows of tile i. It must be called after each change of
// them, unless only float weights are multiplied. The number of columns must be
// a multiple of 32.
func (b *Batch) Prepare(i int) {
	if b.cols%groupLen != 0 {
		panic("panel: number of columns is not a multiple of the group length")
	}
	lo, hi := b.TileRows(i)
	groups := b.cols / groupLen
	q := b.q[lo*b.cols : (lo+b.tile)*b.cols]
	staged := q
	if b.tile > 1 {
		staged = b.staged[lo*b.cols : (lo+b.tile)*b.cols]
	}
	at := lo * groups
	for t := range b.tile {
		r := quantized{
			q: staged[t*b.cols : (t+1)*b.cols], stride: b.tile,
			scale: b.scale[at+t : at+groups*b.tile],
			sum:   b.sum[at+t : at+groups*b.tile],
			fix32: b.fix32[at+t : at+groups*b.tile],
			fix16: b.fix16[2*at+t : 2*(at+groups*b.tile)],
		}
		if lo+t < hi {
			quantiseRow(r, b.Row(lo+t))
		} else {
			r.clear(groups)
		}
	}
	b.fillFew()
	switch {
	case hasAMX && lo < b.pairedRows():
		first := lo / pairRows * pairRows
		block(b.q[first*b.cols:(first+pairRows)*b.cols], staged, lo-first)
	case b.tile > 1:
		interleave(q, staged)
	}
}

// pairRows is the number of rows in a pair of tiles.
const pairRows = 2 * tileRows

// pairedRows returns the number of rows in pairs of tiles.
func (b *Batch) pairedRows() int { return b.Tiles() * b.tile / pairRows * pairRows }

// quantized is the destination of a row's integers and of the figures of its
// groups, which are stride apart.
type quantized struct {
	q            []int8
	stride       int
	scale, sum   []float32
	fix32, fix16 []int32
}

func (r quantized) clear(groups int) {
	clear(r.q)
	for g := range groups {
		at := g * r.stride
		r.scale[at], r.sum[at], r.fix32[at] = 0, 0, 0
		r.fix16[2*at], r.fix16[2*at+r.stride] = 0, 0
	}
}

// quantiseRowPlain rounds to the nearest multiple of d = max|x| / 127, ties to
// even.
func quantiseRowPlain(r quantized, x []float32) {
	for g := range len(x) / groupLen {
		group := x[g*groupLen : (g+1)*groupLen]
		var most float32
		for _, v := range group {
			most = max(most, float32(math.Abs(float64(v))))
		}
		d, inv := most/127, float32(0)
		if most != 0 {
			inv = 127 / most
		}
		var sums [2]int32
		for i, v := range group {
			q := int32(math.RoundToEven(float64(v * inv)))
			r.q[g*groupLen+i] = int8(q)
			sums[i/16] += q
		}
		r.put(g, d, sums[0], sums[1])
	}
}

// put stores the figures of group g.
func (r quantized) put(g int, d float32, lo, hi int32) {
	at := g * r.stride
	r.scale[at] = d
	r.sum[at] = d * float32(lo+hi)
	r.fix32[at] = -128 * (lo + hi)
	r.fix16[2*at] = -128 * lo
	r.fix16[2*at+r.stride] = -128 * hi
}

func interleavePlain(tile, rows []int8) {
	words := asUint32(tile)
	n := len(words) / tileRows
	for i, w := range asUint32(rows) {
		words[i%n*tileRows+i/n] = w
	}
}

// block interleaves the integers of a tile's rows, 32 columns at a time, with those
// of the other tile of the pair; row is that of the tile's first one in it.
func block(pair, rows []int8, row int) {
	cols := len(pair) / pairRows
	for at := 0; at < len(rows); at += groupLen {
		t, g := row+at/cols, at%cols
		copy(pair[g*pairRows+t*groupLen:][:groupLen], rows[at:])
	}
}

func asInt8(b []byte) []int8 { return unsafe.Slice((*int8)(unsafe.Pointer(&b[0])), len(b)) }

// asUint32 views bytes, in native order, as words. The slices come from
// growAligned or grow and are long enough to be aligned.
func asUint32(b []int8) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// growAligned is grow for memory that vector kernels read, aligned to 64 bytes.
func growAligned(s []int8, n int) []int8 {
	if cap(s) < n {
		return asInt8(aligned(n, cacheLine))
	}
	return s[:n]
}
