package nn

import (
	"math"

	"mm-abi.org/mm/core/tensor"
)

// Heads is softmax attention (Vaswani et al., arXiv 1706.03762) in which every
// query attends to every key, within one sequence or across two. In [Attention]
// positions attend to their documents.
type Heads struct{ Count, Dim int } // H, D

// HeadScratch holds the buffers of one thread and grows as needed. The zero
// value is ready to use.
type HeadScratch[F tensor.Float] struct {
	kT, vT, k, v, side *tensor.Panels[F]
	p, dp              []F // [queryBlock, Tk]: probabilities and their gradient
}

// fit allocates for tk keys of d elements and rows queries at a time.
func (s *HeadScratch[F]) fit(rows, tk, d int) (p, dp Matrix[F]) {
	if s.kT == nil {
		for _, panels := range []**tensor.Panels[F]{&s.kT, &s.vT, &s.k, &s.v, &s.side} {
			*panels = tensor.NewPanels[F](1, 1)
		}
	}
	s.kT.Resize(d, tk)
	s.vT.Resize(d, tk)
	s.k.Resize(tk, d)
	s.v.Resize(tk, d)
	ld := tensor.Stride(vectors(tk))
	if len(s.p) < rows*ld {
		s.p, s.dp = make([]F, rows*ld), make([]F, rows*ld)
	}
	return Matrix[F]{s.p, rows, tk, ld}, Matrix[F]{s.dp, rows, tk, ld}
}

// head returns the columns of head i.
func head[F tensor.Float](h Heads, m Matrix[F], i int) Matrix[F] {
	return m.Columns(i*h.Dim, (i+1)*h.Dim)
}

func (h Heads) scale() float64 { return 1 / math.Sqrt(float64(h.Dim)) }

// Attend sets out = softmax(q·kᵀ/√D)·v for each head: q and out [Tq, H·D], k
// and v [Tk, H·D]. lse [Tq, H] receives the logarithms of the sums of
// exponentials, from which the backward pass recomputes the probabilities.
func Attend[F tensor.Float](h Heads, s *HeadScratch[F], q, k, v, out, lse Matrix[F]) {
	p, _ := s.fit(min(queryBlock, q.Rows), k.Rows, h.Dim)
	for i := range h.Count {
		ki, vi := head(h, k, i), head(h, v, i)
		s.kT.PackTransposed(ki.Data, ki.LD)
		s.v.Pack(vi.Data, vi.LD)
		for lo := 0; lo < q.Rows; lo += queryBlock {
			hi := min(lo+queryBlock, q.Rows)
			qi, oi := head(h, q, i).Part(lo, hi), head(h, out, i).Part(lo, hi)
			s.kT.Mul(hi-lo, F(h.scale()), qi.Left(), 0, p.Data, p.LD) // [hi-lo, D]·[D, Tk]
			for t := range hi - lo {
				lse.Row(lo + t)[i] = tensor.SoftmaxForward(p.Data[t*p.LD:][:vectors(k.Rows)], 0, k.Rows)
			}
			s.v.Mul(hi-lo, 1, p.Left(), 0, oi.Data, oi.LD) // [hi-lo, Tk]·[Tk, D]
		}
	}
}

// AttendBackward computes the gradients dq, dk and dv of Attend from dout, the
// gradient of out. lse and out are those of Attend.
func AttendBackward[F tensor.Float](h Heads, s *HeadScratch[F], q, k, v, out, lse, dq, dk, dv, dout Matrix[F]) {
	p, dp := s.fit(min(queryBlock, q.Rows), k.Rows, h.Dim)
	scale, wide := F(h.scale()), vectors(k.Rows)
	dk.Zero()
	dv.Zero()
	for i := range h.Count {
		ki, vi, dki, dvi := head(h, k, i), head(h, v, i), head(h, dk, i), head(h, dv, i)
		s.kT.PackTransposed(ki.Data, ki.LD)
		s.vT.PackTransposed(vi.Data, vi.LD)
		s.k.Pack(ki.Data, ki.LD)
		for lo := 0; lo < q.Rows; lo += queryBlock {
			hi := min(lo+queryBlock, q.Rows)
			n := hi - lo
			qi, oi := head(h, q, i).Part(lo, hi), head(h, out, i).Part(lo, hi)
			dqi, doi := head(h, dq, i).Part(lo, hi), head(h, dout, i).Part(lo, hi)
			s.kT.Mul(n, scale, qi.Left(), 0, p.Data, p.LD)
			s.vT.Mul(n, 1, doi.Left(), 0, dp.Data, dp.LD) // [n, D]·[D, Tk]
			for t := range n {
				delta := tensor.Inner(oi.Row(t), doi.Row(t))
				tensor.SoftmaxBackward(p.Data[t*p.LD:][:wide], dp.Data[t*dp.LD:][:wide], 0, k.Rows, lse.Row(lo + t)[i], delta, scale)
			}
			s.k.Mul(n, 1, dp.Left(), 0, dqi.Data, dqi.LD) // [n, Tk]·[Tk, D]
			s.side.Resize(n, h.Dim)
			s.side.Pack(qi.Data, qi.LD)
			s.side.Mul(k.Rows, 1, dp.LeftT(), 1, dki.Data, dki.LD) // [Tk, n]·[n, D]
			s.side.Pack(doi.Data, doi.LD)
			s.side.Mul(k.Rows, 1, p.LeftT(), 1, dvi.Data, dvi.LD)
		}
	}
}
