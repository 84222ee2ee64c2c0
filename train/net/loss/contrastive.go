package loss

import (
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Contrastive is the symmetric loss of pairs (InfoNCE: van den Oord et al., arXiv
// 1807.03748; both ways: Radford et al., arXiv 2103.00020): row i of a belongs to
// row i of b and to no other, both [N, C]. Of the cosines of all rows, multiplied
// by sharpness, it is half the cross entropy of finding each row's partner among
// the other side's, summed over both sides. da and db are set; the derivative
// with respect to sharpness is returned, multiplied by scale as they are.
func Contrastive[F tensor.Float](a, b, da, db nn.Matrix[F], sharpness, scale F) (sum float64, slope F) {
	same(a, b, da, db)
	n := a.Rows
	ua, ra := directions(a)
	ub, rb := directions(b)
	cosines, back := nn.NewMatrix[F](n, n), nn.NewMatrix[F](n, n)
	var mul tensor.Multiplier[F]
	product := func(to, left nn.Matrix[F], l tensor.Left[F], right nn.Matrix[F], trans bool) {
		k := left.Cols
		mul.Do(tensor.Product[F]{M: to.Rows, N: to.Cols, K: k, Alpha: 1, A: l, B: right.Data, LDB: right.LD, TransB: trans, C: to.Data, LDC: to.LD})
	}
	product(cosines, ua, ua.Left(), ub, true) // [N, C]·[C, N]
	slopes := nn.NewMatrix[F](n, n)           // of the scores
	for i := range n {
		row, column := slopes.Row(i), back.Row(i)
		for j := range n {
			row[j], column[j] = sharpness*cosines.Row(i)[j], sharpness*cosines.Row(j)[i]
		}
		sum += 0.5 * float64(tensor.CrossEntropy(row, i, scale/2)+tensor.CrossEntropy(column, i, scale/2))
	}
	for i := range n {
		for j := range n {
			g := slopes.Row(i)[j] + back.Row(j)[i]
			slope += g * cosines.Row(i)[j]
			slopes.Row(i)[j] = sharpness * g // of the cosines
		}
	}
	product(da, slopes, slopes.Left(), ub, false)
	product(db, slopes, slopes.LeftT(), ua, false)
	toLength(da, ua, ra)
	toLength(db, ub, rb)
	return sum, slope
}

// directions are the rows of m brought to length 1, and what they were
// multiplied by.
func directions[F tensor.Float](m nn.Matrix[F]) (u nn.Matrix[F], r []F) {
	u, r = nn.NewMatrix[F](m.Rows, m.Cols), make([]F, m.Rows)
	for t := range m.Rows {
		r[t] = F(1 / math.Sqrt(float64(tensor.Inner(m.Row(t), m.Row(t)))+1e-12))
		copy(u.Row(t), m.Row(t))
		tensor.ScaleBy(u.Row(t), r[t])
	}
	return u, r
}

// toLength takes the gradients of directions to those of what they were made of:
// r·(g - u·(g·u)).
func toLength[F tensor.Float](g, u nn.Matrix[F], r []F) {
	for t := range g.Rows {
		tensor.AddScaled(g.Row(t), -tensor.Inner(g.Row(t), u.Row(t)), u.Row(t))
		tensor.ScaleBy(g.Row(t), r[t])
	}
}
