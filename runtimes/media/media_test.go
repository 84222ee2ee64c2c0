package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/talk"
)

// senses returns the Senses of a build with known numbers.
func senses(t *testing.T, b *builds.Build, e *runtimetest.Engine) *Senses {
	t.Helper()
	if e.Called == "" {
		e.Called = "known"
	}
	parts, err := part.Open(t.Context(), b, part.Options{Engines: []runtimes.Engine{e}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { parts.Close() })
	return &Senses{Build: b, Parts: parts}
}

func both(t *testing.T) *builds.Build {
	return runtimetest.Build(t, true, "image-enc", "image-proj", "audio-enc", "audio-proj")
}

// prompt returns a prompt of inputs between words.
func prompt(parts ...talk.Part) (p talk.Prompt) {
	p.Pieces = append(p.Pieces, talk.Piece{Tokens: []int32{1}})
	for i := range parts {
		p.Pieces = append(p.Pieces, talk.Piece{Part: &parts[i]}, talk.Piece{Tokens: []int32{2}})
	}
	return p
}

// paint returns an image of one color.
func paint(t *testing.T, r, g, b uint8) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	for x := range 2 {
		m.Set(x, 0, color.NRGBA{r, g, b, 255})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// clip returns an animated GIF of frames, each of one red.
func clip(t *testing.T, reds ...uint8) []byte {
	t.Helper()
	var g gif.GIF
	for _, red := range reds {
		g.Image = append(g.Image, image.NewPaletted(image.Rect(0, 0, 2, 1), color.Palette{color.NRGBA{red, 0, 0, 255}}))
		g.Delay = append(g.Delay, 1)
	}
	var out bytes.Buffer
	if err := gif.EncodeAll(&out, &g); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// write writes a file.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read judges and reads inputs.
func read(t *testing.T, s *Senses, parts ...talk.Part) ([]Medium, error) {
	t.Helper()
	in, err := s.Judge(prompt(parts...))
	if err == nil {
		err = s.Read(t.Context(), in)
	}
	return in, err
}

// Inputs are judged before anything is opened: their form, and the positions that each may take.
func TestRead(t *testing.T) {
	red := paint(t, 9, 0, 0)
	for name, c := range map[string]struct {
		in     talk.Part
		change func(*builds.Build)
		places int
		frames int
		want   string
	}{
		"bytes":         {in: talk.Part{Type: abi.Image, Data: red}, places: 4},
		"a file":        {in: talk.Part{Type: abi.Image, Path: write(t, "a.png", red)}, places: 4},
		"both":          {in: talk.Part{Type: abi.Image, Path: "a.png", Data: red}, want: "image input a.png has both a path and data"},
		"neither":       {in: talk.Part{Type: abi.Audio}, want: "empty audio input"},
		"text":          {in: talk.Part{Type: abi.Image, Path: "a.png", Text: "what"}, want: "image input a.png has text, which must be a separate input"},
		"no bytes":      {in: talk.Part{Type: abi.Image, Data: []byte{}}, want: "empty image input"},
		"an empty file": {in: talk.Part{Type: abi.Audio, Path: write(t, "a.wav", nil)}, want: "reading the audio input: a.wav is empty"},
		"no file":       {in: talk.Part{Type: abi.Image, Path: filepath.Join(t.TempDir(), "gone.png")}, want: "reading the image input"},
		"no video":      {in: talk.Part{Type: abi.Video, Data: red}, want: "reading the video input"},
		"a video":       {in: talk.Part{Type: abi.Video, Data: clip(t, 1, 2, 3)}, places: 4, frames: 8},
		"a video with a number of frames": {in: talk.Part{Type: abi.Video, Path: write(t, "a.gif", clip(t, 1, 2, 3))}, places: 4, frames: 2,
			change: func(b *builds.Build) {
				b.Manifests["image-enc"].Preprocess = modules.Preprocess{"picture": preprocess.Spec{Layout: "NHWC", DType: "uint8", Picture: preprocess.Picture{Frames: 2}}}
			}},
		"concatenated": {in: talk.Part{Type: abi.Video, Data: clip(t, 1)}, places: 32, frames: 8,
			change: func(b *builds.Build) { b.Manifests["image-proj"].Params["temporal"] = modules.TemporalConcat }},
		"two halves": {in: talk.Part{Type: abi.Video, Data: clip(t, 1)}, places: 8, frames: 8,
			change: func(b *builds.Build) { b.Manifests["image-proj"].Params["temporal"] = modules.TemporalHalves }},
		"more than a video may take": {in: talk.Part{Type: abi.Video, Data: clip(t, 1)}, places: most(abi.Video), frames: 8,
			change: func(b *builds.Build) {
				b.Manifests["image-proj"].Params["temporal"] = modules.TemporalConcat
				b.Assembly.Modalities[0].TCap = 1000
			}},
		"a negative cap": {in: talk.Part{Type: abi.Video, Data: clip(t, 1)}, places: 0, frames: 8,
			change: func(b *builds.Build) {
				b.Manifests["image-proj"].Params["temporal"] = modules.TemporalConcat
				b.Assembly.Modalities[0].TCap = -7
			}},
	} {
		b := both(t)
		if c.change != nil {
			c.change(b)
		}
		e := &runtimetest.Engine{}
		got, err := read(t, senses(t, b, e), c.in)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			continue
		}
		if err != nil || len(got) != 1 || got[0].Places != c.places || len(got[0].frames) != c.frames || e.Opens.Load() != 0 {
			t.Errorf("%s: %d inputs of %+v, %v", name, len(got), got, err)
		}
	}
	if got, err := read(t, senses(t, both(t), &runtimetest.Engine{})); err != nil || got != nil {
		t.Errorf("words alone: %v, %v", got, err)
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// sparse returns a large file that takes no room on disk.
func sparse(t *testing.T, name string, size int64) talk.Part {
	t.Helper()
	path := write(t, name, nil)
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	return talk.Part{Type: abi.Image, Path: path}
}

// Judging reads no bytes; a file named twice is read once; the bytes of all inputs are bounded.
func TestReadBounded(t *testing.T) {
	s := senses(t, both(t), &runtimetest.Engine{})
	large := []talk.Part{sparse(t, "a.png", 200<<20), sparse(t, "b.png", 200<<20), sparse(t, "c.png", 200<<20)}
	var in []Medium
	var err error
	if n := allocated(func() { in, err = s.Judge(prompt(large...)) }); err != nil || len(in) != 3 || in[2].Places != 4 || n > 1<<20 {
		t.Errorf("judging %d inputs took %d bytes, %v", len(in), n, err)
	}
	if n := allocated(func() { err = s.Read(t.Context(), in) }); err == nil || !strings.Contains(err.Error(), "3 inputs have 629145600 bytes, limit 536870912") || n > 1<<20 {
		t.Errorf("too much together took %d bytes, %v", n, err)
	}
	one := sparse(t, "a.png", 8<<20)
	many := slices.Repeat([]talk.Part{one}, 80)
	if n := allocated(func() { in, err = read(t, s, many...) }); err != nil || len(in) != 80 || &in[79].data[0] != &in[0].data[0] || n > 64<<20 {
		t.Errorf("one file, many times: %d bytes, %v", n, err)
	}
	moving := talk.Part{Type: abi.Video, Path: write(t, "a.gif", clip(t, 1, 2))}
	if in, err = read(t, s, moving, talk.Part{Type: abi.Image, Path: moving.Path}, moving); err != nil || in[0].source != in[2].source || in[0].source == in[1].source {
		t.Errorf("a film and its first frame: %v", err)
	}
	// Frames count at their own size, together with the other inputs.
	s.Build.Manifests["image-enc"].Preprocess = modules.Preprocess{"picture": preprocess.Spec{Layout: "NHWC", DType: "uint8", Picture: preprocess.Picture{Frames: 1}}}
	wide := talk.Part{Type: abi.Video, Path: write(t, "a.y4m", append([]byte("YUV4MPEG2 W8192 H4096 Cmono\nFRAME\n"), make([]byte, 8192*4096)...))}
	if _, err = read(t, s, wide, large[0], large[1], sparse(t, "d.png", 40<<20)); err == nil || !strings.Contains(err.Error(), "1 frames of 8192 × 4096 exceed the 75497472 bytes left") {
		t.Errorf("no room for a frame: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err = s.Read(gone, in); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone: %v", err)
	}
}

func most(m abi.Modality) int {
	n, _ := abi.DefaultCaps(m)
	return n
}

// An input that cannot be encoded is refused because the build has no encoder or the target no
// file of it.
func TestMissing(t *testing.T) {
	unshipped := func(part string) func(*builds.Assembly) {
		return func(a *builds.Assembly) {
			if part == "enc" {
				a.Modalities[0].Encoder.Files = nil
			} else {
				a.Modalities[0].Projector.Files = nil
			}
		}
	}
	for name, c := range map[string]struct {
		in     talk.Part
		change func(*builds.Assembly)
		want   string
	}{
		"a picture":               {talk.Part{Type: abi.Image}, nil, ""},
		"a video, through its":    {talk.Part{Type: abi.Video}, nil, ""},
		"no ears":                 {talk.Part{Type: abi.Audio, Path: "x/a.wav"}, nil, "audio input a.wav is not available: b has no encoder for audio"},
		"an encoder of no file":   {talk.Part{Type: abi.Image}, unshipped("enc"), "target laptop ships no file of image-enc@1.0.0"},
		"a projector of no file":  {talk.Part{Type: abi.Image}, unshipped("proj"), "target laptop ships no file of image-proj@1.0.0"},
		"a video through no file": {talk.Part{Type: abi.Video}, unshipped("proj"), "target laptop ships no file of image-proj@1.0.0"},
		"nothing for any of them": {talk.Part{Type: abi.Video}, func(a *builds.Assembly) { a.Modalities = nil }, "b has no encoder for video"},
	} {
		a := runtimetest.Build(t, true, "image-enc", "image-proj").Assembly
		if c.change != nil {
			c.change(a)
		}
		err := Missing(a, c.in)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// encoded judges, reads and encodes inputs.
func encoded(t *testing.T, s *Senses, parts ...talk.Part) []*Encoded {
	t.Helper()
	in, err := read(t, s, parts...)
	if err != nil {
		t.Fatal(err)
	}
	c := s.Encode(t.Context(), in)
	defer c.End()
	for _, e := range c.Inputs {
		if err := e.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !e.Ready() {
			t.Error("what was waited for is not ready")
		}
	}
	return c.Inputs
}

// Images, sounds and videos become vectors: a video the mean or the concatenation of its frames,
// a long sound its windows, pooled to the available positions.
func TestVectors(t *testing.T) {
	wave := func(v ...float32) talk.Part {
		return talk.Part{Type: abi.Audio, Data: preprocess.EncodeWAV(&preprocess.Wave{Rate: 1000, Samples: v})}
	}
	halves := func(b *builds.Build) { b.Manifests["image-proj"].Params["temporal"] = modules.TemporalHalves }
	concat := func(b *builds.Build) { b.Manifests["image-proj"].Params["temporal"] = modules.TemporalConcat }
	window := func(cap int) func(*builds.Build) {
		return func(b *builds.Build) {
			b.Manifests["audio-enc"].Caps["window_ms"] = 2.0
			b.Assembly.Modalities[1].TCap = cap
		}
	}
	for name, c := range map[string]struct {
		in     talk.Part
		change func(*builds.Build)
		want   []float32
		runs   int64  // of functions
		note   string // of the last step
	}{
		"a picture":                   {talk.Part{Type: abi.Image, Data: paint(t, 1, 2, 3)}, nil, []float32{2, 4, 6}, 2, ""},
		"a video":                     {talk.Part{Type: abi.Video, Data: clip(t, 10, 30)}, nil, []float32{40, 0, 0}, 4, "8 of video, mean"},
		"a video, all of it":          {talk.Part{Type: abi.Video, Data: clip(t, 10, 30)}, concat, []float32{20, 0, 0, 20, 0, 0, 20, 0, 0, 20, 0, 0, 60, 0, 0, 60, 0, 0, 60, 0, 0, 60, 0, 0}, 4, "8 of video, one behind the other"},
		"a video in halves":           {talk.Part{Type: abi.Video, Data: clip(t, 10, 30)}, halves, []float32{20, 0, 0, 60, 0, 0}, 4, "8 of video, the means of either half"},
		"a video of one":              {talk.Part{Type: abi.Video, Data: clip(t, 5)}, nil, []float32{10, 0, 0}, 2, "8 of video, mean"},
		"a short sound":               {wave(0.25, 0.5), nil, []float32{0.5, 1, 4}, 2, ""},
		"a sound of windows":          {wave(0.25, 0.5, -0.25), window(2), []float32{0.5, 1, 4, -0.5, 0, 4}, 4, "2 of audio, one behind the other"},
		"more windows than room":      {wave(0.25, 0.5, -0.25), window(1), []float32{0, 0.5, 4}, 4, "2 of audio, one behind the other"},
		"a sound of one window":       {wave(0.5), window(2), []float32{1, 0, 4}, 2, ""},
		"a picture is in no windows":  {talk.Part{Type: abi.Image, Data: paint(t, 1, 2, 3)}, window(2), []float32{2, 4, 6}, 2, ""},
		"a sound as it is, no window": {wave(0.25, 0.5, -0.25), nil, []float32{0.5, -0.5, 6}, 2, ""},
	} {
		b, e := both(t), &runtimetest.Engine{}
		b.Manifests["audio-enc"].Preprocess = modules.Preprocess{"pcm": preprocess.Spec{Sound: preprocess.Sound{SampleRate: 1000}}}
		if c.change != nil {
			c.change(b)
		}
		got := encoded(t, senses(t, b, e), c.in)[0]
		if !slices.Equal(got.Numbers, c.want) || got.Width != runtimetest.Width || e.Runs.Load() != c.runs {
			t.Errorf("%s: %v of %d, want %v; %d runs", name, got.Numbers, got.Width, c.want, e.Runs.Load())
		}
		if last := got.Steps[len(got.Steps)-1]; last.Note != c.note || len(got.Steps) != map[bool]int{true: 2, false: 3}[c.note == ""] {
			t.Errorf("%s: steps %+v", name, got.Steps)
		}
	}
}

// The same content is computed once in an answer, cached for the next one, and found on disk by
// another process of the same program.
func TestRecalled(t *testing.T) {
	b, e := both(t), &runtimetest.Engine{}
	dir := filepath.Join(t.TempDir(), "features")
	folder := func() *VectorCache {
		f, err := OpenVectorCache(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	s := senses(t, b, e)
	revision := func(text string) func() (string, error) { return func() (string, error) { return text, nil } }
	s.Features, s.Revision = folder(), revision("1")
	red, path := paint(t, 9, 0, 0), write(t, "a.png", paint(t, 9, 0, 0))
	got := encoded(t, s, talk.Part{Type: abi.Image, Data: red}, talk.Part{Type: abi.Image, Data: paint(t, 0, 9, 0)}, talk.Part{Type: abi.Image, Path: path})
	if got[0] != got[2] || got[0] == got[1] || got[0].ID == got[1].ID || e.Runs.Load() != 4 {
		t.Errorf("%d runs for two pictures, one of them twice", e.Runs.Load())
	}
	again := encoded(t, s, talk.Part{Type: abi.Image, Path: path})[0]
	if again.ID != got[0].ID || e.Runs.Load() != 4 || again.Steps[0].Cached != "memory" || again.Steps[0].Note != "a.png" {
		t.Errorf("a second time: %+v, %d runs", again.Steps, e.Runs.Load())
	}
	for name, c := range map[string]struct {
		revision string
		cap      int
		runs     int64
	}{"the same program": {"1", 4, 0}, "another program": {"2", 4, 2}, "another cap": {"1", 5, 2}} {
		b.Assembly.Modalities[0].TCap = c.cap
		e.Runs.Store(0)
		other := senses(t, b, e)
		other.Features, other.Revision = folder(), revision(c.revision)
		x := encoded(t, other, talk.Part{Type: abi.Image, Data: red})[0]
		if !slices.Equal(x.Numbers, got[0].Numbers) || e.Runs.Load() != c.runs || (x.Steps[0].Cached == "disk") != (c.runs == 0) {
			t.Errorf("%s: %v, %+v, %d runs", name, x.Numbers, x.Steps, e.Runs.Load())
		}
	}
	unknown := senses(t, b, e)
	unknown.Revision = func() (string, error) { return "", errors.New("no program") }
	encoded(t, unknown, talk.Part{Type: abi.Image, Data: red}) // nothing is stored, and Revision is not called
	unknown.Features = folder()
	in, err := read(t, unknown, talk.Part{Type: abi.Image, Data: paint(t, 0, 0, 9)})
	if err != nil {
		t.Fatal(err)
	}
	c := unknown.Encode(t.Context(), in)
	defer c.End()
	if err := c.Inputs[0].Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "no program") {
		t.Errorf("of a program that cannot be told from others: %v", err)
	}
	asFilm := encoded(t, s, talk.Part{Type: abi.Video, Data: clip(t, 9)})[0]
	if asFilm.ID == got[0].ID || asFilm.Steps[0].Note != "8 frames" {
		t.Errorf("a film of a picture is that picture: %+v", asFilm.Steps)
	}
}

// The end of a wait, or of an answer, cancels the computation; an error is reported to all
// waiters and not cached.
func TestEnded(t *testing.T) {
	gate := make(chan struct{})
	e := &runtimetest.Engine{Gate: gate}
	s := senses(t, both(t), e)
	in, err := read(t, s, talk.Part{Type: abi.Image, Data: paint(t, 1, 2, 3)}, talk.Part{Type: abi.Image, Data: []byte("no picture")})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Encode(t.Context(), in[1:])
	if err := c.Inputs[0].Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "encoding the image input") || c.Inputs[0].Ready() {
		t.Errorf("no picture: %v", err)
	}
	c.End()
	c = s.Encode(t.Context(), in[:1])
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Inputs[0].Wait(gone); !errors.Is(err, context.Canceled) || c.Inputs[0].Ready() {
		t.Errorf("who has gone: %v", err)
	}
	c.End()
	if err := c.Inputs[0].Wait(t.Context()); !errors.Is(err, context.Canceled) || e.Runs.Load() != 0 {
		t.Errorf("what ended: %v, %d runs", err, e.Runs.Load())
	}
	close(gate)
	c = s.Encode(t.Context(), in[:1])
	defer c.End()
	if err := c.Inputs[0].Wait(t.Context()); err != nil || !slices.Equal(c.Inputs[0].Numbers, []float32{2, 4, 6}) {
		t.Errorf("afterwards: %v, %v", c.Inputs[0].Numbers, err)
	}
	if names := fmt.Sprint(c.Inputs[0].Parts()); names != "[image-enc image-proj]" {
		t.Errorf("went through %s", names)
	}
	var none Encoding
	none.End()
}
