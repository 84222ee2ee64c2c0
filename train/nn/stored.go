package nn

import (
	"sync"

	"mm-abi.org/mm/core/tensor"
)

// Rows holds a frozen matrix in another form than the network's numbers, such
// as quantized, and writes a row of it to dst. It is used from many goroutines.
type Rows interface {
	Row(dst []float32, n int)
}

// storedRows is the number of rows of a stored matrix that are read at a time.
const storedRows = 64

// storedScratch is the scratch of one thread for the products of stored
// matrices.
type storedScratch[F tensor.Float] struct {
	rows     []F
	fwd, bwd *tensor.Panels[F]
}

// storedPool returns scratch for matrices of In columns, which linear layers of
// the same width share.
func (p *Params[F]) storedPool(in int) *sync.Pool {
	if p.scratch == nil {
		p.scratch = map[int]*sync.Pool{}
	}
	if p.scratch[in] == nil {
		p.scratch[in] = &sync.Pool{New: func() any {
			return &storedScratch[F]{rows: make([]F, storedRows*in), fwd: p.panels(in, storedRows), bwd: p.panels(storedRows, in)}
		}}
	}
	return p.scratch[in]
}

// stored reports whether the matrices of l are stored.
func (l *Linear[F]) stored() bool { return l.parts[0].Stored != nil }

// Row writes row n of a matrix to dst.
func (t *Tensor[F]) Row(dst []F, n int) {
	if t.Stored == nil {
		copy(dst, t.Data[n*len(dst):(n+1)*len(dst)])
		return
	}
	t.Stored.Row(any(dst).([]float32), n)
}

// eachBlock calls f with blocks of rows of the stored matrices and their first
// column in the layer's output. n is the number of rows.
func (l *Linear[F]) eachBlock(f func(from, n int, s *storedScratch[F])) {
	s := l.scratch.Get().(*storedScratch[F])
	defer l.scratch.Put(s)
	at := 0
	for _, t := range l.parts {
		for from := 0; from < t.Shape[0]; from += storedRows {
			n := min(storedRows, t.Shape[0]-from)
			for i := range n {
				t.Row(s.rows[i*l.In:(i+1)*l.In], from+i)
			}
			f(at+from, n, s)
		}
		at += t.Shape[0]
	}
}

// forwardStored computes y = x·Wᵀ or adds it to y.
func (l *Linear[F]) forwardStored(x, y Matrix[F], add bool) {
	l.eachBlock(func(from, n int, s *storedScratch[F]) {
		s.fwd.Resize(l.In, n)
		s.fwd.PackTransposed(s.rows[:n*l.In], l.In)
		part := y.Columns(from, from+n)
		s.fwd.Mul(x.Rows, 1, x.Left(), factor[F](add), part.Data, part.LD)
	})
}

// backwardStored computes dx = dy·W.
func (l *Linear[F]) backwardStored(dy, dx Matrix[F]) {
	l.eachBlock(func(from, n int, s *storedScratch[F]) {
		s.bwd.Resize(n, l.In)
		s.bwd.Pack(s.rows[:n*l.In], l.In)
		part := dy.Columns(from, from+n)
		s.bwd.Mul(dy.Rows, 1, part.Left(), factor[F](from > 0), dx.Data, dx.LD)
	})
}
