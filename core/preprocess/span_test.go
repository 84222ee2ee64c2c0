package preprocess_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/core/preprocess"
)

// whisper is the front end of Whisper for calls of seconds.
func whisper(seconds int, span preprocess.Span) preprocess.Spec {
	span.Samples = 16000 * seconds
	return preprocess.Spec{Mean: []float64{-4}, Std: []float64{4}, Sound: preprocess.Sound{
		SampleRate: 16000, NMels: 16, Window: 400, Hop: 160, Edge: "reflect", FMax: 8000, Log: "log10", Range: 8, Span: &span,
	}}
}

// TestSpan compares mel frames with those of WhisperFeatureExtractor.
func TestSpan(t *testing.T) {
	data, err := os.ReadFile("testdata/span.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		N, Seconds, Frames int
		Divide             bool
		Values             []float32 // every 97th
	}
	if err := json.Unmarshal(data, &rows); err != nil || len(rows) < 5 {
		t.Fatal(len(rows), err)
	}
	for _, c := range rows {
		samples := make([]float32, c.N)
		for i := range samples {
			samples[i] = float32(math.Round(9000*math.Sin(float64(i)*0.05)*math.Sin(float64(i)*0.0007))) / 32768
		}
		span := preprocess.Span{}
		if c.Divide {
			span.Longer = "divide"
		}
		s := whisper(c.Seconds, span)
		if faults := s.Check(); len(faults) > 0 {
			t.Fatal(faults)
		}
		calls, err := s.FromSpan(samples)
		if err != nil {
			t.Fatal(err)
		}
		per := 100 * c.Seconds
		if len(calls)*per != c.Frames {
			t.Errorf("%d samples: %d calls of %d frames, want %d frames", c.N, len(calls), per, c.Frames)
			continue
		}
		for k, want := range c.Values {
			at := k * 97 // of bands × frames
			band, frame := at/c.Frames, at%c.Frames
			got := elements(t, calls[frame/per])[band*per+frame%per]
			if math.Abs(float64(got-want)) > 1e-4 {
				t.Fatalf("%d samples: band %d of frame %d is %v, want %v", c.N, band, frame, got, want)
			}
		}
		if c.Divide {
			continue
		}
		only := whisper(c.Seconds, preprocess.Span{Frames: "sound"})
		cut, err := only.FromSpan(samples)
		if err != nil {
			t.Fatal(err)
		}
		n := (min(c.N, 16000*c.Seconds) + 159) / 160
		if want := (n+1)/2*2 + 1; len(cut) != 1 || cut[0].Shape[2] != want {
			t.Errorf("%d samples: %v, want %d frames", c.N, cut[0].Shape, want)
		}
		all, some := elements(t, calls[0]), elements(t, cut[0])
		for i := range cut[0].Shape[2] {
			want := float32(0)
			if i < per {
				want = all[per+i]
			}
			if got := some[cut[0].Shape[2]+i]; got != want {
				t.Fatalf("%d samples: frame %d is %v, want %v", c.N, i, got, want)
			}
		}
	}
}

func elements(t *testing.T, x *preprocess.Tensor) []float32 {
	t.Helper()
	out := make([]float32, len(x.Data)/4)
	for i := range out {
		out[i] = math.Float32frombits(uint32(x.Data[4*i]) | uint32(x.Data[4*i+1])<<8 | uint32(x.Data[4*i+2])<<16 | uint32(x.Data[4*i+3])<<24)
	}
	return out
}

// TestSpanLimits has each number at its limit and beyond it.
func TestSpanLimits(t *testing.T) {
	for _, c := range []struct {
		change func(s *preprocess.Spec)
		want   string
	}{
		{func(s *preprocess.Spec) {}, ""},
		{func(s *preprocess.Spec) { s.Span.Samples = 1 << 26; s.Hop = 256 }, ""},
		{func(s *preprocess.Spec) { s.Span.Samples = 1<<26 + 256; s.Hop = 256 }, "at most 67108864"},
		{func(s *preprocess.Spec) { s.Span.Samples = 161 }, "multiple of the hop"},
		{func(s *preprocess.Spec) { s.Span.Samples = 0 }, "got 0 samples"},
		{func(s *preprocess.Spec) { s.Span.Longer = "fold" }, `got "fold"`},
		{func(s *preprocess.Spec) { s.Span.Frames = "some" }, `got "some"`},
		{func(s *preprocess.Spec) { s.Span.Frames, s.Span.Longer = "sound", "divide" }, "excludes longer"},
		{func(s *preprocess.Spec) { s.NMels = 0 }, "requires n_mels"},
		{func(s *preprocess.Spec) { s.Chunk = 160 }, "excludes chunk"},
	} {
		s := whisper(1, preprocess.Span{})
		c.change(&s)
		got := ""
		for _, f := range s.Check() {
			got += f.Error() + "\n"
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	s := whisper(1, preprocess.Span{Longer: "divide"})
	for n, want := range map[int]string{128 * 16000: "", 128*16000 + 1: "limit of 128 calls", 0: "empty sound"} {
		calls, err := s.FromSpan(make([]float32, n))
		if want == "" && (err != nil || len(calls) != 128) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d samples: %d calls, %v, want %q", n, len(calls), err, want)
		}
	}
}
