package sound

import (
	"math"
	"math/cmplx"
)

// event is the sound of a thing.
type event struct {
	name, caption string
	make          func(*mixer) []float64
}

// things returns the events. The chance level is one in ten.
func things() []event {
	return []event{
		{"bell", "a bell", (*mixer).bell},
		{"siren", "a siren", (*mixer).siren},
		{"clicks", "a train of clicks", (*mixer).clicks},
		{"drum", "a drum", (*mixer).drum},
		{"noise", "a burst of noise", (*mixer).burst},
		{"bird", "a bird", (*mixer).bird},
		{"engine", "an engine", (*mixer).engine},
		{"water", "running water", (*mixer).water},
		{"alarm", "an alarm", (*mixer).alarm},
		{"horn", "a horn", (*mixer).horn},
	}
}

// EventNames lists the names of the events.
func EventNames() []string {
	var out []string
	for _, e := range things() {
		out = append(out, e.name)
	}
	return out
}

func (s *Source) events(m *mixer) Clip {
	all := things()
	k := m.IntN(len(all))
	e := all[k]
	// Another thing is other for equally often.
	other, answer := e, "yes"
	if m.chance(0.5) {
		other, answer = all[(k+m.between(1, len(all)-1))%len(all)], "no"
	}
	return Clip{PCM: m.finish(e.make(m)), Caption: e.caption, Thing: e.name, Questions: []Pair{
		{"what makes this sound?", e.name, "event"},
		{"do you hear " + other.caption + "?", answer, "yes"},
		{"what do you hear?", e.caption, "caption"},
	}}
}

// seconds is silence.
func seconds(t float64) []float64 { return make([]float64, int(t*Rate)) } // seconds returns silence.

// add mixes what into out from sample at.
func add(out []float64, at int, what []float64, gain float64) {
	for i, v := range what {
		if at+i >= 0 && at+i < len(out) {
			out[at+i] += gain * v
		}
	}
}

// ring returns a damped sine; decay is the time in seconds to a third.
func ring(t, pitch, decay, phase float64) []float64 {
	out := seconds(t)
	step := cmplx.Rect(math.Exp(-1/(decay*Rate)), 2*math.Pi*pitch/Rate)
	at := cmplx.Rect(1, phase)
	for i := range out {
		out[i] = imag(at)
		at *= step
	}
	return out
}

// bell is inharmonic partials, struck one to three times.
func (m *mixer) bell() []float64 {
	pitch, decay := m.in(450, 1300), m.in(0.2, 0.7)
	strikes, gap := m.between(1, 3), m.in(0.3, 0.6)
	out := seconds(min(gap*float64(strikes-1)+3*decay, 2.6))
	for k := range strikes {
		for h, ratio := range []float64{1, 2, 2.76, 3.9, 5.4} {
			if ratio*pitch < Rate/2 {
				add(out, int(float64(k)*gap*Rate), ring(3*decay, ratio*pitch*m.in(0.99, 1.01), decay/(1+0.6*float64(h)), m.in(0, 6)), m.in(0.3, 1)/(1+float64(h)))
			}
		}
	}
	return out
}

// siren sweeps up and down.
func (m *mixer) siren() []float64 {
	low, high, period := m.in(450, 800), m.in(1100, 1700), m.in(0.5, 1.4)
	return tone(int(m.in(1.3, 2.5)*Rate), func(t float64) float64 {
		x := math.Abs(2*math.Mod(t/period, 1) - 1) // a triangle
		return low + (high-low)*(1-x)
	}, []float64{1, m.in(0.1, 0.4), m.in(0, 0.3)}, 0)
}

func (m *mixer) clicks() []float64 {
	gap, length, pitch := 1/m.in(4, 14), m.in(0.001, 0.004), m.in(900, 4000)
	out := seconds(m.in(0.8, 2.2))
	for t := 0.0; t < float64(len(out))/Rate; t += gap * m.in(0.95, 1.05) {
		add(out, int(t*Rate), ring(5*length, pitch, length, 0), 1)
	}
	return out
}

