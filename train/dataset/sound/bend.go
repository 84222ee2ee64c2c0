package sound

import (
	"math"
)

// finish converts a synthesized sound to a clip: silence around it, a level,
// and background noise. Both splits are processed alike with different random
// numbers.
func (m *mixer) finish(v []float64) []float32 {
	v = m.padded(v, 0.02, 0.35)
	level(v, m.in(0.15, 0.9))
	if m.chance(0.6) {
		m.noise(v, m.in(14, 40))
	}
	return pcm(v)
}

// finishSpeech converts speech to a clip. For training it varies speaker, room and
// line; held-out speech is unchanged except for its level, the silence around it
// and soft background noise.
func (m *mixer) finishSpeech(v []float64) []float32 {
	if !m.train {
		v = m.padded(v, 0.05, 0.3)
		level(v, m.in(0.3, 0.9))
		m.noise(v, m.in(30, 50))
		return pcm(v)
	}
	// People speak up to twice as fast as espeak-ng, and their recordings are
	// often cut before a word ends.
	v = resampled(v, m.in(0.82, 1.22))
	if m.chance(0.7) {
		v = stretched(v, m.in(0.75, 1.7))
	}
	if m.chance(0.3) {
		cut := min(int(m.in(0, 0.04)*Rate), len(v)/8)
		v = v[cut : len(v)-cut]
	}
	if m.chance(0.5) {
		tilt(v, m.in(-0.75, 0.75))
	}
	if m.chance(0.35) {
		v = m.room(v)
	}
	v = m.padded(v, 0.02, 0.45)
	level(v, m.in(0.1, 0.95))
	if m.chance(0.8) {
		m.noise(v, m.in(5, 40))
	}
	m.line(v)
	if m.chance(0.15) { // overdriven recording
		g := m.in(1.2, 3)
		for i := range v {
			v[i] = min(max(g*v[i], -0.95), 0.95)
		}
	}
	return pcm(v)
}

// line simulates a transmission: the band of a telephone, the upper half cut
// off as in recordings at 8 kHz, or nothing.
func (m *mixer) line(v []float64) {
	switch r := m.Float64(); {
	case r < 0.25:
		butterworth(v, m.in(200, 350), true)
		butterworth(v, m.in(3000, 3600), false)
		butterworth(v, m.in(3000, 3600), false)
	case r < 0.6:
		cut := m.in(3500, 3950)
		for range 3 {
			butterworth(v, cut, false)
		}
	case r < 0.75:
		butterworth(v, m.in(60, 250), true)
	}
}

// padded adds silences of low to high seconds around v, within MaxSamples.
func (m *mixer) padded(v []float64, low, high float64) []float64 {
	v = v[:min(len(v), MaxSamples)]
	room := MaxSamples - len(v)
	before := min(int(m.in(low, high)*Rate), room/2)
	after := min(int(m.in(low, high)*Rate), room/2)
	out := make([]float64, before+len(v)+after)
	copy(out[before:], v)
	return out
}

// level scales the largest sample to peak.
func level(v []float64, peak float64) {
	top := 0.0
	for _, x := range v {
		top = max(top, math.Abs(x))
	}
	if top == 0 {
		return
	}
	for i := range v {
		v[i] *= peak / top
	}
}

// noise adds background noise db below the sound: white, softer above, or mains
// hum.
func (m *mixer) noise(v []float64, db float64) {
	power := 0.0
	for _, x := range v {
		power += x * x
	}
	if power == 0 {
		return
	}
	ground := make([]float64, len(v))
	switch kind := m.IntN(10); {
	case kind < 9:
		for i := range ground {
			ground[i] = m.NormFloat64()
		}
		if kind >= 4 {
			onePole(ground, m.in(200, 3000))
		}
	default:
		hum := m.in(48, 62)
		for i := range ground {
			x := 2 * math.Pi * hum * float64(i) / Rate
			ground[i] = math.Sin(x) + 0.5*math.Sin(2*x) + 0.3*math.Sin(3*x) + 0.1*m.NormFloat64()
		}
	}
	current := 0.0
	for _, x := range ground {
		current += x * x
	}
	gain := math.Sqrt(power / current * math.Pow(10, -db/10))
	for i := range v {
		v[i] += gain * ground[i]
	}
}

