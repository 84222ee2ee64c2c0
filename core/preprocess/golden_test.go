package preprocess_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/testfiles"
)

// numbers is a NumPy array.
type numbers struct {
	DType string
	Shape []int
	Data  []byte
}

// values returns the elements as numbers.
func (a numbers) values(t *testing.T) []float64 {
	t.Helper()
	le := binary.LittleEndian
	var out []float64
	for b := a.Data; len(b) > 0; {
		switch a.DType {
		case "uint8":
			out, b = append(out, float64(b[0])), b[1:]
		case "float16", "fp16":
			out, b = append(out, widen(le.Uint16(b))), b[2:]
		case "float32", "fp32":
			out, b = append(out, float64(math.Float32frombits(le.Uint32(b)))), b[4:]
		case "float64":
			out, b = append(out, math.Float64frombits(le.Uint64(b))), b[8:]
		default:
			t.Fatalf("no element type %q", a.DType)
		}
	}
	return out
}

// widen returns the number of a binary16.
func widen(h uint16) float64 {
	sign := 1 - 2*float64(h>>15)
	exp, frac := int(h>>10&31), float64(h&1023)
	if exp == 0 {
		return sign * math.Ldexp(frac, -24)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// goldens is the output of testdata/goldens.py.
type goldens struct {
	Versions map[string]string
	Pictures []struct {
		Name      string
		File      []byte
		Spec      preprocess.Spec
		Want      numbers
		Tolerance float64
	}
	Waves []struct {
		Name string
		File []byte
		Rate int
		Want numbers
	}
	Resampled []struct {
		From, To int
		In, Want numbers
	}
	Sound numbers // of every spectrogram
	Mels  []struct {
		Name string
		Spec preprocess.Spec
		Want numbers
	}
}

// Results of other libraries, stored in testdata/goldens.json.
func TestGoldens(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "goldens.json"))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, data)
}

// The same with images and sounds of another seed, from the libraries
// themselves.
func TestLibraries(t *testing.T) {
	python := testfiles.Python(t, "PIL", "torchvision", "scipy", "librosa", "soundfile")
	for _, seed := range []string{"2", "3"} {
		data, err := exec.Command(python, filepath.Join("testdata", "goldens.py"), seed).Output()
		if err != nil {
			t.Fatalf("goldens.py: %v", err)
		}
		compare(t, data)
	}
}

func compare(t *testing.T, data []byte) {
	var g goldens
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Pictures) < 30 || len(g.Waves) < 10 || len(g.Resampled) < 5 || len(g.Mels) < 5 {
		t.Fatalf("%d pictures, %d waves, %d resampled, %d spectrograms: some are missing", len(g.Pictures), len(g.Waves), len(g.Resampled), len(g.Mels))
	}
	t.Logf("%v", g.Versions)
	worst := map[string]float64{}
	for _, c := range g.Pictures {
		if faults := c.Spec.Check(); len(faults) > 0 {
			t.Fatalf("%s: %v", c.Name, faults)
		}
		got, err := c.Spec.FromImage(t.Context(), c.File)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		// One step of 255, in the units of the result; PNGs are exact.
		limit := max(c.Tolerance, 0)
		switch {
		case c.Spec.DType == "fp16":
			limit = 1.0 / 256
		case c.Want.DType == "float32":
			limit = 1/255.0/0.224 + 1e-5
		}
		diff := distance(t, c.Name, got, c.Want, limit)
		if c.Want.DType == "uint8" && c.Tolerance == 0 {
			worst["resizing, of 255"] = max(worst["resizing, of 255"], diff)
		} else if c.Want.DType == "float32" {
			worst["normalised"] = max(worst["normalised"], diff)
		}
	}
	for _, c := range g.Waves {
		w, err := preprocess.DecodeWAV(c.File)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if w.Rate != c.Rate {
			t.Errorf("%s: %d Hz, want %d", c.Name, w.Rate, c.Rate)
		}
		worst["decoded sound"] = max(worst["decoded sound"], maxDiff(t, c.Name, floats(w.Samples), c.Want.values(t), 1e-7))
	}
	for _, c := range g.Resampled {
		w := &preprocess.Wave{Rate: c.From}
		for _, v := range c.In.values(t) {
			w.Samples = append(w.Samples, float32(v))
		}
		r, err := w.ResampleTo(c.To)
		if err != nil {
			t.Errorf("%d to %d: %v", c.From, c.To, err)
			continue
		}
		worst["resampled"] = max(worst["resampled"], maxDiff(t, "resampled", floats(r.Samples), c.Want.values(t), 1e-6))
	}
	for _, c := range g.Mels {
		if faults := c.Spec.Check(); len(faults) > 0 {
			t.Fatalf("%s: %v", c.Name, faults)
		}
		w := &preprocess.Wave{Rate: c.Spec.SampleRate}
		for _, v := range g.Sound.values(t) {
			w.Samples = append(w.Samples, float32(v))
		}
		samples, err := c.Spec.Samples(w)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Spec.FromSamples(samples)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		worst["mel"] = max(worst["mel"], distance(t, c.Name, got, c.Want, 1e-4))
	}
	t.Logf("largest differences: %v", worst)
}

func floats(v []float32) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// distance returns the largest difference of two tensors of one shape.
func distance(t *testing.T, name string, got *preprocess.Tensor, want numbers, limit float64) float64 {
	t.Helper()
	if !slices.Equal(got.Shape, want.Shape) {
		t.Errorf("%s: shape %v, want %v", name, got.Shape, want.Shape)
		return 0
	}
	return maxDiff(t, name, numbers{DType: got.DType, Data: got.Data}.values(t), want.values(t), limit)
}

func maxDiff(t *testing.T, name string, got, want []float64, limit float64) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d numbers, want %d", name, len(got), len(want))
		return 0
	}
	worst := 0.0
	for i := range got {
		d := math.Abs(got[i] - want[i])
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		worst = max(worst, d)
	}
	if worst > limit {
		t.Errorf("%s: differs by %v, limit %v", name, worst, limit)
	}
	return worst
}
