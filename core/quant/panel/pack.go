// Package panel multiplies quantized weight matrices with activations, which
// takes nearly all of the time of inference.
//
// A [Matrix] of N rows and K columns holds the weights of a GGUF tensor
// rearranged into panels, in which a vector register holds the same columns of
// 16 rows (32 for F16, BF16 and F32). No sum across a register is needed, and a
// panel is read from memory sequentially. A [Batch] holds T rows of
// activations: quantized to 8 bits with one scale per 32 elements (like ggml's
// Q8_0) if the weights are quantized, unchanged otherwise. [Matrix.Mul]
// computes
//
//	y (T × N) = x (T × K) · Wᵀ (K × N)
//
// for a range of N, so that threads can share one product. For one row of
// activations (decoding), kernels unpack weights in registers and run at the
// speed of memory; for several rows (prefill), a panel is unpacked once, to
// signed bytes, and multiplied with eight rows at a time.
//
// Each element of y is summed over K in one ascending order, independent of T
// and of how N is divided: results are bit-equal for a token alone and in a
// batch, and for any number of threads.
//
// Layout of a quantized panel, per 32 columns, with "unit i" for the four
// columns 4i to 4i+3 of each of the 16 rows, 64 bytes in the order row, column:
//
//	8 bit   units 0 to 7
//	4 bit   four units of bytes; byte = unit i | unit i+4 << 4
//	5 bit   the same, then 64 bytes whose bit i is bit 4 of unit i
//	6 bit   the same, then 2 × 64 bytes: bits 4 and 5 of units 0 to 3, 4 to 7
//	2 bit   2 × 64 bytes: units 0 to 3, 4 to 7
//	3 bit   the same, then 64 bytes whose bit i is bit 2 of unit i
//
// The scales of the panel are in a second array, described at [scheme].
package panel

