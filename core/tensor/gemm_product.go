package tensor

import "sync"

// Product is one matrix product C = Alpha·A·B + Beta·C with A of M×K, B of K×N
// and C of M×N elements.
type Product[F Float] struct {
	M, N, K     int
	Alpha, Beta F
	A           Left[F] // Rows(a, lda), or Columns(a, lda) for aᵀ
	B           []F     // row-major K×N, or N×K with TransB
	LDB         int     // elements from one row of B to the next
	TransB      bool
	C           []F // row-major
	LDC         int // elements from one row of C to the next
}

// Multiplier computes products of row-major matrices and packs B in the
// process. It keeps its buffers between calls, so equal shapes allocate once.
// The zero value works on one goroutine; results do not depend on Threads. A
// Multiplier is not safe for concurrent use.
type Multiplier[F Float] struct {
	// Threads is the number of goroutines that a product is split over; 0 means
	// 1.
	Threads int

	lanes []lane[F]
}

// lane is the workspace of one goroutine.
type lane[F Float] struct {
	b Panels[F]
	a []F
}

// Do computes p. It panics if a matrix exceeds its slice.
func (g *Multiplier[F]) Do(p Product[F]) {
	threads := max(g.Threads, 1)
	for len(g.lanes) < threads {
		g.lanes = append(g.lanes, lane[F]{b: Panels[F]{width: panelWidth[F]()}})
	}
	if threads == 1 || p.M == 0 {
		g.lanes[0].do(p)
		return
	}
	var wg sync.WaitGroup
	for t := range threads {
		part, ok := p.part(t, threads)
		if !ok {
			continue
		}
		wg.Go(func() { g.lanes[t].do(part) })
	}
	wg.Wait()
}

// part returns the t-th of n pieces of p: columns if each piece gets at least
// one full panel, so that no panel is packed twice, otherwise rows.
func (p Product[F]) part(t, n int) (Product[F], bool) {
	width := panelWidth[F]()
	panels := (p.N + width - 1) / width
	if panels < n {
		lo, hi := p.M*t/n, p.M*(t+1)/n
		p.M = hi - lo
		if p.M > 0 {
			p.A.Data, p.C = p.A.Data[lo*p.A.Row:], p.C[lo*p.LDC:]
		}
		return p, p.M > 0
	}
	lo, hi := panels*t/n*width, min(panels*(t+1)/n*width, p.N)
	p.N = hi - lo
	p.C = p.C[lo:]
	if p.TransB {
		p.B = p.B[lo*p.LDB:]
	} else {
		p.B = p.B[lo:]
	}
	return p, true
}

func (l *lane[F]) do(p Product[F]) {
	l.b.Resize(p.K, p.N)
	if p.TransB {
		l.b.PackTransposed(p.B, p.LDB)
	} else {
		l.b.Pack(p.B, p.LDB)
	}
	if !aliased(p.A) {
		l.b.Mul(p.M, p.Alpha, p.A, p.Beta, p.C, p.LDC)
		return
	}
	l.mulCopied(p)
}

// aliasStride is a distance in elements at which the first-level caches of
// current processors map rows onto each other: twelve rows of A at a multiple
// of it evict one another and halve the speed of a product.
const aliasStride = 256

func aliased[F Float](a Left[F]) bool { return a.Col == 1 && a.Row > 0 && a.Row%aliasStride == 0 }

// mulCopied multiplies blocks of rows copied to a stride without aliasing.
func (l *lane[F]) mulCopied(p Product[F]) {
	ld := Stride(p.K)
	if cap(l.a) < blockM*ld {
		l.a = make([]F, blockM*ld)
	}
	for i := 0; i < p.M; i += blockM {
		m := min(blockM, p.M-i)
		for r := range m {
			copy(l.a[r*ld:r*ld+p.K], p.A.Data[(i+r)*p.A.Row:])
		}
		l.b.Mul(m, p.Alpha, Rows(l.a[:(m-1)*ld+p.K], ld), p.Beta, p.C[i*p.LDC:], p.LDC)
	}
}

// Stride returns a good distance between rows of n elements that a product
// reads: n, or a cache line more if rows n apart would evict each other.
func Stride(n int) int {
	if n%aliasStride == 0 {
		return n + 16
	}
	return n
}
