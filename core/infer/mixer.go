package infer

import (
	"cmp"
	"math"

	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// mixer is a layer with a state instead of keys and values.
type mixer struct {
	at      int // of its state in that of a session
	in, out linear
	// Of the delta rule: the gates of results, β of each head and Δ, or both in turn by
	// groups.
	side, betas, steps, both linear
	taps                     [][]float32 // K of all channels, the oldest first
	bias                     []float32   // of the convolution, or nil

	// Of a state space, or nil.
	rate, skip, step []float32 // of each head: A, D and the bias of Δ
	gain             []float32 // of the norm
}

func (y *mixer) bytes() int {
	if y == nil {
		return 0
	}
	return y.in.bytes() + y.out.bytes() + y.side.bytes() + y.betas.bytes() + y.steps.bytes() + y.both.bytes()
}

// loadMixer loads a layer with a state, whose part of a session's begins at at.
func (y *layer) loadMixer(l *loader, c Config, at int) {
	m := c.Mixer
	o := &mixer{at: at}
	y.mixer = o
	in, conv, out := "ssm_in", "ssm_conv1d", "ssm_out"
	switch {
	case m.Inner == 0:
		in, conv, out = "shortconv.in_proj", "shortconv.conv", "shortconv.out_proj"
	case m.Delta:
		in = "attn_qkv"
		o.side = l.linear("attn_gate", c.Width, m.Inner)
		if m.Tiled {
			o.betas, o.steps = l.linear("ssm_beta", c.Width, m.Heads), l.linear("ssm_alpha", c.Width, m.Heads)
		} else {
			o.both = l.linear("ssm_ba", c.Width, 2*m.Heads)
		}
		o.rate, o.step = l.vector("ssm_a", m.Heads), l.vector("ssm_dt.bias", m.Heads)
		o.gain = l.vector("ssm_norm.weight", m.Inner/m.Heads)
	default:
		o.rate, o.skip, o.step = l.vector("ssm_a", m.Heads), l.vector("ssm_d", m.Heads), l.vector("ssm_dt.bias", m.Heads)
		o.gain = l.vector("ssm_norm.weight", m.Inner)
	}
	o.in = l.linear(in, c.Width, m.Input(c.Width))
	channels := m.Channels(c.Width)
	o.bias = l.vector(conv+".bias", channels)
	taps := l.vector(conv+".weight", m.Kernel*channels)
	for k := range m.Kernel {
		row := make([]float32, channels)
		for i := 0; taps != nil && i < channels; i++ {
			row[i] = taps[i*m.Kernel+k]
		}
		o.taps = append(o.taps, row)
	}
	o.out = l.linear(out, cmp.Or(m.Inner, c.Width), c.Width)
}

// mixWork holds the buffers of layers with a state. As a task its indices are
// parts of the phase.
type mixWork struct {
	w       *work
	in      matrix      // T×Input
	side    matrix      // T×I
	betas   matrix      // T×H, or T×2H of both
	steps   matrix      // T×H
	conv    matrix      // T×Channels
	out     panel.Batch // T×I
	history [][]float32 // (K-1+T)×width of a part, one a thread

	layer *layer
	phase int
	parts int // of a span
}

// convWidth is the number of channels of a part of a convolution.
const convWidth = 512

func (x *mixWork) resize(m *Model, rows int) {
	c := &m.cfg
	x.in.resize(rows, c.Mixer.Input(c.Width))
	x.conv.resize(rows, c.Mixer.Channels(c.Width))
	if c.Mixer.Delta {
		x.side.resize(rows, c.Mixer.Inner)
		x.betas.resize(rows, 2*c.Mixer.Heads)
		x.steps.resize(rows, c.Mixer.Heads)
	}
	x.out.Resize(rows, cmp.Or(c.Mixer.Inner, c.Width))
	if x.history == nil {
		x.history = make([][]float32, m.threads.Threads())
	}
}

// mix sets out to the result of a layer with a state and advances the states of
// the pass's sessions by its rows.
func (w *work) mix(y *layer) {
	x, c := &w.mixing, &w.m.cfg
	x.layer = y
	switch m := y.mixer; {
	case c.Mixer.Tiled:
		w.multiply(&w.normed, term{&m.in, &x.in}, term{&m.side, &x.side}, term{&m.betas, &x.betas}, term{&m.steps, &x.steps})
	case c.Mixer.Delta:
		w.multiply(&w.normed, term{&m.in, &x.in}, term{&m.side, &x.side}, term{&m.both, &x.betas})
	default:
		w.multiply(&w.normed, term{&m.in, &x.in})
	}
	phase := func(n, parts int) {
		x.phase, x.parts = n, parts
		w.m.threads.For(len(w.spans)*parts, 1, x)
	}
	phase(convolves, (c.Mixer.Channels(c.Width)+convWidth-1)/convWidth)
	if c.Mixer.Delta {
		x.phase = levels
		w.m.threads.For(w.rows, 1, x)
	}
	if c.Mixer.Inner > 0 {
		phase(scans, c.Mixer.Heads)
	}
	x.phase = gates
	w.m.threads.For(w.rows, 1, x)
	w.ready(&x.out)
	w.multiply(&x.out, term{&y.mixer.out, &w.out})
}

// Phases of a layer with a state.
const (
	convolves = iota
	levels
	scans
	gates
)

func (x *mixWork) Do(thread, lo, hi int) {
	for i := lo; i < hi; i++ {
		switch x.phase {
		case convolves:
			x.convolve(thread, &x.w.spans[i/x.parts], i%x.parts*convWidth)
		case levels:
			x.level(i)
		case scans:
			if x.w.m.cfg.Mixer.Delta {
				x.correct(&x.w.spans[i/x.parts], i%x.parts)
			} else {
				x.scan(&x.w.spans[i/x.parts], i%x.parts)
			}
		case gates:
			x.gate(i)
		}
	}
}

// convolve computes the causal convolution of some channels of a span, from the
// last K-1 inputs in its state, which it replaces.
func (x *mixWork) convolve(thread int, s *span, from int) {
	c := &x.w.m.cfg
	m, y := c.Mixer, x.layer.mixer
	channels := m.Channels(c.Width)
	n, keep := min(convWidth, channels-from), m.Kernel-1
	if len(x.history[thread]) < (keep+s.rows)*n {
		x.history[thread] = make([]float32, (keep+s.rows)*convWidth)
	}
	past := x.history[thread][:(keep+s.rows)*n]
	state := s.state[y.at:][:keep*channels]
	for k := range keep {
		copy(past[k*n:][:n], state[k*channels+from:])
	}
	for t := range s.rows {
		in, row := x.in.row(s.row+t, m.Input(c.Width)), past[(keep+t)*n:][:n]
		switch {
		case m.Inner == 0:
			tensor.Times(row, in[from:][:n], in[2*c.Width+from:][:n])
		case m.Delta:
			copy(row, in[from:])
		default:
			copy(row, in[m.Inner+from:])
		}
	}
	for t := range s.rows {
		out := x.conv.row(s.row+t, channels)[from:][:n]
		tensor.Times(out, past[t*n:][:n], y.taps[0][from:][:n])
		for k := 1; k < m.Kernel; k++ {
			addTimes(out, past[(t+k)*n:][:n], y.taps[k][from:][:n])
		}
		if y.bias != nil {
			tensor.Add(out, y.bias[from:][:n])
		}
		if m.Inner > 0 {
			tensor.SiLU(out, out)
		}
	}
	for k := range keep {
		copy(state[k*channels+from:][:n], past[(s.rows+k)*n:])
	}
}

// addTimes adds a ⊙ b to dst.
func addTimes(dst, a, b []float32) {
	var buf [convWidth]float32
	tensor.Times(buf[:len(dst)], a, b)
	tensor.Add(dst, buf[:len(dst)])
}

// scan advances the state of a head of a span by its rows: S = S·exp(ΔA) + Δx⊗B,
// y = S·C + D·x.
func (x *mixWork) scan(s *span, head int) {
	c := &x.w.m.cfg
	m, y := c.Mixer, x.layer.mixer
	channels, dim := m.Channels(c.Width), m.Inner/m.Heads
	group := head / (m.Heads / m.Groups)
	state := s.state[y.at+(m.Kernel-1)*channels+head*dim*m.State:][:dim*m.State]
	for t := range s.rows {
		conv := x.conv.row(s.row+t, channels)
		in, b := conv[head*dim:][:dim], conv[m.Inner+group*m.State:][:m.State]
		out := x.out.Row(s.row + t)[head*dim:][:dim]
		step := softplus(x.in.row(s.row+t, m.Input(c.Width))[m.Inner+channels+head] + y.step[head])
		tensor.Scan(out, state, in, b, conv[m.Inner+(m.Groups+group)*m.State:][:m.State], step, float32(math.Exp(float64(step*y.rate[head]))))
		tensor.Axpy(out, y.skip[head], in)
	}
}

// level divides the queries and keys of a row by their lengths, and queries by √N.
func (x *mixWork) level(t int) {
	c := &x.w.m.cfg
	m := c.Mixer
	const least = 1e-6
	row := x.conv.row(t, m.Channels(c.Width))[:2*m.Groups*m.State]
	for i := 0; i*m.State < len(row); i++ {
		part := row[i*m.State:][:m.State]
		length := math.Sqrt(float64(tensor.Dot(part, part)) + least)
		if i < m.Groups {
			length *= math.Sqrt(float64(m.State))
		}
		tensor.Scale(part, float32(1/length))
	}
}

// correct advances the state of a head of a span by its rows, with the delta rule:
// S = S·exp(ΔA), S += β·(v − S·k)⊗k, y = S·q.
func (x *mixWork) correct(s *span, head int) {
	c := &x.w.m.cfg
	m, y := c.Mixer, x.layer.mixer
	channels, dim, group := m.Channels(c.Width), m.Inner/m.Heads, m.Group(head)
	state := s.state[y.at+(m.Kernel-1)*channels+head*dim*m.State:][:dim*m.State]
	for t := range s.rows {
		conv := x.conv.row(s.row+t, channels)
		q, k := conv[group*m.State:][:m.State], conv[(m.Groups+group)*m.State:][:m.State]
		v := conv[2*m.Groups*m.State+head*dim:][:dim]
		beta, step := x.rates(s.row+t, head)
		step = softplus(step + y.step[head])
		beta = float32(1 / (1 + math.Exp(-float64(beta))))
		tensor.Delta(x.out.Row(s.row + t)[head*dim:][:dim], state, v, k, q, float32(math.Exp(float64(step*y.rate[head]))), beta)
	}
}

// rates returns the products for β and Δ of a head at a row.
func (x *mixWork) rates(t, head int) (beta, step float32) {
	m := x.w.m.cfg.Mixer
	if m.Tiled {
		return x.betas.row(t, m.Heads)[head], x.steps.row(t, m.Heads)[head]
	}
	per := m.Heads / m.Groups // β of a group's heads, then Δ
	both := x.betas.row(t, 2*m.Heads)[2*(head/per)*per:]
	return both[head%per], both[per+head%per]
}

// softplus returns ln(1+eˣ).
func softplus(x float32) float32 {
	if x > 20 {
		return x
	}
	return float32(math.Log1p(math.Exp(float64(x))))
}

// gate multiplies a row by its gate and, of a state space, normalizes its groups.
func (x *mixWork) gate(t int) {
	c := &x.w.m.cfg
	m := c.Mixer
	in, out := x.in.row(t, m.Input(c.Width)), x.out.Row(t)
	if m.Delta {
		gain := x.layer.mixer.gain
		for i := 0; i < m.Inner; i += len(gain) {
			tensor.RMSNorm(out[i:][:len(gain)], out[i:][:len(gain)], gain, c.Epsilon)
		}
		tensor.SiLUMul(out, x.side.row(t, m.Inner), out)
		return
	}
	if m.Inner == 0 {
		tensor.Times(out, in[c.Width:2*c.Width], x.conv.row(t, c.Width))
		return
	}
	tensor.SiLUMul(out, in[:m.Inner], out)
	size := m.Inner / m.Groups
	for g := range m.Groups {
		part := out[g*size:][:size]
		tensor.RMSNorm(part, part, x.layer.mixer.gain[g*size:][:size], c.Epsilon)
	}
}

// memory returns the numbers of a session's state.
func memory(c *Config) int {
	if c.Mixer == nil {
		return 0
	}
	n := 0
	for i := range c.Layers {
		if c.Recurs(i) {
			n++
		}
	}
	return n * c.Mixer.Memory(c.Width)
}
