package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// functions is the onnx engine with counters and another name.
type functions struct {
	engines.ONNX
	name                string
	opens, runs, closes atomic.Int64
	gate                chan struct{} // a Run waits for it; nil: none does
}

func (e *functions) Name() string { return e.name }

func (e *functions) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	e.opens.Add(1)
	m, err := e.ONNX.Open(ctx, b, l)
	if err != nil {
		return nil, err
	}
	return &function{m.(runtimes.Function), e}, nil
}

type function struct {
	runtimes.Function
	e *functions
}

func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	f.e.runs.Add(1)
	if f.e.gate != nil {
		select {
		case <-f.e.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return f.Function.Run(ctx, in)
}

func (f *function) Close() error {
	f.e.closes.Add(1)
	return f.Function.Close()
}

// seeing returns a build with an encoder and a projector for images and for sounds, from seeds.
func seeing(t testing.TB) *builds.Build {
	t.Helper()
	dir := t.TempDir()
	b := &builds.Build{
		Assembly:  &builds.Assembly{Name: "b", Target: "laptop", Tokens: abi.TokenContract{MaxSeq: 256}},
		Manifests: map[string]*modules.Manifest{}, Files: folder(dir),
	}
	make := func(o seed.Options) builds.Part {
		o.Version = "1.0.0"
		if err := seed.Write(filepath.Join(dir, o.Name), o); err != nil {
			t.Fatal(err)
		}
		m, list := modules.Load(filepath.Join(dir, o.Name))
		if err := list.Err(); err != nil {
			t.Fatal(err)
		}
		b.Manifests[o.Name] = m
		p := builds.Part{Name: o.Name, Version: o.Version, Type: o.Type, Modality: o.Modality, Manifest: o.Name + "/" + modules.FileName, Files: builds.Formats{}}
		for format, e := range m.Export {
			p.Files[string(format)] = []string{o.Name + "/" + e.Path}
		}
		return p
	}
	b.Assembly.Core = make(seed.Options{Type: abi.Core, Name: "core", Seed: 3, DModel: 64})
	for _, m := range []abi.Modality{abi.Image, abi.Audio} {
		name := string(m)
		b.Assembly.Modalities = append(b.Assembly.Modalities, builds.ModalityPart{
			Modality: m, TCap: 3,
			Encoder:   make(seed.Options{Type: abi.Encoder, Name: name + "-enc", Modality: m, Seed: 5, DEnc: 8}),
			Projector: make(seed.Options{Type: abi.Projector, Name: name + "-proj", Modality: m, Seed: 7, DEnc: 8, DModel: 64, TCap: 3}),
		})
	}
	b.Assembly.Decoders = []builds.DecoderPart{{Part: make(seed.Options{Type: abi.Decoder, Name: "img-dec", Modality: abi.Image, Seed: 9, DModel: 64})}}
	return b
}

// picture returns a PNG whose color changes from corner to corner.
func picture(t testing.TB, c color.NRGBA) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, 48, 32))
	for y := range 32 {
		for x := range 48 {
			m.Set(x, y, color.NRGBA{c.R + uint8(x), c.G + uint8(3*y), c.B + uint8(x*y), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func red(t testing.TB) []byte  { return picture(t, color.NRGBA{R: 200}) }
func blue(t testing.TB) []byte { return picture(t, color.NRGBA{B: 200}) }

// see returns a request about images.
func see(n int, pictures ...[]byte) runner.Request {
	req := ask("see this picture", n)
	for _, p := range pictures {
		req.Inputs = append(req.Inputs, talk.Part{Type: abi.Image, Data: p})
	}
	req.Inputs = append(req.Inputs, talk.Part{Type: abi.Text, Text: "it"})
	return req
}

// look opens a build on the core engine and the counting onnx engine.
func look(t testing.TB, b *builds.Build, opt runner.Options) (*runner.Runner, *counting, *functions) {
	t.Helper()
	e, f := &counting{}, &functions{name: "onnx"}
	opt.Engines = []runtimes.Engine{e, f}
	r, err := runner.Open(t.Context(), b, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, e, f
}

// An image becomes vectors between its markers: other images, other vectors; the same image is
// encoded once for all callers, and read once by a conversation that continues.
func TestPicture(t *testing.T) {
	r, e, f := look(t, seeing(t), runner.Options{})
	first := answer(t, r, see(4, red(t)))
	if first.Timings.Prompt != 1+16+1+3+1+2 { // BOS, the words, <image>, vectors, </image>, it
		t.Errorf("%d positions", first.Timings.Prompt)
	}
	want := []runner.Backend{{Part: "core", Engine: "core"}, {Part: "image-enc", Engine: "onnx"}, {Part: "image-proj", Engine: "onnx"}}
	if !reflect.DeepEqual(first.Backends, want) {
		t.Errorf("ran on %v, want %v", first.Backends, want)
	}
	if f.opens.Load() != 2 || f.runs.Load() != 2 {
		t.Errorf("%d functions opened, %d runs", f.opens.Load(), f.runs.Load())
	}
	shown := e.seen.Load().([]float32)
	e.fed.Store(0)
	second := answer(t, r, see(4, red(t)))
	if !slices.Equal(first.Tokens, second.Tokens) || second.Timings.Reused != 23 || e.fed.Load() != 1 || f.runs.Load() != 2 || !reflect.DeepEqual(second.Backends, want) {
		t.Errorf("again: %v, then %v; %d reused, %d fed, %d runs", first.Tokens, second.Tokens, second.Timings.Reused, e.fed.Load(), f.runs.Load())
	}
	e.fed.Store(0)
	other := answer(t, r, see(4, blue(t)))
	if slices.Equal(shown, e.seen.Load().([]float32)) || other.Timings.Reused != 18 || f.runs.Load() != 4 || f.opens.Load() != 2 {
		t.Errorf("another picture: %v, then %v; %d reused, %d runs", first.Tokens, other.Tokens, other.Timings.Reused, f.runs.Load())
	}
	if text := answer(t, r, ask("see this picture", 4)); len(text.Backends) != 1 {
		t.Errorf("text alone ran on %v", text.Backends)
	}
	// Two in one request, in their order.
	both := answer(t, r, see(4, red(t), blue(t)))
	last := e.seen.Load().([]float32)
	turned := answer(t, r, see(4, blue(t), red(t)))
	if both.Timings.Prompt != 24+5 || turned.Timings.Reused != 18 || !slices.Equal(e.seen.Load().([]float32), shown) || slices.Equal(last, shown) || f.runs.Load() != 4 {
		t.Errorf("two pictures take %d places; turned round %d are the same; %d runs", both.Timings.Prompt, turned.Timings.Reused, f.runs.Load())
	}
	// Cached vectors do not change an answer.
	fresh, _, _ := look(t, r.Build(), runner.Options{})
	if got := answer(t, fresh, see(4, blue(t))); !slices.Equal(got.Tokens, other.Tokens) {
		t.Errorf("alone %v, beside others %v", got.Tokens, other.Tokens)
	}
}

// A file is read for the answer, and a file that is not an image is refused before the core is
// loaded.
func TestPictureFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.png")
	write := func(data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(red(t))
	b := seeing(t)
	r, e, f := look(t, b, runner.Options{})
	file := func(n int) runner.Request {
		req := see(n)
		req.Inputs = slices.Insert(req.Inputs, 1, talk.Part{Type: abi.Image, Path: path})
		return req
	}
	answer(t, r, file(3))
	before := e.seen.Load().([]float32)
	write(blue(t))
	if answer(t, r, file(3)); slices.Equal(before, e.seen.Load().([]float32)) || f.runs.Load() != 4 {
		t.Errorf("the file changed, and the vectors did not; %d runs", f.runs.Load())
	}
	write([]byte("no picture"))
	if _, err := r.Answer(t.Context(), file(3), nil); err == nil || !strings.Contains(err.Error(), "image input") {
		t.Errorf("no picture: %v", err)
	}
	for name, part := range map[string]talk.Part{
		"gone": {Type: abi.Image, Path: filepath.Join(dir, "gone.png")}, "a folder": {Type: abi.Image, Path: dir},
		"both": {Type: abi.Image, Path: path, Data: red(t)}, "neither": {Type: abi.Image},
	} {
		fresh, e, f := look(t, b, runner.Options{})
		if _, err := fresh.Answer(t.Context(), runner.Request{Inputs: []talk.Part{part}}, nil); err == nil || !strings.Contains(err.Error(), "image input") {
			t.Errorf("%s: %v", name, err)
		}
		if e.opens.Load() != 0 || f.opens.Load() != 0 {
			t.Errorf("%s: %d cores, %d functions were loaded", name, e.opens.Load(), f.opens.Load())
		}
	}
}

// An assembly with an encoder named like a skill, or a projector named like the core, is an error.
func TestMisnamedParts(t *testing.T) {
	for name, change := range map[string]func(*builds.ModalityPart){
		"a skill":        func(m *builds.ModalityPart) { m.Encoder.Type = abi.Skill },
		"the core":       func(m *builds.ModalityPart) { m.Projector.Name = "core" },
		"no cap":         func(m *builds.ModalityPart) { m.TCap = 0 },
		"a negative cap": func(m *builds.ModalityPart) { m.TCap = -1 << 62 },
		"a huge cap":     func(m *builds.ModalityPart) { m.TCap = 1<<63 - 1 },
	} {
		b := seeing(t)
		change(&b.Assembly.Modalities[0])
		r, _, _ := look(t, b, runner.Options{})
		if a, err := r.Answer(t.Context(), see(1, red(t)), nil); err == nil {
			t.Errorf("%s: %+v", name, a)
		}
		if _, err := r.Compute(t.Context(), []part.Argument{{Name: "audio-enc"}}); err == nil {
			t.Errorf("%s: nothing was computed on", name)
		}
	}
}

// Inputs that do not fit the sequence are refused before anything is loaded.
func TestPicturesTooMany(t *testing.T) {
	b := seeing(t)
	for n, fits := range map[int]bool{1: true, 2: false} {
		b.Assembly.Tokens.MaxSeq = 1 + 16 + 5 + 2 + 1 // as many as one takes, and a token
		r, e, f := look(t, b, runner.Options{})
		_, err := r.Answer(t.Context(), see(1, [][]byte{red(t), blue(t)}[:n]...), nil)
		if fits && err != nil || !fits && (!errors.Is(err, runtimes.ErrFull) || !strings.Contains(err.Error(), "6 positions of 2 inputs")) {
			t.Errorf("%d: %v", n, err)
		}
		if !fits && (e.opens.Load() != 0 || f.opens.Load() != 0) {
			t.Errorf("%d cores, %d functions were loaded", e.opens.Load(), f.opens.Load())
		}
	}
}

// Each part runs on the requested engine and no other; options override the graph.
func TestChosen(t *testing.T) {
	b := seeing(t)
	b.Assembly.Modalities[0].Encoder.Backend = "second"
	b.Assembly.Modalities[0].Projector.Backend = "gone"
	open := func(opt runner.Options) (*runner.Runner, *functions, error) {
		second := &functions{name: "second"}
		opt.Engines = []runtimes.Engine{engines.Core{}, &functions{name: "onnx"}, second}
		r, err := runner.Open(t.Context(), b, opt)
		if err == nil {
			t.Cleanup(func() { r.Close() })
		}
		return r, second, err
	}
	r, _, err := open(runner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Answer(t.Context(), ask("text alone", 1), nil); err != nil {
		t.Errorf("text needs no projector: %v", err)
	}
	_, err = r.Answer(t.Context(), see(1, red(t)), nil)
	if !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), "image-proj@1.0.0 is not available: the graph requests backend gone") {
		t.Errorf("the graph's engine is not there: %v", err)
	}
	r, second, err := open(runner.Options{Backends: map[string]string{"image-proj": "onnx"}})
	if err != nil {
		t.Fatal(err)
	}
	a := answer(t, r, see(1, red(t)))
	want := []runner.Backend{{Part: "core", Engine: "core"}, {Part: "image-enc", Engine: "second"}, {Part: "image-proj", Engine: "onnx"}}
	if !reflect.DeepEqual(a.Backends, want) || second.opens.Load() != 1 {
		t.Errorf("ran on %v, want %v", a.Backends, want)
	}
	if got := r.Overrides(); !slices.Equal(got, []part.Override{{Part: "image-proj", Graph: "gone", Used: "onnx"}}) {
		t.Errorf("overrides %v", got)
	}
	for name, c := range map[string]struct {
		opt  runner.Options
		want string
	}{
		"an engine that cannot":   {runner.Options{Engine: "onnx"}, "core@1.0.0 is not available: --backend requests backend onnx"},
		"for a part":              {runner.Options{Backends: map[string]string{"audio-enc": "core"}}, "audio-enc@1.0.0 is not available: --backend requests backend core"},
		"the part before the all": {runner.Options{Engine: "onnx", Backends: map[string]string{"core": "second"}}, "requests backend second"},
	} {
		if _, _, err := open(c.opt); !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	b.Assembly.Draft = &builds.Part{Name: "small", Type: abi.DraftCore}
	for name, want := range map[string]string{"image-en": "unknown part", "small": "small drafts for core"} {
		_, _, err := open(runner.Options{Backends: map[string]string{name: "onnx"}})
		var usage diag.Exited
		var hint interface{ Hint() string }
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || !errors.As(err, &hint) || !strings.Contains(hint.Hint(), "image-enc") || strings.Contains(hint.Hint(), "small") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An engine that cannot open a part is not replaced; the error names another.
func TestNotReplaced(t *testing.T) {
	b := seeing(t)
	path := filepath.Join(string(b.Files.(folder)), b.Assembly.Modalities[0].Encoder.Files.Entry(abi.ONNX))
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Graph.Nodes[0].Op = "Frobnicate"
	var out bytes.Buffer
	if _, err := onnx.Write(&out, m); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Close(), os.WriteFile(path, out.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	second := &functions{name: "second"}
	for asked, want := range map[string]string{"": "--backend image-enc=second selects another", "onnx": ""} {
		r, err := runner.Open(t.Context(), b, runner.Options{
			Engines: []runtimes.Engine{engines.Core{}, engines.ONNX{}, second}, Backends: map[string]string{"image-enc": asked},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		_, err = r.Answer(t.Context(), see(1, red(t)), nil)
		if err == nil || !strings.Contains(err.Error(), "opening image-enc@1.0.0 with backend onnx") || !strings.Contains(err.Error(), "Frobnicate") {
			t.Errorf("%v", err)
		}
		hint := ""
		if h := interface{ Hint() string }(nil); errors.As(err, &h) {
			hint = h.Hint()
		}
		if hint != want || second.opens.Load() != 0 {
			t.Errorf("asked for %q: hint %q, want %q; %d opens", asked, hint, want, second.opens.Load())
		}
	}
}

// Concurrent answers about images: each function is opened once, and each answer equals the one
// without concurrency. Close ends them all.
func TestPicturesAtOnce(t *testing.T) {
	b := seeing(t)
	pictures := [][]byte{red(t), blue(t), picture(t, color.NRGBA{G: 90})}
	var want []string
	for _, p := range pictures {
		r, _, _ := look(t, b, runner.Options{})
		want = append(want, fmt.Sprint(answer(t, r, see(5, p)).Tokens))
	}
	r, e, f := look(t, b, runner.Options{Sequences: 2})
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() {
			a, err := r.Answer(t.Context(), see(5, pictures[i%3]), nil)
			if err != nil || fmt.Sprint(a.Tokens) != want[i%3] {
				t.Errorf("picture %d: %v, want %s", i%3, err, want[i%3])
			}
		})
	}
	wg.Wait()
	if e.opens.Load() != 1 || f.opens.Load() != 2 {
		t.Errorf("%d cores, %d functions were opened", e.opens.Load(), f.opens.Load())
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil || f.closes.Load() != 2 {
		t.Errorf("Close: %v, %d functions were closed", err, f.closes.Load())
	}
	if _, err := r.Answer(t.Context(), see(1, red(t)), nil); !errors.Is(err, runtimes.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := r.Compute(t.Context(), []part.Argument{{Name: "image-enc", Input: modality.Input{Data: red(t)}}}); !errors.Is(err, runtimes.ErrClosed) {
		t.Errorf("Compute after Close: %v", err)
	}
}

// A cancellation reaches the encoder; the next answer is complete.
func TestPictureCancelled(t *testing.T) {
	r, _, f := look(t, seeing(t), runner.Options{})
	f.gate = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := r.Answer(ctx, see(1, red(t)), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	req := see(1, red(t))
	req.Preferences.BudgetMS = 30
	if a, err := r.Answer(t.Context(), req, nil); err != nil || a.Stop != runner.StopBudget {
		t.Errorf("its budget is over: %+v, %v", a, err)
	}
	close(f.gate)
	fresh, _, _ := look(t, r.Build(), runner.Options{})
	if got, want := answer(t, r, see(3, red(t))).Tokens, answer(t, fresh, see(3, red(t))).Tokens; !slices.Equal(got, want) {
		t.Errorf("afterwards %v, want %v", got, want)
	}
}

// If a file does not match its manifest, the error has both ports and both shapes.
func TestPortsAtRunTime(t *testing.T) {
	encoder := func(t *testing.T, b *builds.Build, dtype onnx.DType, dims ...any) {
		// y is a constant of the wrong kind, next to an input that is used.
		m := onnx.New("enc", 17)
		m.Graph.Inputs = []onnx.Value{onnx.TensorValue("image", onnx.UINT8, "N", "H", "W", 3)}
		m.Graph.Outputs = []onnx.Value{onnx.TensorValue("patch_tokens", dtype, dims...)}
		var shape []int64
		for _, d := range dims {
			shape = append(shape, int64(d.(int)))
		}
		m.Graph.Add("Shape", []string{"image"}, "shape")
		m.Graph.Add("ReduceMax", []string{"shape"}, "most", onnx.Int("keepdims", 0))
		m.Graph.Add("Cast", []string{"most"}, "number", onnx.Int("to", int64(dtype)))
		m.Graph.Add("Expand", []string{"number", m.Graph.Constant(onnx.Ints("dims", []int64{int64(len(shape))}, shape))}, "patch_tokens")
		f, err := os.Create(filepath.Join(string(b.Files.(folder)), b.Assembly.Modalities[0].Encoder.Files.Entry(abi.ONNX)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = onnx.Write(f, m)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		dtype onnx.DType
		dims  []any
		set   func(*builds.Build)
		want  string // "": it fits
	}{
		"as promised":         {onnx.FLOAT16, []any{1, 4, 8}, nil, ""},
		"without a batch":     {onnx.FLOAT16, []any{4, 8}, nil, ""},
		"another type":        {onnx.FLOAT, []any{1, 4, 8}, nil, "image-enc@1.0.0: got fp32 [1 4 8] for output patch_tokens [T_enc, D_enc] fp16, input patch_tokens [T_enc, D_enc] fp16 of image-proj@1.0.0: got type fp32, want fp16"},
		"another width":       {onnx.FLOAT16, []any{1, 4, 9}, nil, "D_enc: got 9, want 8"},
		"a batch of two":      {onnx.FLOAT16, []any{2, 4, 8}, nil, "a batch of 2"},
		"too many dimensions": {onnx.FLOAT16, []any{1, 1, 4, 8}, nil, "got 4 dimensions, want 2"},
		"a smaller cap":       {onnx.FLOAT16, []any{1, 4, 8}, func(b *builds.Build) { b.Assembly.Modalities[0].TCap = 2 }, "image-proj@1.0.0: got fp16 [1 3 64] for output llm_tokens [T_cap, d_model] fp16: want 1 to 2 vectors"},
		"a cast that the projector declares": {onnx.FLOAT16, []any{1, 4, 8}, func(b *builds.Build) {
			b.Manifests["image-proj"].Preprocess = modules.Preprocess{"patch_tokens": {DType: "int8"}}
		}, "cannot cast fp16 to int8"},
	} {
		t.Run(name, func(t *testing.T) {
			b := seeing(t)
			encoder(t, b, c.dtype, c.dims...)
			if c.set != nil {
				c.set(b)
			}
			r, _, _ := look(t, b, runner.Options{})
			_, err := r.Answer(t.Context(), see(1, red(t)), nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A function of any build runs by itself, selected by its name, its port or its modality; an
// ambiguous input is refused.
func TestCompute(t *testing.T) {
	b := seeing(t)
	r, e, _ := look(t, b, runner.Options{})
	data := modality.Input{Data: red(t)}
	var first []part.Computed
	for _, g := range []part.Argument{
		{Name: "image-enc.image", Input: data}, {Name: "image", Input: data}, {Name: "image-enc", Input: data}, {Modality: abi.Image, Input: data},
	} {
		got, err := r.Compute(t.Context(), []part.Argument{g})
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		if len(got) != 2 || got[0].Part.Name != "image-enc" || got[1].Part.Name != "image-proj" || got[0].Backend != "onnx" {
			t.Fatalf("%s: %+v", g.Name, got)
		}
		tokens, vectors := got[0].Outputs["patch_tokens"], got[1].Outputs["llm_tokens"]
		if !slices.Equal(tokens.Shape, []int64{1, 6, 8}) || !slices.Equal(vectors.Shape, []int64{1, 3, 64}) {
			t.Errorf("%s: tokens %v, vectors %v", g.Name, tokens.Shape, vectors.Shape)
		}
		if first == nil {
			first = got
		} else if !bytes.Equal(vectors.Data, first[1].Outputs["llm_tokens"].Data) {
			t.Errorf("%s: other numbers", g.Name)
		}
	}
	tokens := first[0].Outputs["patch_tokens"]
	got, err := r.Compute(t.Context(), []part.Argument{{Name: "image-proj.patch_tokens", Input: modality.Input{Tensor: &tokens}}})
	if err != nil || len(got) != 1 || !bytes.Equal(got[0].Outputs["llm_tokens"].Data, first[1].Outputs["llm_tokens"].Data) {
		t.Errorf("the projector alone: %+v, %v", got, err)
	}
	got, err = r.Compute(t.Context(), []part.Argument{{Modality: abi.Image, Input: data}, {Name: "image-proj", Input: modality.Input{Tensor: &tokens}}})
	if err != nil || len(got) != 2 || got[1].Part.Name != "image-proj" {
		t.Errorf("encoder and projector, each with its own: %+v, %v", got, err)
	}
	latents := runtimes.Tensor{Type: runtimes.Float16, Shape: []int64{1, 2, 64}, Data: make([]byte, 2*2*64)}
	got, err = r.Compute(t.Context(), []part.Argument{{Name: "latent_tokens", Input: modality.Input{Tensor: &latents}}})
	if err != nil || len(got) != 1 || !slices.Equal(got[0].Outputs["image"].Shape, []int64{1, 256, 256, 3}) {
		t.Errorf("the decoder: %v", err)
	}
	if e.opens.Load() != 0 {
		t.Error("the core was loaded")
	}
	for name, c := range map[string]struct {
		args       []part.Argument
		what, hint string
	}{
		"nothing":     {nil, "no input", "image-enc.image"},
		"no name":     {[]part.Argument{{}}, "is ambiguous: image-enc or audio-enc or img-dec", "PART.PORT"},
		"mistyped":    {[]part.Argument{{Name: "image-enc.imago"}}, "fits no part of b", "did you mean image-enc.image?"},
		"a modality":  {[]part.Argument{{Modality: abi.Video}}, "an input of video fits no part", "the build takes"},
		"twice":       {[]part.Argument{{Name: "image"}, {Name: "image-enc.image"}}, "duplicate input for image-enc.image", ""},
		"the core":    {[]part.Argument{{Name: "core"}}, "fits no part", ""},
		"an own port": {[]part.Argument{{Name: "pcm.x"}}, "fits no part", ""},
	} {
		_, err := r.Compute(t.Context(), c.args)
		var wrong *modality.InputError
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Error(), c.what) || !strings.Contains(wrong.Hint, c.hint) {
			t.Errorf("%s: %v, %+v", name, err, wrong)
		}
	}
}

// A build without a core computes but does not answer.
func TestWithoutCore(t *testing.T) {
	b := seeing(t)
	b.Assembly.Core, b.Assembly.Decoders = builds.Part{}, nil
	b.Assembly.Modalities = b.Assembly.Modalities[:1]
	b.Assembly.Modalities[0].Projector = builds.Part{}
	delete(b.Manifests, "image-proj")
	r, _, f := look(t, b, runner.Options{Engine: "onnx"})
	if r.Engine() != nil {
		t.Errorf("an engine for no core: %s", r.Engine().Name())
	}
	got, err := r.Compute(t.Context(), []part.Argument{{Input: modality.Input{Data: red(t)}}})
	if err != nil || len(got) != 1 || got[0].Part.Name != "image-enc" || f.runs.Load() != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	_, missed, smoke := r.Smoke(t.Context())
	_, asked := r.Answer(t.Context(), ask("hello", 1), nil)
	for name, err := range map[string]error{"Load": r.Load(t.Context()), "Smoke": smoke, "Answer": asked} {
		if !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), "has functions but no core") {
			t.Errorf("%s: %v (%d)", name, err, missed)
		}
	}
	if _, err := runner.Open(t.Context(), b, runner.Options{Engine: "core", Engines: []runtimes.Engine{engines.Core{}}}); err != nil {
		t.Errorf("the engine is looked for when it is needed: %v", err)
	}
}

// A request may be canceled while the engines of its parts are named.
func TestCanceledAfterPrompt(t *testing.T) {
	r, _, _ := look(t, seeing(t), runner.Options{})
	for range 8 { // a part is found before the end of the context, or after it
		ctx, cancel := context.WithCancel(t.Context())
		req := see(4, red(t))
		req.Prompted = func(int, int) { cancel() }
		if _, err := r.Answer(ctx, req, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	}
}
