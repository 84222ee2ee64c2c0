package tensor

// Scan advances a state of len(x) rows of len(b) numbers by one step of a state
// space (Mamba-2, arXiv 2405.21060): each row becomes decay·row + step·x[i]·b, and
// y[i] is its product with c.
func Scan(y, state, x, b, c []float32, step, decay float32) {
	n := len(b)
	if len(y) != len(x) || len(c) != n || len(state) != n*len(x) {
		panic("tensor: Scan of slices of different lengths")
	}
	scale(state, decay)
	for i, v := range x {
		row := state[i*n:][:n]
		axpy(row, step*v, b)
		y[i] = dot(row, c)
	}
}

// Delta advances a state of len(v) rows of len(k) numbers by one step of the gated
// delta rule (arXiv 2412.06464): each row, times decay, becomes
// row + beta·(v[i] − row·k)·k, and y[i] is its product with q.
func Delta(y, state, v, k, q []float32, decay, beta float32) {
	n := len(k)
	if len(y) != len(v) || len(q) != n || len(state) != n*len(v) {
		panic("tensor: Delta of slices of different lengths")
	}
	scale(state, decay)
	for i, x := range v {
		row := state[i*n:][:n]
		axpy(row, beta*(x-dot(row, k)), k)
		y[i] = dot(row, q)
	}
}
