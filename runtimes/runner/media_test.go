package runner_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// flat returns an image of one color with the size of the test videos' frames.
func flat(c color.RGBA) *image.Paletted {
	return image.NewPaletted(image.Rect(0, 0, 32, 32), color.Palette{c, color.Black})
}

// clip returns a GIF of frames, each shown for a tenth of a second.
func clip(t testing.TB, colours ...color.RGBA) []byte {
	t.Helper()
	var g gif.GIF
	for _, c := range colours {
		g.Image, g.Delay = append(g.Image, flat(c)), append(g.Delay, 10)
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &g); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// alone returns the vectors of an input from encoder and projector.
func alone(t testing.TB, r *runner.Runner, g part.Argument) []float32 {
	t.Helper()
	got, err := r.Compute(t.Context(), []part.Argument{g})
	if err != nil {
		t.Fatal(err)
	}
	x, err := part.Floats(got[1].Outputs["llm_tokens"])
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// near reports whether numbers are equal except for rounding.
func near(a, b []float32) bool {
	for i := range min(len(a), len(b)) {
		if math.Abs(float64(a[i]-b[i])) > 1e-6 {
			return false
		}
	}
	return len(a) == len(b)
}

var reddish, bluish = color.RGBA{200, 10, 20, 255}, color.RGBA{10, 20, 200, 255}

// A video is encoded by the encoder for images frame by frame, and its vectors are the mean or the
// concatenation, as the projector's manifest declares; its markers are those of videos.
func TestVideo(t *testing.T) {
	show := func(data []byte) runner.Request {
		req := ask("see this film", 2)
		req.Inputs = append(req.Inputs, talk.Part{Type: abi.Video, Data: data})
		return req
	}
	b := seeing(t)
	r, e, f := look(t, b, runner.Options{})
	two := clip(t, reddish, bluish, bluish, bluish)
	var frames [][]float32
	for _, c := range []color.RGBA{reddish, bluish} {
		frames = append(frames, alone(t, r, part.Argument{Modality: abi.Image, Input: modality.Input{Data: clip(t, c)}}))
	}
	f.runs.Store(0)
	a := answer(t, r, show(two))
	// Of four frames eight are taken, two of each; a frame that comes twice runs once.
	want, err := part.Mean([][]float32{frames[0], frames[1], frames[1], frames[1]})
	if err != nil || !near(e.seen.Load().([]float32), want) || f.runs.Load() != 8 {
		t.Errorf("the film is not the mean of its frames; %d runs, %v", f.runs.Load(), err)
	}
	if i := slices.IndexFunc(a.Trace, func(s part.Step) bool { return s.What == part.StepPool }); i < 0 || a.Trace[i].Note != "8 of video, mean" {
		t.Errorf("trace %+v", a.Trace)
	}
	picture := ask("see this film", 2)
	picture.Inputs = append(picture.Inputs, talk.Part{Type: abi.Image, Data: clip(t, reddish)})
	if p := answer(t, r, picture); p.Timings.Prompt != a.Timings.Prompt {
		t.Errorf("a film takes %d positions, a picture %d", a.Timings.Prompt, p.Timings.Prompt)
	}
	f.runs.Store(0)
	if again := answer(t, r, show(two)); f.runs.Load() != 0 || !slices.Equal(again.Tokens, a.Tokens) {
		t.Errorf("%d runs for a film that is known", f.runs.Load())
	}

	// One behind the other: 8 frames of 3 vectors.
	b.Manifests["image-proj"].Params["temporal"] = modules.TemporalConcat
	b.Assembly.Tokens.MaxSeq = 256
	r, e, _ = look(t, b, runner.Options{})
	long := answer(t, r, show(two))
	want = slices.Concat(frames[0], frames[0], frames[1], frames[1], frames[1], frames[1], frames[1], frames[1])
	if long.Timings.Prompt != a.Timings.Prompt+21 || !near(e.seen.Load().([]float32), want) {
		t.Errorf("%d positions, %d numbers", long.Timings.Prompt, len(e.seen.Load().([]float32)))
	}
	b.Assembly.Tokens.MaxSeq = 40
	r, e, _ = look(t, b, runner.Options{})
	if _, err := r.Answer(t.Context(), show(two), nil); err == nil || !strings.Contains(err.Error(), "24 positions of 1 inputs") || e.opens.Load() != 0 {
		t.Errorf("no room: %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.png")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 200<<20); err != nil {
		t.Fatal(err)
	}
	req := show(two)
	req.Inputs = append(req.Inputs, talk.Part{Type: abi.Image, Path: large})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = r.Answer(t.Context(), req, nil)
	if runtime.ReadMemStats(&after); err == nil || !strings.Contains(err.Error(), "27 positions of 2 inputs") || after.TotalAlloc-before.TotalAlloc > 100<<20 {
		t.Errorf("no room for a large one: %v, %d bytes", err, after.TotalAlloc-before.TotalAlloc)
	}
	b.Assembly.Tokens.MaxSeq = 256

	// A folder of frames, and a file that is not a video.
	dir := t.TempDir()
	for i, c := range []color.RGBA{reddish, bluish, bluish, bluish} {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".gif"), clip(t, c), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, e, _ = look(t, b, runner.Options{})
	req = ask("see this film", 1)
	req.Inputs = append(req.Inputs, talk.Part{Type: abi.Video, Path: dir})
	if _, err := r.Answer(t.Context(), req, nil); err != nil || !near(e.seen.Load().([]float32), want) {
		t.Errorf("a folder of frames: %v", err)
	}
	for name, p := range map[string]talk.Part{
		"an empty folder": {Type: abi.Video, Path: t.TempDir()}, "gone": {Type: abi.Video, Path: filepath.Join(dir, "x.gif")},
		"a picture": {Type: abi.Video, Data: red(t)}, "nothing": {Type: abi.Video}, "words": {Type: abi.Video, Data: []byte("YUV4MPEG2 W0 H0\n")},
	} {
		fresh, e, f := look(t, b, runner.Options{})
		if _, err := fresh.Answer(t.Context(), runner.Request{Inputs: []talk.Part{p}}, nil); err == nil || !strings.Contains(err.Error(), "video input") {
			t.Errorf("%s: %v", name, err)
		}
		if e.opens.Load()+f.opens.Load() != 0 {
			t.Errorf("%s: something was loaded", name)
		}
	}
}

// An encoder for videos takes as many frames at once as its manifest declares.
func TestVideoAtOnce(t *testing.T) {
	b := seeing(t)
	dir := string(b.Files.(folder))
	load := func(o seed.Options) builds.Part {
		o.Version, o.Modality = "1.0.0", abi.Video
		if err := seed.Write(filepath.Join(dir, o.Name), o); err != nil {
			t.Fatal(err)
		}
		m, list := modules.Load(filepath.Join(dir, o.Name))
		if err := list.Err(); err != nil {
			t.Fatal(err)
		}
		b.Manifests[o.Name] = m
		return builds.Part{Name: o.Name, Version: "1.0.0", Type: o.Type, Modality: abi.Video, Manifest: o.Name + "/module.yaml", Files: builds.Formats{"onnx": {o.Name + "/" + m.Entry(abi.ONNX)}}}
	}
	b.Assembly.Modalities = append(b.Assembly.Modalities, builds.ModalityPart{
		Modality: abi.Video, TCap: 5,
		Encoder:   load(seed.Options{Type: abi.Encoder, Name: "film-enc", Seed: 5, DEnc: 8}),
		Projector: load(seed.Options{Type: abi.Projector, Name: "film-proj", Seed: 7, DEnc: 8, DModel: 64, TCap: 5}),
	})
	b.Manifests["film-enc"].Preprocess = modules.Preprocess{"video": preprocess.Spec{Layout: "NHWC", DType: "uint8", Picture: preprocess.Picture{Frames: 3}}}
	r, e, f := look(t, b, runner.Options{})
	req := ask("see this film", 1)
	req.Inputs = append(req.Inputs, talk.Part{Type: abi.Video, Data: clip(t, reddish, bluish)})
	a := answer(t, r, req)
	if n := len(e.seen.Load().([]float32)); n != 5*64 || f.runs.Load() != 2 {
		t.Errorf("%d numbers, %d runs", n, f.runs.Load())
	}
	if in := a.Trace[0].In; len(in) != 1 || !slices.Equal(in[0].Shape, []int64{3, 32, 32, 3}) {
		t.Errorf("the encoder was given %v", in)
	}
}

// A sound longer than an encoder's window is encoded piece by piece, and the vectors are pooled to
// the available positions.
func TestLongSound(t *testing.T) {
	b := seeing(t)
	b.Manifests["audio-enc"].Caps["window_ms"] = 100.0
	r, e, f := look(t, b, runner.Options{})
	w := &preprocess.Wave{Rate: 16000}
	for i := range 16000 / 4 {
		w.Samples = append(w.Samples, float32(math.Sin(float64(i)*float64(i)/9e4))/2)
	}
	var all []float32
	for i := range 3 {
		piece := make([]float32, 1600)
		copy(piece, w.Samples[i*1600:min((i+1)*1600, len(w.Samples))])
		all = append(all, alone(t, r, part.Argument{Modality: abi.Audio, Input: modality.Input{Data: preprocess.EncodeWAV(&preprocess.Wave{Rate: 16000, Samples: piece})}})...)
	}
	f.runs.Store(0)
	req := ask("hear this", 1)
	req.Inputs = append(req.Inputs, talk.Part{Type: abi.Audio, Data: preprocess.EncodeWAV(w)})
	answer(t, r, req)
	if want := part.Pool(all, 64, 3); !near(e.seen.Load().([]float32), want) || f.runs.Load() != 6 {
		t.Errorf("%d numbers, %d runs", len(e.seen.Load().([]float32)), f.runs.Load())
	}
}

// Inputs keep the order of the request among its words, and are equal whether computed, cached in
// memory or on disk; damaged entries are computed again.
func TestInputsInOrder(t *testing.T) {
	sound := preprocess.EncodeWAV(&preprocess.Wave{Rate: 16000, Samples: make([]float32, 4000)})
	req := runner.Request{Preferences: runner.Preferences{MaxTokens: 4}, Inputs: []talk.Part{
		{Type: abi.Image, Data: red(t)}, {Type: abi.Text, Text: "and"}, {Type: abi.Audio, Data: sound}, {Type: abi.Image, Data: blue(t)}, {Type: abi.Text, Text: "what"},
	}}
	b := seeing(t)
	dir := filepath.Join(t.TempDir(), "features")
	open := func() (*runner.Runner, *functions) {
		folder, err := media.OpenVectorCache(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { folder.Close() })
		r, _, f := look(t, b, runner.Options{Features: folder})
		return r, f
	}
	r, f := open()
	first := answer(t, r, req)
	if f.runs.Load() != 6 {
		t.Errorf("%d runs for three inputs", f.runs.Load())
	}
	r, f = open()
	second := answer(t, r, req)
	if !slices.Equal(first.Tokens, second.Tokens) || f.runs.Load() != 0 || f.opens.Load() != 0 {
		t.Errorf("from disk %v, computed %v; %d runs", second.Tokens, first.Tokens, f.runs.Load())
	}
	if !reflect.DeepEqual(first.Backends, second.Backends) || !slices.Equal(first.Assumed, second.Assumed) || first.Timings.Prompt != second.Timings.Prompt {
		t.Errorf("from disk %+v, computed %+v", second, first)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, e := range entries {
		path := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data = [][]byte{data[:len(data)/2], nil, append(data, 0)}[i]
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, f = open()
	if third := answer(t, r, req); !slices.Equal(first.Tokens, third.Tokens) || f.runs.Load() != 6 {
		t.Errorf("over damaged entries %v, %d runs", third.Tokens, f.runs.Load())
	}
	// Another module, another engine, another program: nothing of it is taken.
	b.Manifests["image-enc"].Preprocess = modules.Preprocess{"image": preprocess.Spec{Layout: "NHWC", DType: "uint8", Picture: preprocess.Picture{Resize: []int{32, 32}}}}
	r, f = open()
	if answer(t, r, req); f.runs.Load() != 4 {
		t.Errorf("two pictures, prepared otherwise: %d runs", f.runs.Load())
	}
	turned := req
	turned.Inputs = slices.Clone(req.Inputs)
	turned.Inputs[0], turned.Inputs[3] = turned.Inputs[3], turned.Inputs[0]
	r, f = open()
	if got := answer(t, r, turned); got.Timings.Prompt != first.Timings.Prompt || f.runs.Load() != 0 {
		t.Errorf("turned round: %d positions, %d runs", got.Timings.Prompt, f.runs.Load())
	}
}

// Golden prompts may have files of the build's modules.
func TestGoldenShows(t *testing.T) {
	b := seeing(t)
	if err := os.WriteFile(filepath.Join(string(b.Files.(folder)), "image-enc", "a.png"), red(t), 0o600); err != nil {
		t.Fatal(err)
	}
	r, _, f := look(t, b, runner.Options{})
	req := ask("what is it", 6)
	req.Inputs = slices.Insert(req.Inputs, 0, talk.Part{Type: abi.Image, Data: red(t)})
	want := answer(t, r, req).Text
	b.Assembly.Golden = []modules.Golden{
		{Prompt: "what is it", Image: "image-enc/a.png", Expect: want, MaxTokens: 6},
		{Prompt: "what is it", Image: "image-enc/a.png", Expect: "\x00", MaxTokens: 1},
	}
	missed, n, err := r.Smoke(t.Context())
	if err != nil || n != 2 || len(missed) != 1 || missed[0].Want != "\x00" || f.runs.Load() != 2 {
		t.Errorf("%d run, missed %+v, %v; %d runs", n, missed, err, f.runs.Load())
	}
	b.Assembly.Golden[0].Image = "image-enc/gone.png"
	if _, _, err := r.Smoke(t.Context()); err == nil || !strings.Contains(err.Error(), "gone.png") {
		t.Errorf("a file that is not there: %v", err)
	}
	b.Assembly.Golden[0] = modules.Golden{Prompt: "x", Video: "image-enc/a.png", Expect: "x"}
	if _, _, err := r.Smoke(t.Context()); err == nil || !strings.Contains(err.Error(), "video input") {
		t.Errorf("a picture as a film: %v", err)
	}
}

// meeting is an engine whose functions wait until a number of them run at once, and whose core is
// opened only then.
type meeting struct {
	*functions
	inside chan struct{}
	all    chan struct{}
}

func (e *meeting) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	m, err := e.functions.Open(ctx, b, l)
	if err != nil {
		return nil, err
	}
	return &meetingFunction{m.(runtimes.Function), e, b.Part.Type == abi.Encoder}, nil
}

type meetingFunction struct {
	runtimes.Function
	e       *meeting
	encoder bool
}

func (m *meetingFunction) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if m.encoder {
		select {
		case m.e.inside <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		select {
		case <-m.e.all:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return m.Function.Run(ctx, in)
}

// Two encoders run concurrently with each other, with the loading of the core and with its reading
// of the prompt's start; the answer is the same as without concurrency.
func TestBesideEachOther(t *testing.T) {
	if pool.Default() < 2 {
		t.Skip("skipped: one core")
	}
	b := seeing(t)
	sound := preprocess.EncodeWAV(&preprocess.Wave{Rate: 16000, Samples: make([]float32, 4000)})
	req := ask("see and hear", 4)
	req.Inputs = append(req.Inputs, talk.Part{Type: abi.Image, Data: red(t)}, talk.Part{Type: abi.Audio, Data: sound})
	plain, _, _ := look(t, b, runner.Options{})
	want := answer(t, plain, req)

	core := &counting{}
	e := &meeting{functions: &functions{name: "onnx"}, inside: make(chan struct{}), all: make(chan struct{})}
	r, err := runner.Open(t.Context(), b, runner.Options{Engines: []runtimes.Engine{core, e}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan *runner.Answer, 1)
	go func() {
		a, err := r.Answer(ctx, req, nil)
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	for range 2 { // both are within, and neither goes on
		select {
		case <-e.inside:
		case <-ctx.Done():
			t.Fatalf("one encoder waits for the other: %+v", <-done)
		}
	}
	for core.fed.Load() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	before := core.fed.Load() // BOS, the words and the first marker
	close(e.all)
	a := <-done
	if a == nil || !slices.Equal(a.Tokens, want.Tokens) || a.Timings.Prompt != want.Timings.Prompt || before == 0 || before >= int64(want.Timings.Prompt) {
		t.Errorf("%+v, want %v; %d positions were read before", a, want.Tokens, before)
	}

	// One that fails ends the other, and a caller that goes both.
	for name, part := range map[string]talk.Part{"no picture": {Type: abi.Image, Data: []byte("none")}, "gone": {}} {
		e.all = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		bad := ask("see and hear", 4)
		bad.Inputs = append(bad.Inputs, talk.Part{Type: abi.Image, Data: blue(t)}, talk.Part{Type: abi.Image, Data: picture(t, color.NRGBA{G: 7})})
		if name == "no picture" {
			bad.Inputs = append(bad.Inputs[:1:1], part, bad.Inputs[1])
		}
		within := sync.WaitGroup{} // an encoder may be canceled before it gets there
		within.Go(func() {
			for range 2 {
				select {
				case <-e.inside:
				case <-ctx.Done():
					return
				}
			}
			if name == "gone" {
				cancel()
			}
		})
		if _, err := r.Answer(ctx, bad, nil); err == nil || name == "gone" && !errors.Is(err, context.Canceled) || name != "gone" && !strings.Contains(err.Error(), "unrecognized format") {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		within.Wait()
	}
}

// waiting is an engine whose parts wait for a gate.
type waiting struct {
	*functions
	gates map[string]chan struct{} // by the name of the part
}

func (e *waiting) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	m, err := e.functions.Open(ctx, b, l)
	if err != nil || e.gates[b.Part.Name] == nil {
		return m, err
	}
	return &waits{m.(runtimes.Function), e.gates[b.Part.Name]}, nil
}

type waits struct {
	runtimes.Function
	gate chan struct{}
}

func (m *waits) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	select {
	case <-m.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return m.Function.Run(ctx, in)
}

// While a second input is encoded the core reads the first one and the words after it. The answer
// is the same, and one sequence holds all.
func TestReadsOn(t *testing.T) {
	if pool.Default() < 2 {
		t.Skip("skipped: one core")
	}
	b := seeing(t)
	sound := preprocess.EncodeWAV(&preprocess.Wave{Rate: 16000, Samples: make([]float32, 4000)})
	req := see(4, red(t))
	req.Inputs, req.Outputs = append(req.Inputs, talk.Part{Type: abi.Audio, Data: sound}), []string{"text", "image"}
	want := answer(t, draw(t, b, runner.Options{}), req)
	core, e := &counting{shows: true}, &waiting{functions: &functions{name: "onnx"}, gates: map[string]chan struct{}{"image-enc": make(chan struct{}), "audio-enc": make(chan struct{})}}
	r, err := runner.Open(t.Context(), b, runner.Options{Engines: []runtimes.Engine{core, e}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	done := make(chan *runner.Answer, 1)
	go func() {
		a, err := r.Answer(t.Context(), req, nil)
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	for _, c := range []struct {
		part   string
		before int // positions that are read before it
	}{{"image-enc", 1 + 16 + 1}, {"audio-enc", want.Timings.Prompt - 3 - 1}} { // all but the sound and the marker after it
		for end := time.Now().Add(time.Minute); core.fed.Load() < int64(c.before) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if n := core.fed.Load(); n != int64(c.before) {
			t.Errorf("%d positions were read before %s, want %d", n, c.part, c.before)
		}
		close(e.gates[c.part])
	}
	a := <-done
	if a == nil || !slices.Equal(a.Tokens, want.Tokens) || !bytes.Equal(a.Made[0].Tensor.Data, want.Made[0].Tensor.Data) || a.Timings.Prompt != want.Timings.Prompt {
		t.Errorf("%+v, want %+v", a, want)
	}
	if again := answer(t, r, req); again.Timings.Reused != again.Timings.Prompt-1 || !slices.Equal(again.Tokens, want.Tokens) {
		t.Errorf("again: %+v", again)
	}
}

// The budget starts with the reading of the inputs, and the trace has what was done until its end.
func TestBudgetOfInputs(t *testing.T) {
	r, e, f := look(t, seeing(t), runner.Options{})
	var large gif.GIF
	for range 8 {
		large.Image = append(large.Image, image.NewPaletted(image.Rect(0, 0, 1024, 1024), color.Palette{reddish, bluish}))
		large.Delay = append(large.Delay, 10)
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &large); err != nil {
		t.Fatal(err)
	}
	req := ask("see this film", 1)
	req.Inputs, req.Preferences.BudgetMS = append(req.Inputs, talk.Part{Type: abi.Video, Data: b.Bytes()}), 1
	if a, err := r.Answer(t.Context(), req, nil); err != nil || a.Stop != runner.StopBudget || e.opens.Load()+f.opens.Load() != 0 {
		t.Errorf("over while a film is read: %+v, %v", a, err)
	}
	f.gate = make(chan struct{})
	find := func(a *runner.Answer, what string) part.Step {
		i := slices.IndexFunc(a.Trace, func(s part.Step) bool { return s.What == what })
		if i < 0 {
			return part.Step{}
		}
		return a.Trace[i]
	}
	a := within(t, func() *runner.Runner { return r }, see(1, red(t)), func(a *runner.Answer) bool {
		return find(a, part.StepPrompt).What != "" && find(a, part.StepEncode).What != ""
	})
	prompt, encode := find(a, part.StepPrompt), find(a, part.StepEncode)
	if a.Stop != runner.StopBudget || encode.Part != "image-enc" || !strings.HasSuffix(encode.Note, " bytes, incomplete") || prompt.Note != "18 positions, incomplete" {
		t.Errorf("over while a picture is encoded: %+v", a)
	}
	var svg strings.Builder
	if err := part.DrawSteps(&svg, "cut", a.Trace); err != nil || strings.Contains(svg.String(), ">on <") || len(a.Backends) != 1 {
		t.Errorf("%s: %v", svg.String(), err)
	}
}
