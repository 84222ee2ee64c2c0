package part

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// An input finds its function by a name, by both names, or by its modality; if several or none
// match, the error lists them.
func TestPlace(t *testing.T) {
	senses := []string{"image-enc", "image-proj", "audio-enc", "audio-proj"}
	for _, c := range []struct {
		parts  []string
		name   string
		in     abi.Modality
		want   string // PART.PORT
		refuse string
		hint   string
	}{
		{senses, "picture", "", "image-enc.picture", "", ""},
		{senses, "image-enc", "", "image-enc", "", ""},
		{senses, "image-enc.picture", "", "image-enc.picture", "", ""},
		{senses, "audio-proj.tokens", "", "audio-proj.tokens", "", ""},
		{senses, "", abi.Image, "image-enc", "", ""},
		{senses, "", abi.Audio, "audio-enc", "", ""},
		{senses, "tokens", "", "", `"tokens" is ambiguous: image-proj.tokens or audio-proj.tokens`, "PART.PORT"},
		{senses, "", "", "", "an unnamed input is ambiguous: image-enc or audio-enc", "image-enc.picture"},
		{senses, "", abi.Video, "", "an input of video fits no part of b", "the build takes image-enc.picture"},
		{senses, "pictures", "", "", `"pictures" fits no part of b`, "did you mean picture?"},
		{senses, "image-enc.pcm", "", "", "fits no part of b", ""},
		{senses[:2], "", "", "image-enc", "", ""},
		{senses[:2], "tokens", "", "image-proj.tokens", "", ""},
		{senses[:1], "", "", "image-enc", "", ""},
		{senses[:1], "anything", "", "image-enc.anything", "", ""}, // whose session reports its inputs
		{senses[:1], "", abi.Audio, "", "an input of audio fits no part of b", ""},
		{[]string{"image-enc", "image.2-enc"}, "", abi.Image, "", "an input of image is ambiguous: image-enc or image.2-enc", ""},
		{[]string{"image-enc", "image.2-enc"}, "image.2-enc.picture", "", "image.2-enc.picture", "", ""},
		{[]string{"img-dec"}, "states", "", "img-dec.states", "", ""},
	} {
		s := set(t, runtimetest.Build(t, false, c.parts...), Options{})
		p, port, err := s.place(Argument{Name: c.name, Modality: c.in})
		what := fmt.Sprintf("%q of %q for %v", c.name, c.in, c.parts)
		if c.refuse == "" && (err != nil || dotted(p, port) != c.want) {
			t.Errorf("%s: %s, %v, want %s", what, dotted(p, port), err, c.want)
		}
		e := (*modality.InputError)(nil)
		if c.refuse != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), c.refuse) || !strings.Contains(e.Hint, c.hint)) {
			t.Errorf("%s: %v (%v), want %q and %q", what, err, e, c.refuse, c.hint)
		}
	}
}

// numbers returns the computed tensors of one output.
func numbers(t *testing.T, c Computed, port string) []float32 {
	t.Helper()
	x, err := Floats(c.Outputs[port])
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func pixel(r, g, b uint8) Argument {
	return Argument{Modality: abi.Image, Input: modality.Input{Frames: []*preprocess.Raster{{W: 1, H: 1, C: 3, Pix: []uint8{r, g, b}}}}}
}

// Functions run on their inputs in the order of the graph; a projector runs after its encoder,
// unless it has its own input or is not shipped.
func TestCompute(t *testing.T) {
	b := runtimetest.Build(t, false, "image-enc", "image-proj", "audio-enc", "audio-proj")
	s := set(t, b, Options{})
	sound := Argument{Name: "pcm", Numbers: []float64{3, 4, 5}}
	tokens := Argument{Name: "image-proj", Numbers: []float64{7, 8, 9}}
	for name, c := range map[string]struct {
		args []Argument
		want string
	}{
		"a picture":                  {[]Argument{pixel(1, 2, 3)}, "image-enc [1 2 3], image-proj [2 4 6]"},
		"both, turned round":         {[]Argument{sound, pixel(1, 2, 3)}, "image-enc [1 2 3], image-proj [2 4 6], audio-enc [3 5 3], audio-proj [6 10 6]"},
		"a projector alone":          {[]Argument{tokens}, "image-proj [14 16 18]"},
		"an input for the projector": {[]Argument{pixel(1, 2, 3), tokens}, "image-enc [1 2 3], image-proj [14 16 18]"},
		"two for one":                {[]Argument{pixel(1, 2, 3), pixel(1, 2, 3)}, "duplicate input for image-enc"},
		"two names of one":           {[]Argument{{Name: "image-enc"}, {Name: "image-enc"}}, "duplicate input for image-enc"},
		"nothing":                    {nil, "no input"},
		"a misfit":                   {[]Argument{{Name: "image-proj", Numbers: []float64{1, 2}}}, "input image-proj: 2 numbers"},
		"a port of another's":        {[]Argument{{Name: "image-enc.tokens"}}, "fits no part"},
		"an empty input":             {[]Argument{{Name: "pcm"}}, "want exactly one of"},
	} {
		got, err := s.Compute(t.Context(), c.args)
		var parts []string
		for _, g := range got {
			port := "tokens"
			if g.Part.Type == abi.Projector {
				port = "vectors"
			}
			parts = append(parts, fmt.Sprint(g.Part.Name, " ", numbers(t, g, port)))
			if want := map[string]string{"image-proj": "second"}[g.Part.Name]; g.Backend != max(want, "first") {
				t.Errorf("%s: %s ran on %s", name, g.Part.Name, g.Backend)
			}
		}
		if text := strings.Join(parts, ", "); err == nil && text != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v, want %q", name, text, err, c.want)
		}
	}
	b.Assembly.Modalities[0].Projector.Files = nil // of another target
	if got, err := set(t, b, Options{}).Compute(t.Context(), []Argument{pixel(1, 2, 3)}); err != nil || len(got) != 1 {
		t.Errorf("a projector that is not shipped: %v, %v", got, err)
	}
	alone := set(t, runtimetest.Build(t, false, "audio-enc"), Options{})
	if _, err := alone.Compute(t.Context(), nil); err == nil || !strings.Contains(err.Error(), `"pcm" is missing`) {
		t.Errorf("one function, and nothing for it: %v", err)
	}
	if none := set(t, runtimetest.Build(t, true), Options{}); none.Computes() || !alone.Computes() {
		t.Error("what has no functions computes")
	}
	if _, err := s.Compute(t.Context(), []Argument{{Name: "pcm", Input: modality.Input{Tensor: &runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{2}, Data: make([]byte, 4)}}}}); err == nil {
		t.Error("a tensor of half its numbers was computed on")
	}
}
