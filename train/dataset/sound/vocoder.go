package sound

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Frames describe speech every ten milliseconds: the loudness of the voice in
// each of its bands, and of breath in wider bands.
const (
	FrameStep     = Rate / 100                 // samples between frames
	StretchFrames = StretchSamples / FrameStep // of a slot of a [Saying]
	VoicedBands   = 27                         // of the voice
	BreathBands   = 14                         // of breath
	FrameWidth    = VoicedBands + BreathBands  // size of a frame
	// BreathFrames is the number of frames after which the breath noise
	// repeats.
	BreathFrames = 4
)

// loudness scales the roots of amplitudes so that the frames of speech have
// numbers near one.
const loudness = 4

const (
	grainSize = 2 * FrameStep // samples of a frame's grain, half of them in the next frame
	pitch     = 100           // of the voice in Hz: one period per frame
	spectrum  = 512           // samples of a frame's spectrum
)

// bands returns the center frequencies in Hz: equidistant below, then
// increasingly far apart, like hearing.
func bands() (voiced, breath []float64) {
	f := 100.0
	for i := range VoicedBands {
		voiced = append(voiced, f)
		if i%2 == 0 {
			breath = append(breath, f)
		}
		f += max(130, 0.115*f)
	}
	return voiced, breath
}

// part returns the weight of band i at f Hz: a triangle between the centers of
// its neighbors. The outermost bands extend to the ends.
func part(middles []float64, i int, f float64) float64 {
	switch m := middles[i]; {
	case f < m && i > 0:
		return max(0, (f-middles[i-1])/(m-middles[i-1]))
	case f > m && i < len(middles)-1:
		return max(0, (middles[i+1]-f)/(middles[i+1]-m))
	}
	return 1
}

// fade returns the weight of sample t of a grain; those of adjacent grains sum
// to one.
func fade(t int) float64 { return 0.5 + 0.5*math.Cos(2*math.Pi*float64(t-FrameStep)/grainSize) }

// VoicedGrains returns the sounds of the voice's bands, [VoicedBands,
// 2·FrameStep]: the harmonics of a voice of 100 Hz in each band, faded in and
// out. Its period is the frame step, so that they continue from frame to frame.
func VoicedGrains() []float32 {
	voiced, _ := bands()
	const harmonics = Rate/2/pitch - 3
	out := make([]float32, VoicedBands*grainSize)
	for b := range VoicedBands {
		for k := 1; k <= harmonics; k++ {
			w := part(voiced, b, float64(k*pitch))
			if w == 0 {
				continue
			}
			// Quadratic phases spread a period's energy over the period.
			phase := math.Pi * float64(k*k) / (harmonics + 1)
			for t := range grainSize {
				out[b*grainSize+t] += float32(w * fade(t) / (loudness * loudness) * math.Cos(2*math.Pi*pitch/Rate*float64(k*(t-FrameStep))+phase))
			}
		}
	}
	return out
}

// BreathGrains returns the sounds of the breath bands, [BreathFrames,
// BreathBands, 2·FrameStep]: a fixed noise that repeats every BreathFrames
// frames.
func BreathGrains() []float32 {
	_, breath := bands()
	const period = BreathFrames * FrameStep
	r := rand.New(rand.NewPCG(1, 0x627265617468))
	turn := make([]complex128, period/2+1)
	for k := range turn {
		sin, cos := math.Sincos(2 * math.Pi * r.Float64())
		turn[k] = complex(cos, sin)
	}
	turn[0], turn[period/2] = 0, 0
	fft := fourier.NewFFT(period)
	out := make([]float32, BreathFrames*BreathBands*grainSize)
	coeff := make([]complex128, period/2+1)
	for b := range BreathBands {
		for k := range coeff {
			coeff[k] = turn[k] * complex(part(breath, b, float64(k)*Rate/period), 0)
		}
		noise := fft.Sequence(nil, coeff)
		for j := range BreathFrames {
			for t := range grainSize {
				at := ((j-1)*FrameStep + t + period) % period
				// As much power in 100 Hz as a harmonic of the same amplitude.
				// The transform yields an amplitude of 2 for each of its
				// frequencies.
				v := noise[at] * fade(t) / 2 * math.Sqrt(float64(Rate)/period/pitch) / (loudness * loudness)
				out[(j*BreathBands+b)*grainSize+t] = float32(v)
			}
		}
	}
	return out
}