import (
	"fmt"
	"hash"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Unit is the alignment of ranges of rows passed to Mul; the number of rows of
// output that Mul writes is rounded up to it.
const Unit = 32

const (
	lanes    = 16 // rows in a quantized panel
	groupLen = 32 // columns that share an activation scale
	tileRows = 8  // rows of activations in a tile
	halfLen  = 16 // columns that share a weight scale in some types
)

// scheme describes the meaning of the weights' integers and the layout of a
// panel's scales. Each number is stored 16 times, once for each row.
type scheme uint8

const (
	schemeFloat    scheme = iota // no integers: F32, F16, BF16
	schemeScale                  // d·(q-offset); per 32 columns: f16 d
	schemeScaleMin               // d·q + m; per 32 columns: f16 d, f16 m
	schemePower                  // d·q; per 32 columns: bf16 d, a power of two
	schemeK                      // d·s·q - dmin·m; per 256: f16 d, f16 dmin, 8 × (u8 s, u8 m)
	schemeK2                     // d·s·q - dmin·m; per 256: f16 d, f16 dmin, 16 × (u4 s, u4 m)
	schemeSigned                 // d·s·q; per 256: f16 d, 8 × i8 s
	schemeSigned16               // d·s·(q-offset); per 256: f16 d, 16 × i8 s
)

// format describes how a type is packed.
type format struct {
	scheme scheme
	bits   int // 2, 3, 4, 5, 6 or 8
	offset int // subtracted from the stored integer; 8 bit integers are signed
	table  table
}

// table selects the values of four bits that are not integers.
type table uint8

const (
	noTable table = iota
	tableIQ4
	tableMXFP4
)

func (t table) values() [16]int8 {
	if t == tableIQ4 {
		return quant.TableIQ4()
	}
	return quant.TableMXFP4()
}

func formatOf(t tensor.Type) (format, bool) {
	switch t {
	case tensor.F32, tensor.F16, tensor.BF16:
		return format{scheme: schemeFloat}, true
	case tensor.Q8_0:
		return format{scheme: schemeScale, bits: 8}, true
	case tensor.Q4_0:
		return format{scheme: schemeScale, bits: 4, offset: 8}, true
	case tensor.Q5_0:
		return format{scheme: schemeScale, bits: 5, offset: 16}, true
	case tensor.IQ4_NL:
		return format{scheme: schemeScale, bits: 4, table: tableIQ4}, true
	case tensor.Q4_1:
		return format{scheme: schemeScaleMin, bits: 4}, true
	case tensor.Q5_1:
		return format{scheme: schemeScaleMin, bits: 5}, true
	case tensor.MXFP4:
		return format{scheme: schemePower, bits: 4, table: tableMXFP4}, true
	case tensor.Q4_K:
		return format{scheme: schemeK, bits: 4}, true
	case tensor.Q5_K:
		return format{scheme: schemeK, bits: 5}, true
	case tensor.Q2_K:
		return format{scheme: schemeK2, bits: 2}, true
	case tensor.IQ4_XS:
		return format{scheme: schemeSigned, bits: 4, table: tableIQ4}, true
	case tensor.Q6_K:
		return format{scheme: schemeSigned16, bits: 6, offset: 32}, true
	case tensor.Q3_K:
		return format{scheme: schemeSigned16, bits: 3, offset: 4}, true
	}
	return format{}, false
}

// groupBytes returns the size of 32 columns of a panel's integers.
func (f format) groupBytes() int { return f.bits * groupLen * lanes / 8 }

// scaleBytes returns the size of the scales of k columns of a panel.
func (f format) scaleBytes(k int) int {
	switch f.scheme {
	case schemeScale, schemePower:
		return k / 32 * lanes * 2
	case schemeScaleMin:
		return k / 32 * lanes * 4
	case schemeK:
		return k / 256 * lanes * (4 + 16)
	case schemeK2:
		return k / 256 * lanes * (4 + 16)
	case schemeSigned:
		return k / 256 * lanes * (2 + 8)
	case schemeSigned16:
		return k / 256 * lanes * (2 + 16)
	}
	return 0
}

// Matrix holds N×K packed weights. It is read-only and safe for concurrent use.
type Matrix struct {
	typ        tensor.Type
	format     format
	rows, cols int    // N, K
	quants     []byte // panels of integers, or of floats
	scales     []byte // panels of scales
	panelBytes int    // of quants
	scaleBytes int    // of scales, a panel
}

// Supported reports whether New accepts weights of type t.
func Supported(t tensor.Type) bool {
	_, ok := formatOf(t)
	return ok
}

// New packs a tensor of rows × cols elements of type t, row-major as in GGUF.
// It does not retain data. It returns an error if t is not Supported, a
// dimension is not positive, cols is not a multiple of t's block size, or the
// length of data does not match. Memory comes from arena; if nil, from a new
// one.
func New(t tensor.Type, rows, cols int, data []byte, threads *pool.Pool, arena *Arena) (*Matrix, error) {
	f, ok := formatOf(t)
	if !ok {
		return nil, fmt.Errorf("weights of type %v have no kernel", t)
	}
	if rows < 1 || cols < 1 || cols%t.BlockSize() != 0 {
		return nil, fmt.Errorf("%d × %d weights of type %v: columns must be a multiple of %d", rows, cols, t, t.BlockSize())
	}
	if rows > 1<<31 || cols > 1<<31 || len(data)/rows != t.RowBytes(cols) || len(data)%rows != 0 {
		return nil, fmt.Errorf("%d × %d weights of type %v: size mismatch, got %d bytes", rows, cols, t, len(data))
	}
	if arena == nil {
		arena = &Arena{}
	}
	m := &Matrix{typ: t, format: f, rows: rows, cols: cols}
	units := (rows + Unit - 1) / Unit
	if f.scheme == schemeFloat {
		m.panelBytes = cols * tensor.PanelWidth * t.BlockBytes()
		m.quants = arena.alloc(units * m.panelBytes)
		arena.each(threads, units, 1, Unit, rows, data, func(p int) { m.packFloats(p, data) })
		return m, nil
	}
	panels := units * Unit / lanes
	m.panelBytes, m.scaleBytes = cols/groupLen*f.groupBytes(), f.scaleBytes(cols)
	// Packed data is at most a sixteenth larger than the unpacked rows, except
	// for padding: a hostile file cannot cause an allocation much larger than
	// itself.
	both := arena.alloc(panels * (m.panelBytes + m.scaleBytes))
	m.quants, m.scales = both[:panels*m.panelBytes], both[panels*m.panelBytes:]
	arena.each(threads, panels, 4, lanes, rows, data, func(p int) { m.packQuants(p, data) })
	return m, nil
}

// releaseBytes is how much source data is packed before it is released.
const releaseBytes = 4 << 20

// each packs n panels of height rows each. With Release, it does so in parts and
// releases the source of each part.
func (a *Arena) each(threads *pool.Pool, n, grain, height, rows int, data []byte, pack func(panel int)) {
	part, rowBytes := n, len(data)/rows
	if a.Release != nil {
		part = max(releaseBytes/(height*rowBytes), grain)
	}
	for first := 0; first < n; first += part {
		last := min(first+part, n)
		threads.For(last-first, grain, pool.Func(func(_, lo, hi int) {
			for p := first + lo; p < first+hi; p++ {
				pack(p)
			}
		}))
		if a.Release != nil && first*height < rows {
			a.Release(data[first*height*rowBytes : min(last*height, rows)*rowBytes])
		}
	}
}

// Type returns the original type of the weights.
func (m *Matrix) Type() tensor.Type { return m.typ }

// Rows returns N, the length of a row of output.
func (m *Matrix) Rows() int { return m.rows }

// Cols returns K, the length of a row of activations.
func (m *Matrix) Cols() int { return m.cols }

// Bytes returns the number of bytes that one product reads.
func (m *Matrix) Bytes() int { return len(m.quants) + len(m.scales) }

// Quantized reports whether the activations are multiplied as integers.
func (m *Matrix) Quantized() bool { return m.format.scheme != schemeFloat }

// Hash adds the packed weights to h. It is deterministic.
func (m *Matrix) Hash(h hash.Hash) {
	h.Write(m.quants)
	h.Write(m.scales)
}
