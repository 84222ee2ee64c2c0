package preprocess_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/core/preprocess"
)

// speechSpec is the front end of a speech encoder: 25 ms every 10, 64 bands.
func speechSpec() preprocess.Spec {
	return preprocess.Spec{Layout: "NMT", Sound: preprocess.Sound{
		SampleRate: 16000, Window: 400, NFFT: 512, Hop: 160, NMels: 64, FMin: 60, FMax: 7600, Log: "ln", Floor: 1e-6,
	}, Mean: []float64{-8}, Std: []float64{4}}
}

// Frames and bands are the same numbers in every layout, with and without a
// channel axis.
func TestFrameLayouts(t *testing.T) {
	s := speechSpec()
	v := make([]float32, 4000)
	for i := range v {
		v[i] = float32(math.Sin(float64(i*i) / 9000))
	}
	layouts := map[string]*preprocess.Tensor{}
	for layout, shape := range map[string][]int{"NTM": {1, 26, 64}, "NCTM": {1, 1, 26, 64}, "NMT": {1, 64, 26}, "NCMT": {1, 1, 64, 26}} {
		s.Layout = layout
		if faults := s.Check(); len(faults) > 0 {
			t.Fatal(faults)
		}
		got, err := s.FromSamples(v)
		if err != nil || !slices.Equal(got.Shape, shape) || len(s.Dims()) != len(shape) {
			t.Fatalf("%s: %v, %v, %v", layout, got.Shape, s.Dims(), err)
		}
		layouts[layout] = got
	}
	if !bytes.Equal(layouts["NTM"].Data, layouts["NCTM"].Data) || !bytes.Equal(layouts["NMT"].Data, layouts["NCMT"].Data) {
		t.Error("an axis of one changes the order")
	}
	if at := func(l string, i int) []byte { return layouts[l].Data[4*i : 4*i+4] }; !bytes.Equal(at("NTM", 5*64+3), at("NMT", 3*26+5)) || bytes.Equal(at("NTM", 5*64+3), at("NMT", 5*64+3)) {
		t.Error("frames and bands are not in layout order")
	}
}

// Five seconds are 501 frames, with mean about 0 and deviation 1 for a sound as
// loud as speech.
func TestSpeechFrames(t *testing.T) {
	s := speechSpec()
	if faults := s.Check(); len(faults) > 0 {
		t.Fatal(faults)
	}
	v := make([]float32, 5*16000)
	for i := range v {
		x := float64(i) / 16000
		v[i] = float32(0.3 * math.Sin(2*math.Pi*(200+300*x)*x) * math.Abs(math.Sin(9*x)))
	}
	got, err := s.FromSamples(v)
	if err != nil || len(got.Shape) != 3 || got.Shape[1] != 64 || got.Shape[2] != 501 {
		t.Fatal(got.Shape, err)
	}
	all := numbers{DType: "fp32", Data: got.Data}.values(t)
	lowest := (math.Log(1e-6) + 8) / 4
	for i, x := range all {
		if x < lowest-1e-5 || x > 4 {
			t.Fatalf("element %d is %v", i, x)
		}
	}
}

func BenchmarkMel(b *testing.B) {
	s := speechSpec()
	v := make([]float32, 5*16000)
	for i := range v {
		v[i] = float32(math.Sin(float64(i) / 9))
	}
	for b.Loop() {
		if _, err := s.FromSamples(v); err != nil {
			b.Fatal(err)
		}
	}
}
