package preprocess

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

func (s *Spec) nfft() int {
	if s.NFFT != 0 {
		return s.NFFT
	}
	return s.Window
}

func (s *Spec) window() int {
	if s.Window != 0 {
		return s.Window
	}
	return s.NFFT
}

func (s *Spec) hop() int {
	if s.Hop != 0 {
		return s.Hop
	}
	return max(s.window()/4, 1)
}

func (s *Spec) fmax() float64 {
	if s.FMax != 0 {
		return s.FMax
	}
	return float64(s.SampleRate) / 2
}

// frames returns the number of mel frames of n samples.
func (s *Spec) frames(n int) int {
	if s.Uncenter {
		return 1 + max(n-s.nfft(), 0)/s.hop()
	}
	return 1 + n/s.hop()
}

// mel returns the first frames of the mel spectrogram of samples (librosa's
// feature.melspectrogram with a Hann window), or its logarithm if the spec sets
// one: count × NMels.
func (s *Spec) mel(samples []float32, count int) []float64 {
	size, hop := s.nfft(), s.hop()
	lead := size / 2
	if s.Uncenter {
		lead = 0
	}
	window := hann(s.window(), size)
	bands := s.bands()
	power := s.Power
	if power == 0 {
		power = 2
	}
	fft := fourier.NewFFT(size)
	frame := make([]float64, size)
	spectrum := make([]complex128, size/2+1)
	magnitude := make([]float64, size/2+1)
	out := make([]float64, count*s.NMels)
	for t := range count {
		for i := range frame {
			frame[i] = window[i] * s.beyond(samples, t*hop-lead+i)
		}
		fft.Coefficients(spectrum, frame)
		for i, c := range spectrum {
			m := real(c)*real(c) + imag(c)*imag(c)
			switch power {
			case 2:
			case 1:
				m = math.Sqrt(m)
			default:
				m = math.Pow(m, power/2)
			}
			magnitude[i] = m
		}
		for b, band := range bands {
			sum := 0.0
			for i, w := range band.weights {
				sum += w * magnitude[band.first+i]
			}
			out[t*s.NMels+b] = sum
		}
	}
	s.logarithm(out)
	return out
}

// beyond returns sample i, which may be out of range.
func (s *Spec) beyond(samples []float32, i int) float64 {
	n := len(samples)
	if s.Edge == "reflect" && n > 1 {
		period := 2 * (n - 1)
		i = ((i % period) + period) % period
		i = min(i, period-i)
	}
	if i < 0 || i >= n {
		return 0
	}
	return float64(samples[i])
}

func (s *Spec) logarithm(v []float64) {
	floor := s.Floor
	if floor == 0 {
		floor = 1e-10
	}
	top := math.Inf(-1)
	for i, x := range v {
		switch s.Log {
		case "ln":
			v[i] = math.Log(max(x, floor))
		case "log10":
			v[i] = math.Log10(max(x, floor))
		case "db":
			if s.Power == 1 {
				x *= x
			}
			v[i] = 10 * math.Log10(max(x, floor))
		}
		top = max(top, v[i])
	}
	if s.Range > 0 {
		for i := range v {
			v[i] = max(v[i], top-s.Range)
		}
	}
}

// hann returns a periodic Hann window in the middle of size samples.
func hann(n, size int) []float64 {
	w := make([]float64, size)
	for i := range n {
		w[(size-n)/2+i] = 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/float64(n))
	}
	return w
}

// band is a triangular filter over the bins from first on.
type band struct {
	first   int
	weights []float64
}

// bands returns NMels triangles whose corners are evenly spaced on the mel
// scale.
func (s *Spec) bands() []band {
	toMel, toHz := slaney, slaneyHz
	if s.Mel == "htk" {
		toMel, toHz = htk, htkHz
	}
	low, high := toMel(s.FMin), toMel(s.fmax())
	corner := make([]float64, s.NMels+2)
	for i := range corner {
		corner[i] = toHz(low + (high-low)*float64(i)/float64(s.NMels+1))
	}
	bins := s.nfft()/2 + 1
	out := make([]band, s.NMels)
	for m := range out {
		left, mid, right := corner[m], corner[m+1], corner[m+2]
		gain := 1.0
		if s.MelNorm != "none" {
			gain = 2 / (right - left)
		}
		b := band{first: bins}
		for i := range bins {
			f := float64(i) * float64(s.SampleRate) / float64(s.nfft())
			w := min((f-left)/(mid-left), (right-f)/(right-mid))
			if w <= 0 || math.IsNaN(w) {
				continue
			}
			if b.weights == nil {
				b.first = i
			}
			b.weights = append(b.weights, w*gain)
		}
		out[m] = b
	}
	return out
}

func htk(f float64) float64   { return 2595 * math.Log10(1+f/700) }
func htkHz(m float64) float64 { return 700 * (math.Pow(10, m/2595) - 1) }

// Slaney's scale (Auditory Toolbox): linear to 1 kHz, then logarithmic with 27
// steps for a factor of 6.4.
const (
	linearStep = 200.0 / 3
	knee       = 1000.0
)

func slaney(f float64) float64 {
	if f < knee {
		return f / linearStep
	}
	return knee/linearStep + math.Log(f/knee)*27/math.Log(6.4)
}

func slaneyHz(m float64) float64 {
	if m < knee/linearStep {
		return m * linearStep
	}
	return knee * math.Exp((m-knee/linearStep)*math.Log(6.4)/27)
}
