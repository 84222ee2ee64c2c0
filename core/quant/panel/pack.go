// Package pack multiplies quantised weight matrices with activations: what
// inference spends nearly all of its time on.
//
// A [Matrix] of N rows and K columns holds the weights of a GGUF tensor
// rearranged so that a vector register takes the same columns of 16 rows (32
// for F16, BF16 and F32): a panel. No sum across a register is needed, and a
// panel is read from memory front to back. A [Batch] holds T rows of
// activations, quantised to 8 bits with one scale per 32 elements (as ggml's
// Q8_0) where the weights are quantised, and as they are otherwise.
// [Matrix.Mul] computes
//
//	y (T × N) = x (T × K) · Wᵀ (K × N)
//
// for a range of N, so that threads can share one product. One row of
// activations (decoding) goes through kernels that unpack weights in
// registers and run at the speed of memory; several rows (prefill) unpack a
// panel once, to signed bytes, and multiply it with eight rows at a time.
//
// Each element of y is summed over K in one ascending order, whatever T is
// and however N is divided: results are the same, bit for bit, for a token
// alone and in a batch, and for any number of threads.
//
// Layout of a quantised panel, per 32 columns: with "unit i" standing for the
// four columns 4i to 4i+3 of each of the 16 rows, 64 bytes in the order row,
// column,
//
//	8 bit   units 0 to 7
//	4 bit   four units of bytes; byte = unit i | unit i+4 << 4
//	5 bit   the same, then 64 bytes whose bit i is bit 4 of unit i
//	6 bit   the same, then 2 × 64 bytes: bits 4 and 5 of units 0 to 3, 4 to 7
//	2 bit   2 × 64 bytes: units 0 to 3, 4 to 7
//	3 bit   the same, then 64 bytes whose bit i is bit 2 of unit i
//
// and the scales of the panel in a second array, described at [scheme].
package panel

import (
	"fmt"
	"hash"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Unit is what ranges of rows given to Mul must be multiples of; the number
// of rows of output that Mul writes is rounded up to it.
const Unit = 32

const (
	lanes    = 16 // rows in a quantised panel
	groupLen = 32 // columns that share an activation scale
	tileRows = 8  // rows of activations in a tile
	halfLen  = 16 // columns that share a weight scale in some types
)

// scheme says what the weights' integers stand for, and how a panel's scales
// lie in memory. All numbers are 16 times, once a row.
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

// format is how a type is packed.
type format struct {
	scheme scheme
	bits   int // 2, 3, 4, 5, 6 or 8
	offset int // subtracted from the stored integer; 8 bit integers are signed
	table  table
}

// table says what four bits stand for, where they are no integers.
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

// groupBytes is the size of 32 columns of a panel's integers.
func (f format) groupBytes() int { return f.bits * groupLen * lanes / 8 }

// scaleBytes is the size of the scales of k columns of a panel.
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

// Matrix is N×K weights, packed. It is read-only and may be used by many
// threads at once.
type Matrix struct {
	typ        tensor.Type
	format     format
	rows, cols int    // N, K
	quants     []byte // panels of integers, or of floats
	scales     []byte // panels of scales
	panelBytes int    // of quants
	scaleBytes int    // of scales, a panel
}

// Supported reports whether New takes weights of type t.
func Supported(t tensor.Type) bool {
	_, ok := formatOf(t)
	return ok
}

// New packs a tensor of rows × cols elements of type t, row-major as in GGUF.
// The data is not referred to afterwards. It is an error when t is not
// Supported, a dimension is not positive, cols is no multiple of t's block
// size, or data has another length. Memory comes from arena, nil meaning one of
// its own.
func New(t tensor.Type, rows, cols int, data []byte, threads *pool.Pool, arena *Arena) (*Matrix, error) {
	f, ok := formatOf(t)
	if !ok {
		return nil, fmt.Errorf("weights of type %v cannot be multiplied", t)
	}
	if rows < 1 || cols < 1 || cols%t.BlockSize() != 0 {
		return nil, fmt.Errorf("%d × %d weights of type %v: rows must be whole blocks of %d", rows, cols, t, t.BlockSize())
	}
	if rows > 1<<31 || cols > 1<<31 || len(data)/rows != t.RowBytes(cols) || len(data)%rows != 0 {
		return nil, fmt.Errorf("%d × %d weights of type %v do not take %d bytes", rows, cols, t, len(data))
	}
	if arena == nil {
		arena = &Arena{}
	}
	m := &Matrix{typ: t, format: f, rows: rows, cols: cols}
	units := (rows + Unit - 1) / Unit
	if f.scheme == schemeFloat {
		m.panelBytes = cols * tensor.PanelWidth * t.BlockBytes()
		m.quants = arena.alloc(units * m.panelBytes)
		threads.For(units, 1, pool.Func(func(_, lo, hi int) {
			for p := lo; p < hi; p++ {
				m.packFloats(p, data)
			}
		}))
		return m, nil
	}
	panels := units * Unit / lanes
	m.panelBytes, m.scaleBytes = cols/groupLen*f.groupBytes(), f.scaleBytes(cols)
	// Packed data is at most a sixteenth larger than the rows it stands for,
	// padding apart: a hostile file cannot ask for much more than its own size.
	both := arena.alloc(panels * (m.panelBytes + m.scaleBytes))
	m.quants, m.scales = both[:panels*m.panelBytes], both[panels*m.panelBytes:]
	threads.For(panels, 4, pool.Func(func(_, lo, hi int) {
		for p := lo; p < hi; p++ {
			m.packQuants(p, data)
		}
	}))
	return m, nil
}

// Type is the type the weights came in.
func (m *Matrix) Type() tensor.Type { return m.typ }

// Rows is N, the length of a row of output.
func (m *Matrix) Rows() int { return m.rows }

// Cols is K, the length of a row of activations.
func (m *Matrix) Cols() int { return m.cols }

// Bytes is the memory that one product reads.
func (m *Matrix) Bytes() int { return len(m.quants) + len(m.scales) }

// Quantised reports whether the activations are multiplied as integers.
func (m *Matrix) Quantised() bool { return m.format.scheme != schemeFloat }

// Hash adds the packed weights to h: the same for the same tensor.
func (m *Matrix) Hash(h hash.Hash) {
	h.Write(m.quants)
	h.Write(m.scales)
}
