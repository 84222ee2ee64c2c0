package sound

import (
	"fmt"
	"math"
)

// Low and high tones are at least 1.6 octaves apart.
const (
	lowFrom, lowTo   = 160.0, 420.0
	highFrom, highTo = 1300.0, 3200.0
	mostBeeps        = 5
)

// tones returns a number of beeps, low or high, or a rising or falling tone.
// The chance level of the number of beeps is one in five, of the rest one in
// two.
func (s *Source) tones(m *mixer) Clip {
	harmonics := []float64{1}
	if m.chance(0.5) {
		harmonics = append(harmonics, m.in(0.1, 0.5), m.in(0, 0.3))
	}
	if m.chance(0.35) {
		return m.sweep(harmonics)
	}
	count, high := m.between(1, mostBeeps), m.chance(0.5)
	pitch, word := m.in(lowFrom, lowTo), "low"
	if high {
		pitch, word = m.in(highFrom, highTo), "high"
	}
	length, gap := m.in(0.08, 0.25), m.in(0.09, 0.25)
	var out []float64
	for k := range count {
		if k > 0 {
			out = append(out, make([]float64, int(gap*Rate))...)
		}
		out = append(out, tone(int(length*Rate), func(float64) float64 { return pitch }, harmonics, m.in(0, 2*math.Pi))...)
	}
	beeps := fmt.Sprintf("%s %s beeps", number(count), word)
	if count == 1 {
		beeps = fmt.Sprintf("one %s beep", word)
	}
	return Clip{PCM: m.finish(out), Caption: beeps, Beeps: count, Pitch: word, Questions: []Pair{
		{"how many beeps are there?", number(count), "count"},
		{"is the sound high or low?", word, "pitch"},
		{"what do you hear?", beeps, "caption"},
	}}
}

func (m *mixer) sweep(harmonics []float64) Clip {
	from, to, word := m.in(200, 600), m.in(1200, 2600), "rising"
	if m.chance(0.5) {
		from, to, word = to, from, "falling"
	}
	length := m.in(0.4, 1.3)
	out := tone(int(length*Rate), func(t float64) float64 { return from * math.Pow(to/from, t/length) }, harmonics, 0)
	verb := map[string]string{"rising": "rise", "falling": "fall"}[word]
	return Clip{PCM: m.finish(out), Caption: "a " + word + " tone", Pitch: word, Questions: []Pair{
		{"does the tone rise or fall?", verb, "direction"},
		{"what do you hear?", "a " + word + " tone", "caption"},
	}}
}

// tone returns n samples of a pitch that may change, Hz at a time in seconds,
// with the amplitudes of its harmonics. It fades in and out.
func tone(n int, pitch func(t float64) float64, harmonics []float64, phase float64) []float64 {
	out := make([]float64, n)
	edge := float64(min(n/2, Rate/100))
	for i := range out {
		f := pitch(float64(i) / Rate)
		phase += 2 * math.Pi * f / Rate
		// sin (h+1)x = 2 cos x sin hx − sin (h−1)x
		v, c := math.Sincos(phase)
		before := 0.0
		for h, a := range harmonics {
			if f*float64(h+1) >= Rate/2 {
				break
			}
			out[i] += a * v
			v, before = 2*c*v-before, v
		}
		out[i] *= min(1, float64(i)/edge, float64(n-1-i)/edge)
	}
	return out
}