// drum is falling pitch with a rattle.
func (m *mixer) drum() []float64 {
	pitch, decay := m.in(60, 130), m.in(0.08, 0.25)
	hits, gap := m.between(1, 4), m.in(0.22, 0.5)
	out := seconds(min(gap*float64(hits-1)+4*decay+0.1, 2.6))
	for k := range hits {
		phase := 0.0
		hit := seconds(4 * decay)
		for i := range hit {
			x := float64(i) / Rate
			phase += 2 * math.Pi * pitch * (1 + 1.5*math.Exp(-x/0.03)) / Rate
			hit[i] = math.Exp(-x/decay)*math.Sin(phase) + 0.4*math.Exp(-x/0.015)*m.NormFloat64()
		}
		add(out, int(float64(k)*gap*Rate), hit, m.in(0.7, 1))
	}
	return out
}

func (m *mixer) burst() []float64 {
	out := seconds(m.in(0.3, 1.6))
	edge := m.in(50, 1500)
	for i := range out {
		out[i] = m.NormFloat64() * min(1, float64(i)/edge, float64(len(out)-i)/edge)
	}
	if m.chance(0.5) {
		onePole(out, m.in(1500, 6000))
	}
	return out
}

// bird is fast high sweeps.
func (m *mixer) bird() []float64 {
	var out []float64
	from, to := m.in(2200, 3500), m.in(3600, 5500)
	if m.chance(0.5) {
		from, to = to, from
	}
	for range m.between(3, 8) {
		length := m.in(0.05, 0.14)
		out = append(out, tone(int(length*Rate), func(t float64) float64 { return from + (to-from)*t/length }, []float64{1}, 0)...)
		out = append(out, seconds(m.in(0.03, 0.15))...)
	}
	return out
}

// engine is a low hum of many harmonics with beats.
func (m *mixer) engine() []float64 {
	pitch, beat := m.in(45, 110), m.in(3, 12)
	harmonics := make([]float64, 18)
	for h := range harmonics {
		harmonics[h] = m.in(0.3, 1) / (1 + 0.3*float64(h))
	}
	drift := m.in(-0.15, 0.15)
	out := tone(int(m.in(1, 2.4)*Rate), func(t float64) float64 { return pitch * (1 + drift*t) }, harmonics, 0)
	for i := range out {
		out[i] *= 1 + 0.35*math.Sin(2*math.Pi*beat*float64(i)/Rate) + 0.1*m.NormFloat64()
	}
	return out
}

// water is bubbles, each a short ring, over soft noise.
func (m *mixer) water() []float64 {
	out := seconds(m.in(1, 2.4))
	for i := range out {
		out[i] = m.NormFloat64()
	}
	onePole(out, m.in(500, 1200))
	for i := range out {
		out[i] *= 0.5
	}
	for range int(m.in(50, 160) * float64(len(out)) / Rate) {
		pitch, decay := m.in(400, 2600), m.in(0.004, 0.02)
		bubble := ring(4*decay, pitch, decay, 0)
		add(out, m.IntN(len(out)), bubble, m.in(0.1, 0.6))
	}
	return out
}

// alarm alternates two tones.
func (m *mixer) alarm() []float64 {
	a := m.in(700, 1100)
	b := a * m.in(1.2, 1.5)
	step := 1 / m.in(4, 9)
	return tone(int(m.in(1, 2.3)*Rate), func(t float64) float64 {
		if int(t/step)%2 == 0 {
			return a
		}
		return b
	}, []float64{1, 0, m.in(0.2, 0.5), 0, m.in(0.1, 0.3)}, 0)
}

// horn is two simultaneous steady notes.
func (m *mixer) horn() []float64 {
	pitch := m.in(180, 420)
	harmonics := []float64{1, m.in(0.6, 1), m.in(0.5, 0.9), m.in(0.3, 0.7), m.in(0.2, 0.5), m.in(0.1, 0.4)}
	n := int(m.in(0.5, 1.6) * Rate)
	out := tone(n, func(float64) float64 { return pitch }, harmonics, 0)
	add(out, 0, tone(n, func(float64) float64 { return pitch * 1.26 }, harmonics, 1), 0.8)
	return out
}
