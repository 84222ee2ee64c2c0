package modality_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/convert"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/modality"
)

// imported returns a module folder made from an ONNX file.
func imported(t *testing.T, file, name string, fn convert.Function) *modules.Manifest {
	t.Helper()
	dir, err := convert.ONNX(t.Context(), file, convert.Options{Dir: filepath.Join(t.TempDir(), name), Name: name, Version: "1.0.0", License: "MIT"}, fn)
	if err != nil {
		t.Fatal(err)
	}
	m, list := inspect.Module(t.Context(), dir)
	if m == nil || len(list) > 0 {
		t.Fatal(list)
	}
	return m
}

// folder contains the files of a module.
type folder string

func (f folder) Open(name string) (*os.File, error)             { return os.Open(filepath.Join(string(f), name)) }
func (f folder) Path(name string) (string, error)               { return filepath.Join(string(f), name), nil }
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

// onEngines runs a test on each engine for ONNX.
func onEngines(t *testing.T, m *modules.Manifest, test func(t *testing.T, open func() *modality.Session)) {
	for _, e := range []runtimes.Engine{engines.ONNX{}, engines.ONNXRuntime{Home: home}} {
		t.Run(e.Name(), func(t *testing.T) {
			if _, err := e.Probe(t.Context()); errors.Is(err, runtimes.ErrUnavailable) {
				t.Skipf("skipped: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			part := builds.Part{Name: m.Name, Version: m.Version, Type: m.Type, Files: builds.Formats{string(abi.ONNX): {m.Entry(abi.ONNX)}}}
			model, err := e.Open(t.Context(), runtimes.Bundle{Part: part, Manifest: m, Files: folder(m.Dir())}, runtimes.Limits{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { model.Close() })
			test(t, func() *modality.Session {
				s, err := modality.New(model.(runtimes.Function), m, modality.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return s
			})
		})
	}
}

// home returns the folder with native engines: MM_HOME, as for mm.
func home() (string, error) {
	if dir := os.Getenv("MM_HOME"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserHomeDir()
	return filepath.Join(dir, ".mm"), err
}

// PP-OCRv4's recognition reads drawn text exactly.
func TestReadsText(t *testing.T) {
	m := imported(t, testfiles.Models(t, "ocr", "ch_PP-OCRv4_rec_infer.onnx"), "rec", convert.Function{
		Preprocess: modules.Preprocess{"": {
			Scale: 1 / 255.0, Mean: []float64{0.5}, Std: []float64{0.5},
			Picture: preprocess.Picture{Height: 48, MaxWidth: 3200, Color: "bgr"},
		}},
		Postprocess: map[string]modules.Postprocess{"softmax_11.tmp_0": {CTC: &modules.CTC{Labels: "ppocr_keys_v1.txt", Space: true}}},
		With:        []string{testfiles.Models(t, "ocr", "ppocr_keys_v1.txt")},
	})
	onEngines(t, m, func(t *testing.T, open func() *modality.Session) {
		s := open()
		for _, text := range []string{"Modular ABI 1.0", "slope = 3.14", "invoice 20456"} {
			for _, size := range []float64{28, 32, 40} {
				r, err := s.Run(t.Context(), map[string]modality.Input{"": {Data: testfiles.Line(t, text, size)}})
				if err != nil {
					t.Fatal(err)
				}
				if r.Text != text || len(r.Assumed) > 0 {
					t.Errorf("at %v pixels %q is read as %q, %v", size, text, r.Text, r.Assumed)
				}
			}
		}
	})
}

// spokenDigits returns digits with a second of near silence around each, and their positions in
// seconds.
func spokenDigits(t *testing.T) (*preprocess.Wave, [][2]float64) {
	t.Helper()
	const rate = 8000
	out := &preprocess.Wave{Rate: rate}
	var at [][2]float64
	noise := uint32(1)
	quiet := func() {
		for range rate {
			noise = noise*1664525 + 1013904223
			out.Samples = append(out.Samples, (float32(noise>>16)/65536-0.5)/5000)
		}
	}
	quiet()
	for digit := range 10 {
		data, err := os.ReadFile(testfiles.Shared(t, "fsdd", fmt.Sprintf("%d_%s_5.wav", digit, []string{"jackson", "theo"}[digit%2])))
		if err != nil {
			t.Fatal(err)
		}
		w, err := preprocess.DecodeWAV(data)
		if err != nil || w.Rate != rate {
			t.Fatal(err)
		}
		from := float64(len(out.Samples)) / rate
		out.Samples = append(out.Samples, w.Samples...)
		at = append(at, [2]float64{from, float64(len(out.Samples)) / rate})
		quiet()
	}
	return out, at
}

// Silero VAD detects spoken digits and nothing between them, at once and as a stream, and two
// concurrent streams are independent.
func TestFindsSpeech(t *testing.T) {
	m := imported(t, testfiles.Models(t, "vad", "silero_vad_v6.onnx"), "vad", convert.Function{
		Preprocess:  modules.Preprocess{"": {Sound: preprocess.Sound{SampleRate: 16000, Chunk: 512, Context: 64}}},
		State:       map[string]modules.State{"state": {From: "stateN"}},
		Constants:   map[string]modules.Constant{"sr": {Value: 16000}},
		Postprocess: map[string]modules.Postprocess{"output": {Segments: &modules.Segments{MinMS: 60, MinSilenceMS: 100}}},
	})
	sound, digits := spokenDigits(t)
	file := preprocess.EncodeWAV(sound)
	onEngines(t, m, func(t *testing.T, open func() *modality.Session) {
		s := open()
		r, err := s.Run(t.Context(), map[string]modality.Input{"": {Data: file}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d windows, segments %+v", r.Outputs["output"].Shape[1], r.Segments)
		const slack = 0.2 // seconds: a window of 32 ms, and the model's own lag
		for i, d := range digits {
			found := false
			for _, seg := range r.Segments {
				found = found || seg.Start < d[1] && seg.End > d[0]
			}
			if !found {
				t.Errorf("digit %d at %.2f to %.2f s is not found", i, d[0], d[1])
			}
		}
		for _, seg := range r.Segments {
			within := false
			for _, d := range digits {
				within = within || seg.Start > d[0]-slack && seg.End < d[1]+slack
			}
			if !within {
				t.Errorf("the segment %+v reaches into silence", seg)
			}
		}

		// Piece by piece yields the same as at once, on a session that runs in
		// turns with another, and once more after a reset.
		wide, err := sound.ResampleTo(16000)
		if err != nil {
			t.Fatal(err)
		}
		a, b := open(), open()
		want := values(t, open(), wide.Samples)
		for turn := range 2 {
			var got []float64
			const piece = 512 * 40
			for from := 0; from < len(wide.Samples); from += piece {
				got = append(got, values(t, a, wide.Samples[from:min(from+piece, len(wide.Samples))])...)
				values(t, b, wide.Samples[9000:11000])
			}
			if !slices.Equal(got, want) {
				t.Errorf("turn %d: a stream gives other values than the whole", turn)
			}
			a.Reset()
		}
	})
}

// values returns the detector's outputs for samples at 16 kHz.
func values(t *testing.T, s *modality.Session, samples []float32) []float64 {
	t.Helper()
	r, err := s.Run(t.Context(), map[string]modality.Input{"input": {Data: preprocess.EncodeWAV(&preprocess.Wave{Rate: 16000, Samples: samples})}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := modality.Numbers(r.Outputs["output"])
	if err != nil {
		t.Fatal(err)
	}
	return v
}