// analyser computes the frames of speech.
type analyser struct {
	fft, wide      *fourier.FFT
	window         []float64
	voiced, breath [][]float64 // by band: weights of the bins of a spectrum
}

func newAnalyser() *analyser {
	a := &analyser{fft: fourier.NewFFT(spectrum), wide: fourier.NewFFT(4 * spectrum), window: make([]float64, spectrum)}
	for t := range a.window {
		a.window[t] = 0.5 - 0.5*math.Cos(2*math.Pi*float64(t)/spectrum)
	}
	voiced, breath := bands()
	a.voiced, a.breath = around(voiced, 150), around(breath, 200)
	return a
}

// around returns weights that average a spectrum around the centers, over at
// least least Hz to both sides.
func around(middles []float64, least float64) [][]float64 {
	out := make([][]float64, len(middles))
	for i, m := range middles {
		lo, hi := middles[max(i-1, 0)], middles[min(i+1, len(middles)-1)]
		reach := max(least, (hi-lo)/2)
		out[i] = make([]float64, spectrum/2+1)
		sum := 0.0
		for k := range out[i] {
			w := max(0, 1-math.Abs(float64(k)*Rate/spectrum-m)/reach)
			out[i][k], sum = w, sum+w
		}
		for k := range out[i] {
			out[i][k] /= sum
		}
	}
	return out
}

// frames returns n frames of speech, [n, FrameWidth], from its first sample on,
// silent after its end.
func (a *analyser) frames(v []float64, n int) []float32 {
	const before = 2 * spectrum
	x := make([]float64, before+max(len(v), n*FrameStep)+before)
	copy(x[before:], v)
	out := make([]float32, 0, n*FrameWidth)
	part := make([]float64, spectrum)
	power := make([]float64, spectrum/2+1)
	norm := 0.0
	for _, w := range a.window {
		norm += w * w
	}
	for i := range n {
		at := before + i*FrameStep + FrameStep/2
		for t, w := range a.window {
			part[t] = x[at-spectrum/2+t] * w
		}
		for k, c := range a.fft.Coefficients(nil, part) {
			power[k] = (real(c)*real(c) + imag(c)*imag(c)) / norm
		}
		share := a.voicing(x[at-400 : at+400])
		out = append(out, loud(a.voiced, power, share)...)
		out = append(out, loud(a.breath, power, 1-share)...)
	}
	return out
}

// loud returns the roots of the amplitudes of bands with a share of the power.
func loud(bands [][]float64, power []float64, share float64) []float32 {
	out := make([]float32, len(bands))
	for b, weights := range bands {
		sum := 0.0
		for k, w := range weights {
			sum += w * power[k]
		}
		out[b] = float32(loudness * math.Sqrt(math.Sqrt(sum*share*2*pitch/(Rate/2))))
	}
	return out
}

// voicing returns the share of voice in a section of speech, 0 to 1: its
// similarity to itself a period later (autocorrelation below 1.6 kHz).
func (a *analyser) voicing(v []float64) float64 {
	if !slices.ContainsFunc(v, func(x float64) bool { return x != 0 }) {
		return 0
	}
	mean := 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	wide := make([]float64, 4*spectrum)
	for t, x := range v {
		wide[t] = x - mean
	}
	c := a.wide.Coefficients(nil, wide)
	for k := range c {
		p := real(c[k])*real(c[k]) + imag(c[k])*imag(c[k])
		if k >= 200 {
			p *= 0.09
		}
		c[k] = complex(p, 0)
	}
	like := a.wide.Sequence(nil, c)
	if like[0] <= 0 {
		return 0
	}
	best := 0.0
	for lag := Rate / 356; lag < Rate/70; lag++ {
		best = max(best, like[lag]/like[0]/(1-float64(lag)/float64(len(v))))
	}
	return min(max((best-0.45)/0.3, 0), 1)
}