// room adds sparse, decaying echoes at random times.
func (m *mixer) room(v []float64) []float64 {
	decay := m.in(0.03, 0.2)
	out := append(append([]float64(nil), v...), seconds(decay)...)
	for range 30 {
		t := m.in(0.002, 2*decay)
		add(out, int(t*Rate), v, m.in(-0.5, 0.5)*math.Exp(-t/decay))
	}
	return out
}

// resampled plays a sound faster and higher by a factor (Catmull-Rom
// interpolation).
func resampled(v []float64, factor float64) []float64 {
	n := int(float64(len(v)) / factor)
	out := make([]float64, n)
	sample := func(i int) float64 { return v[min(max(i, 0), len(v)-1)] }
	if len(v) == 0 {
		return nil
	}
	for i := range out {
		x := float64(i) * factor
		k := int(x)
		t := x - float64(k)
		a, b, c, d := sample(k-1), sample(k), sample(k+1), sample(k+2)
		out[i] = b + 0.5*t*(c-a+t*(2*a-5*b+4*c-d+t*(3*(b-c)+d-a)))
	}
	return out
}

// stretched plays a sound in 1/factor of the time at the same pitch: frames of
// 25 ms that overlap by half, each within 6 ms of its place, where it continues
// the previous one best (WSOLA, Verhelst and Roelands 1993).
func stretched(v []float64, factor float64) []float64 {
	const half, reach, step = Rate / 80, Rate / 160, 3
	n := int(float64(len(v)) / factor)
	if len(v) < 4*half {
		return v
	}
	out := make([]float64, n+2*half)
	last := len(v) - 2*half
	at := 0
	for to := 0; to < n; to += half {
		ideal := int(float64(to) * factor)
		if to > 0 {
			next, best := min(at+half, last), math.Inf(-1)
			for k := max(ideal-reach, 0); k <= min(ideal+reach, last); k += 2 {
				sum := 0.0
				for i := 0; i < half; i += step {
					sum += v[next+i] * v[k+i]
				}
				if sum > best {
					best, at = sum, k
				}
			}
			if math.IsInf(best, -1) {
				break // past the end
			}
		}
		for i := range 2 * half {
			out[to+i] += v[at+i] * (0.5 - 0.5*math.Cos(math.Pi*(float64(i)+0.5)/half))
		}
	}
	return out[:n]
}

// onePole is a soft low-pass, 6 dB per octave above cut Hz.
func onePole(v []float64, cut float64) {
	a := 1 - math.Exp(-2*math.Pi*cut/Rate)
	y := 0.0
	for i, x := range v {
		y += a * (x - y)
		v[i] = y
	}
}

// tilt makes a voice darker (a above 0) or brighter.
func tilt(v []float64, a float64) {
	last := 0.0
	for i, x := range v {
		if a > 0 {
			last = x + a*last
			v[i] = last
		} else {
			v[i], last = x+a*last, x
		}
	}
}

// butterworth filters in place with a second-order low-pass or high-pass at cut
// Hz.
func butterworth(v []float64, cut float64, high bool) {
	w := math.Tan(math.Pi * cut / Rate)
	n := 1 / (1 + math.Sqrt2*w + w*w)
	b0, b1 := w*w*n, 2*w*w*n
	if high {
		b0, b1 = n, -2*n
	}
	a1, a2 := 2*(w*w-1)*n, (1-math.Sqrt2*w+w*w)*n
	var x1, x2, y1, y2 float64
	for i, x := range v {
		y := b0*x + b1*x1 + b0*x2 - a1*y1 - a2*y2
		x1, x2, y1, y2 = x, x1, y, y1
		v[i] = y
	}
}

// pcm rounds to 16 bits.
func pcm(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(math.RoundToEven(min(max(x, -1), 1)*32767) / 32768)
	}
	return out
}
