package tensor

import "unsafe"

// Float is an element type of the kernels: float32 in assembly if the processor
// supports it, float64 always in plain Go (gradient checks).
type Float interface{ float32 | float64 }

// Panels is the right factor of a matrix product, a K×N matrix B, stored in the
// order in which the micro-kernel reads it: ⌈N/width⌉ panels of K rows and
// width columns, zero beyond N. Packing costs about as much as a copy, so
// weights are packed once per update and multiplied many times.
//
// A Panels may be multiplied concurrently; packing is exclusive.
type Panels[F Float] struct {
	k, n  int
	width int
	depth int // rows stored in each panel: k, half of it in pairs, or more in a View
	reads reading
	data  []F
}

// NewPanels returns room for a K×N matrix. It must be packed before use.
func NewPanels[F Float](k, n int) *Panels[F] {
	return newPanels[F](k, n, panelWidth[F]())
}

// PanelsSize returns the number of bytes that NewPanels allocates for a K×N
// matrix.
func PanelsSize[F Float](k, n int) int64 {
	var v F
	width := panelWidth[F]()
	return int64((n+width-1)/width*width) * int64(k) * int64(unsafe.Sizeof(v))
}

func newPanels[F Float](k, n, width int) *Panels[F] {
	p := &Panels[F]{width: width}
	p.Resize(k, n)
	return p
}

// Resize makes room for another K×N matrix, and reuses the storage if it is
// large enough. The matrix must be packed before use.
func (p *Panels[F]) Resize(k, n int) {
	if k < 1 || n < 1 {
		panic("tensor: panels of an empty matrix")
	}
	depth := p.reads.depth(k)
	size := (n + p.width - 1) / p.width * p.width * depth
	if cap(p.data) < size {
		p.data = make([]F, size)
	}
	p.k, p.n, p.depth, p.data = k, n, depth, p.data[:size]
}

// Width returns the number of columns of one panel: work that is split by
// columns must be split at its multiples.
func (p *Panels[F]) Width() int { return p.width }

// Rows returns K, the number of rows of the matrix.
func (p *Panels[F]) Rows() int { return p.k }

// Columns returns N, the number of columns of the matrix.
func (p *Panels[F]) Columns() int { return p.n }

// Pack stores the row-major K×N matrix b, whose rows are ld elements apart.
func (p *Panels[F]) Pack(b []F, ld int) {
	checkMatrix(len(b), p.k, p.n, ld)
	for j := 0; j < p.n; j += p.width {
		w, panel := min(p.width, p.n-j), p.data[j*p.depth:(j+p.width)*p.depth]
		if p.reads == pairs {
			packPairs(panel, p.width, b[j:], ld, p.k, w)
			continue
		}
		packPanel(panel, p.width, b[j:], ld, p.k, w)
		if p.reads == rounded {
			round(panel, panel)
		}
	}
}

// PackTransposed stores the transpose of the row-major N×K matrix b, whose
// rows are ld elements apart.
func (p *Panels[F]) PackTransposed(b []F, ld int) {
	checkMatrix(len(b), p.n, p.k, ld)
	for j := 0; j < p.n; j += p.width {
		w, panel := min(p.width, p.n-j), p.data[j*p.depth:(j+p.width)*p.depth]
		if p.reads == pairs {
			packPairsTransposed(panel, p.width, b[j*ld:], ld, p.k, w)
			continue
		}
		packPanelTransposed(panel, p.width, b[j*ld:], ld, p.k, w)
		if p.reads == rounded {
			round(panel, panel)
		}
	}
}

// View returns the part of p with the rows [k0, k1) and the columns [n0, n1),
// sharing p's storage; n0 must be a multiple of the width. A View may only be
// multiplied. Panels of bfloat16 have no views.
func (p *Panels[F]) View(k0, k1, n0, n1 int) Panels[F] {
	if k0 < 0 || k0 >= k1 || k1 > p.k || n0 < 0 || n0 >= n1 || n1 > p.n || n0%p.width != 0 || p.reads != full {
		panic("tensor: view beyond its panels")
	}
	return Panels[F]{k: k1 - k0, n: n1 - n0, width: p.width, depth: p.depth, data: p.data[n0*p.depth+k0*p.width:]}
}

// Left is the left factor of a product, read in place: element (i, k) is
// Data[i*Row+k*Col]. A row-major matrix has Col 1; its transpose has Row 1.
type Left[F Float] struct {
	Data     []F
	Row, Col int
}

// Rows returns the left factor of the rows of a row-major matrix, ld elements
// apart.
func Rows[F Float](a []F, ld int) Left[F] { return Left[F]{a, ld, 1} }

// Columns returns the left factor of the columns of a row-major matrix whose
// rows are ld elements apart: its transpose.
func Columns[F Float](a []F, ld int) Left[F] { return Left[F]{a, 1, ld} }

// Blocks of the product: a block of rows of A, blockK deep, stays in the
// second-level cache while all panels of B are read. If all rows fit there, at
// most keptA elements, a panel of B is read once and its part of C stays in the
// nearest cache.
const (
	blockK = 512
	blockM = 240
	keptA  = 1 << 17
)

// Mul computes C = alpha·A·B + beta·C, where A has m rows and C is row-major
// with rows ldc elements apart; with beta 0, C is written without being read.
// Element (i, j) is computed by the same operations in the same order for any
// m, so rows may be split over calls and goroutines without changing a bit.
func (p *Panels[F]) Mul(m int, alpha F, a Left[F], beta F, c []F, ldc int) {
	if m == 0 {
		return
	}
	checkMatrix(len(c), m, p.n, ldc)
	if a.Row < 0 || a.Col < 0 || (m-1)*a.Row+(p.k-1)*a.Col >= len(a.Data) {
		panic("tensor: left factor is too short")
	}
	if p.reads != full {
		p.mulRounded(m, alpha, a, beta, c, ldc)
		return
	}
	for i0 := 0; i0 < m; i0 += blockM {
		mb := min(blockM, m-i0)
		rows, to := Left[F]{a.Data[i0*a.Row:], a.Row, a.Col}, c[i0*ldc:]
		if mb*p.k <= keptA {
			for j := 0; j < p.n; j += p.width {
				for k0 := 0; k0 < p.k; k0 += blockK {
					p.mulBlock(mb, k0, j, alpha, rows, beta, to, ldc)
				}
			}
			continue
		}
		for k0 := 0; k0 < p.k; k0 += blockK {
			for j := 0; j < p.n; j += p.width {
				p.mulBlock(mb, k0, j, alpha, rows, beta, to, ldc)
			}
		}
	}
}

// mulBlock adds the products of one panel's columns, from row k0 of B on, to
// the first m rows of C.
func (p *Panels[F]) mulBlock(m, k0, j int, alpha F, a Left[F], beta F, c []F, ldc int) {
	if k0 > 0 {
		beta = 1
	}
	a.Data = a.Data[k0*a.Col:]
	mulTile(p.width, m, min(blockK, p.k-k0), min(p.width, p.n-j), alpha, a, p.data[j*p.depth+k0*p.width:], beta, c[j:], ldc)
}

// checkMatrix panics unless rows×cols elements with rows ld apart fit in n.
func checkMatrix(n, rows, cols, ld int) {
	if ld < cols || (rows-1)*ld+cols > n {
		panic("tensor: matrix is larger than its slice")
	}
}
