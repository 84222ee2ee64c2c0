package tensor

// bound returns min(max(v, low), high), and NaN for NaN.
func bound(v, low, high float32) float32 {
	if v < low {
		v = low
	}
	if v > high {
		v = high
	}
	return v
}

// put writes the sums of a pixel.
func (r *Row) put(sums []float32, lanes, p int) {
	for i, v := range sums {
		r.Out[p*r.Step+i/lanes*r.Plane+i%lanes] = bound(v, r.Low, r.High)
	}
}

// start sets the sums of a pixel to the bias and the addend.
func (r *Row) start(sums []float32, lanes, p int) {
	copy(sums, r.Bias)
	if r.Add == nil {
		return
	}
	for i := range sums {
		sums[i] += r.Add[p*r.Step+i/lanes*r.Plane+i%lanes]
	}
}

// densePlain is the oracle of Dense.
func (r *Row) densePlain(lanes int) {
	n := r.Blocks * lanes
	sums := make([]float32, n)
	for p := range r.N {
		r.start(sums, lanes, p)
		w := r.W
		for _, t := range r.Taps.list {
			at := r.At + p*r.Pixel + t.at/4
			for c := range t.n {
				v := r.X[at+c*r.Depth]
				row := w[:n]
				for i := range row {
					sums[i] += v * row[i]
				}
				w = w[n:]
			}
		}
		r.put(sums, lanes, p)
	}
}

// depthwisePlain is the oracle of Depthwise.
func (r *Row) depthwisePlain(lanes int) {
	sums := make([]float32, lanes)
	for p := range r.N {
		r.start(sums, lanes, p)
		for _, t := range r.Taps.list {
			x, w := r.X[r.At+p*r.Pixel+t.at/4:][:lanes], r.W[t.n/4:][:lanes]
			for i, v := range x {
				sums[i] += v * w[i]
			}
		}
		r.put(sums, lanes, p)
	}
}

// maxPoolPlain is the oracle of MaxPool.
func (r *Row) maxPoolPlain(lanes int) {
	sums := make([]float32, lanes)
	for p := range r.N {
		r.start(sums, lanes, p)
		for _, t := range r.Taps.list {
			for i, v := range r.X[r.At+p*r.Pixel+t.at/4:][:lanes] {
				if !(sums[i] > v) {
					sums[i] = v
				}
			}
		}
		r.put(sums, lanes, p)
	}
}

// plain is the oracle of Shape.
func (s *Shaper) plain(dst, x []float32) {
	for i, v := range x {
		t := bound(s.A*v+s.B, s.Low, s.High)
		switch s.Form {
		case ShapeTimes:
			t *= v
		case ShapePeak:
			if v > t {
				t = v
			}
		}
		dst[i] = t*s.Scale + s.Shift
	}
}

// sumPlain is the oracle of SumLanes.
func sumPlain(dst, x []float32) {
	n := len(dst)
	sums := make([]float32, 4*n)
	full := len(x) / (4 * n) * (4 * n)
	for i, v := range x[:full] {
		sums[i%(4*n)] += v
	}
	for i, v := range x[full:] {
		sums[i%n] += v
	}
	for i := range dst {
		dst[i] = (sums[i] + sums[n+i]) + (sums[2*n+i] + sums[3*n+i])
	}
}

func interleavePlain(dst []float32, lanes int, x []float32, ld, channels, n int) {
	for c := range channels {
		for p, v := range x[c*ld : c*ld+n] {
			dst[p*lanes+c] = v
		}
	}
}

func deinterleavePlain(dst []float32, ld int, x []float32, lanes, channels, n int) {
	for c := range channels {
		for p := range dst[c*ld : c*ld+n] {
			dst[c*ld+p] = x[p*lanes+c]
		}
	}
}
