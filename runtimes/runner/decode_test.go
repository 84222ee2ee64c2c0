package runner_test

import (
	"bytes"
	"errors"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/core/tokenizer"
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

// draw opens a build on engines that show the core's states.
func draw(t testing.TB, b *builds.Build, opt runner.Options) *runner.Runner {
	t.Helper()
	opt.Engines = []runtimes.Engine{engines.Core{}, engines.ONNX{}}
	r, err := runner.Open(t.Context(), b, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func outputs(req runner.Request, outputs ...string) runner.Request {
	req.Outputs = outputs
	return req
}

// speaking returns the build of seeing with a decoder for sounds.
func speaking(t testing.TB) *builds.Build {
	b := seeing(t)
	dir := string(b.Files.(folder))
	if err := seed.Write(filepath.Join(dir, "tts"), seed.Options{Type: abi.Decoder, Name: "tts", Version: "1.0.0", Modality: abi.Audio, Seed: 11, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	m, list := modules.Load(filepath.Join(dir, "tts"))
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	b.Manifests["tts"] = m
	b.Assembly.Decoders = append(b.Assembly.Decoders, builds.DecoderPart{Part: builds.Part{
		Name: "tts", Version: "1.0.0", Type: abi.Decoder, Modality: abi.Audio, Manifest: "tts/module.yaml", Files: builds.Formats{"onnx": {"tts/tts.onnx"}},
	}})
	return b
}

// The output of a decoder equals that of its function on the core's states; two outputs and text
// are independent of each other and of the sequence's earlier contents.
func TestMakes(t *testing.T) {
	b := speaking(t)
	r := draw(t, b, runner.Options{})
	answer(t, r, ask("draw a house", 3)) // in a sequence that keeps no states
	only := answer(t, r, outputs(ask("draw a house", 3), "image"))
	if len(only.Made) != 1 || only.Text != "" || len(only.Tokens) != 0 || only.Made[0].Part.Name != "img-dec" || only.Made[0].Backend != "onnx" {
		t.Fatalf("%+v", only)
	}
	picture, err := png.Decode(bytes.NewReader(only.Made[0].Data))
	if err != nil || picture.Bounds().Dx() != 256 || picture.Bounds().Dy() != 256 {
		t.Errorf("%v, %v", picture.Bounds(), err)
	}
	all := answer(t, r, outputs(ask("draw a house", 3), "audio", "text", "image", "image"))
	if len(all.Made) != 2 || len(all.Tokens) != 3 || !bytes.Equal(all.Made[1].Data, only.Made[0].Data) {
		t.Fatalf("%d made, tokens %v", len(all.Made), all.Tokens)
	}
	wave, err := preprocess.DecodeWAV(all.Made[0].Data)
	if err != nil || wave.Rate != 16000 || len(wave.Samples) != 320*all.Timings.Prompt || all.Made[0].Rate != 16000 {
		t.Errorf("%d samples of %d positions, %v", len(wave.Samples), all.Timings.Prompt, err)
	}
	small := draw(t, b, runner.Options{Sequences: 1}) // one replaces the other
	for range 2 {
		answer(t, small, ask("draw a house", 1))
		if a := answer(t, small, outputs(ask("draw a house", 3), "image")); !bytes.Equal(a.Made[0].Data, only.Made[0].Data) {
			t.Error("with one sequence it draws another picture")
		}
	}
	if words := answer(t, r, ask("draw a house", 3)); !slices.Equal(words.Tokens, all.Tokens) {
		t.Errorf("tokens %v, beside pictures %v", words.Tokens, all.Tokens)
	}
	longer := answer(t, r, outputs(ask("draw a house with a door", 0), "image"))
	if bytes.Equal(longer.Made[0].Data, only.Made[0].Data) || longer.Timings.Reused == 0 {
		t.Errorf("another prompt, the same picture; %d reused", longer.Timings.Reused)
	}
	if fresh := answer(t, draw(t, b, runner.Options{}), outputs(ask("draw a house with a door", 0), "image")); !bytes.Equal(fresh.Made[0].Data, longer.Made[0].Data) {
		t.Error("a sequence that was used draws another picture")
	}

	// The same states by hand.
	model, err := engines.Core{}.Open(t.Context(), runtimes.Bundle{Part: b.Assembly.Core, Files: b.Files, Tokens: b.Assembly.Tokens}, runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	s, err := model.(runtimes.Language).NewSequence(t.Context(), runtimes.SequenceOptions{Hidden: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := answer(t, r, ask("draw a house", 1)).Timings.Prompt
	prompt := encodedBy(t, b, "draw a house")
	if ids != len(prompt) {
		t.Fatalf("%d positions, %d by hand", ids, len(prompt))
	}
	if err := s.Feed(t.Context(), runtimes.Positions{Tokens: prompt}); err != nil {
		t.Fatal(err)
	}
	x, err := s.(runtimes.Hidden).Hidden(0, len(prompt))
	if err != nil {
		t.Fatal(err)
	}
	_, latents, err := part.States(part.Side{ID: "img-dec", Manifest: b.Manifests["img-dec"]}, x, 64)
	if err != nil {
		t.Fatal(err)
	}
	latents.Shape = append([]int64{1}, latents.Shape...)
	got, err := r.Compute(t.Context(), []part.Argument{{Name: "img-dec.latent_tokens", Input: modality.Input{Tensor: &latents}}})
	if err != nil || !bytes.Equal(got[0].Outputs["image"].Data, only.Made[0].Tensor.Data) {
		t.Errorf("the decoder by itself makes another picture, %v", err)
	}
}

// encodedBy returns the core's tokens of a text, after BOS.
func encodedBy(t *testing.T, b *builds.Build, text string) []int32 {
	t.Helper()
	f, err := gguf.Open(filepath.Join(string(b.Files.(folder)), b.Assembly.Core.Files.Entry(abi.GGUF)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	words, err := talk.New(tok, talk.Options{Template: tok.Rules().Template})
	if err != nil {
		t.Fatal(err)
	}
	return words.Plain(text).Pieces[0].Tokens
}

// An impossible output is refused before anything is loaded.
func TestCannotMake(t *testing.T) {
	b := seeing(t)
	for want, req := range map[string]runner.Request{
		"b has no decoder for audio":        outputs(ask("x", 1), "audio"),
		"answers are text, images and":      outputs(ask("x", 1), "text", "video"),
		"smell output is not available":     outputs(ask("x", 1), "smell"),
		"the core backend does not provide": outputs(ask("x", 1), "image"), // of this test
		"target laptop ships no file of u":  outputs(ask("x", 1), "image"),
	} {
		if strings.HasPrefix(want, "target") {
			b.Assembly.Decoders[0].Files, b.Assembly.Decoders[0].Name = nil, "u"
		}
		r, e, _ := look(t, b, runner.Options{})
		_, err := r.Answer(t.Context(), req, nil)
		if !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if e.opens.Load() != 0 && !strings.HasPrefix(want, "the core") {
			t.Errorf("%s: the core was loaded", want)
		}
		b = seeing(t)
	}
	b.Assembly.Core = builds.Part{}
	r := draw(t, b, runner.Options{})
	if _, err := r.Answer(t.Context(), outputs(ask("x", 1), "image"), nil); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("without a core: %v", err)
	}
}

// decoding returns a build with a decoder of a test: nodes computes "image" from "latents" and
// further inputs.
func decoding(t *testing.T, params modules.Figures, more []abi.Port, out abi.Port, nodes func(g *onnx.Graph)) *builds.Build {
	t.Helper()
	b := seeing(t)
	m := onnx.New("dec", 17)
	latents := abi.Port{Name: "latents", DType: abi.FP32, Shape: abi.Shape{{Name: "T_dec"}, {Name: "d_model"}}}
	value := func(p abi.Port, batch bool) onnx.Value {
		var dims []any
		if batch {
			dims = append(dims, 1)
		}
		for _, d := range p.Shape {
			if d.Name != "" {
				dims = append(dims, d.Name)
			} else {
				dims = append(dims, d.Size)
			}
		}
		return onnx.TensorValue(p.Name, runtimes.Elem(p.DType).ONNX(), dims...)
	}
	m.Graph.Inputs = []onnx.Value{value(latents, true)}
	for _, p := range more {
		m.Graph.Inputs = append(m.Graph.Inputs, value(p, p.Name == "noise"))
	}
	m.Graph.Outputs = []onnx.Value{value(out, true)}
	nodes(&m.Graph)
	var file bytes.Buffer
	if _, err := onnx.Write(&file, m); err != nil {
		t.Fatal(err)
	}
	d := &b.Assembly.Decoders[0]
	if err := os.WriteFile(filepath.Join(string(b.Files.(folder)), d.Files.Entry(abi.ONNX)), file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Manifests["img-dec"] = &modules.Manifest{
		Name: "img-dec", Version: "1.0.0", Type: abi.Decoder, Modality: abi.Image, Params: params,
		Tensors: modules.Tensors{Inputs: append([]abi.Port{latents}, more...), Outputs: []abi.Port{out}},
	}
	return b
}

func sizes(n ...int64) abi.Shape {
	var s abi.Shape
	for _, d := range n {
		s = append(s, abi.Dim{Size: d})
	}
	return s
}

// A decoder's other inputs are noise of the seed, the seed, and parameters: those of the graph
// before those of the manifest.
func TestDecoderInputs(t *testing.T) {
	more := []abi.Port{
		{Name: "noise", DType: abi.FP32, Shape: abi.Shape{{Size: 3}, {Name: "size"}, {Name: "size"}}},
		{Name: "steps", DType: abi.Int64, Shape: sizes(1)}, {Name: "seed", DType: abi.Int32, Shape: abi.Shape{}}, {Name: "guidance", DType: abi.FP32, Shape: abi.Shape{}},
	}
	out := abi.Port{Name: "image", DType: abi.FP32, Shape: abi.Shape{{Size: 3}, {Name: "size"}, {Name: "size"}}}
	nodes := func(g *onnx.Graph) { // noise · steps + seed + guidance, and nothing of the states
		float := onnx.Int("to", int64(onnx.FLOAT))
		g.Add("Cast", []string{"steps"}, "s", float)
		g.Add("Cast", []string{"seed"}, "d", float)
		g.Add("ReduceMean", []string{"latents"}, "mean", onnx.Int("keepdims", 0))
		g.Add("Mul", []string{"mean", g.Constant(onnx.Floats("none", nil, []float32{0}))}, "nothing")
		g.Add("Mul", []string{"noise", "s"}, "a")
		g.Add("Add", []string{"a", "d"}, "b")
		g.Add("Add", []string{"b", "guidance"}, "c")
		g.Add("Add", []string{"c", "nothing"}, "image")
	}
	b := decoding(t, modules.Figures{"size": 4.0, "steps": 6.0, "guidance": 0.5}, more, out, nodes)
	b.Assembly.Decoders[0].Params = map[string]any{"steps": 2.0}
	r := draw(t, b, runner.Options{})
	req := outputs(ask("a house", 0), "image")
	req.Preferences.Seed = 9
	a := answer(t, r, req)
	got, err := part.Floats(a.Made[0].Tensor)
	if err != nil || !slices.Equal(a.Made[0].Tensor.Shape, []int64{1, 3, 4, 4}) {
		t.Fatalf("%v, %v", a.Made[0].Tensor.Shape, err)
	}
	for i, v := range part.Noise(9, 48) {
		if want := v*2 + 9 + 0.5; got[i] != want {
			t.Fatalf("number %d is %v, want %v", i, got[i], want)
		}
	}
	if _, err := png.Decode(bytes.NewReader(a.Made[0].Data)); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		params modules.Figures
		want   string
	}{
		"no parameter": {modules.Figures{"size": 4.0, "steps": 6.0}, "unknown input guidance [] fp32: not the core's states, noise"},
		"no size":      {modules.Figures{"steps": 6.0, "guidance": 0.5}, "dimension 1 is open"},
		"another size": {modules.Figures{"size": 5.0, "steps": 6.0, "guidance": 0.5}, "img-dec"},
		"far too much": {modules.Figures{"size": float64(1 << 40), "steps": 6.0, "guidance": 0.5}, "or more than"},
		"NaN":          {modules.Figures{"size": 4.0, "steps": "many", "guidance": 0.5}, "unknown input steps"},
		"a half step":  {modules.Figures{"size": 4.0, "steps": 1.5, "guidance": 0.5}, "1.5 is not a valid int64"},
	} {
		b := decoding(t, c.params, more, out, nodes)
		if name == "another size" { // the file's size differs from the manifest's
			b = decoding(t, modules.Figures{"size": 4.0, "steps": 6.0, "guidance": 0.5}, more, abi.Port{Name: "image", DType: abi.FP32, Shape: sizes(3, 5, 5)}, nodes)
		}
		if _, err := draw(t, b, runner.Options{}).Answer(t.Context(), req, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A decoder whose output is not an image is an error with the declared port.
func TestDecoderGivesNone(t *testing.T) {
	scaled := func(by float32, shape ...int64) func(g *onnx.Graph) {
		return func(g *onnx.Graph) { // 0 · by, reshaped
			g.Add("ReduceMean", []string{"latents"}, "mean", onnx.Int("keepdims", 0))
			g.Add("Sub", []string{"mean", "mean"}, "zero")
			g.Add("Div", []string{g.Constant(onnx.Floats("by", nil, []float32{by})), "zero"}, "odd")
			g.Add("Expand", []string{"odd", g.Constant(onnx.Ints("shape", []int64{int64(len(shape))}, shape))}, "image")
		}
	}
	for name, c := range map[string]struct {
		out   abi.Port
		nodes func(g *onnx.Graph)
		want  string
	}{
		"not a number":  {abi.Port{Name: "image", DType: abi.FP32, Shape: sizes(3, 4, 4)}, scaled(0, 1, 3, 4, 4), "img-dec@1.0.0: output image [3, 4, 4] fp32: contains NaN or infinity"},
		"infinite":      {abi.Port{Name: "image", DType: abi.FP32, Shape: sizes(3, 4, 4)}, scaled(1, 1, 3, 4, 4), "contains NaN or infinity"},
		"five channels": {abi.Port{Name: "image", DType: abi.FP32, Shape: sizes(5, 4, 4)}, scaled(1, 1, 5, 4, 4), "fp32 [1 5 4 4] is not an image"},
		"no picture":    {abi.Port{Name: "image", DType: abi.FP32, Shape: sizes(2, 3, 4, 4)}, scaled(1, 1, 2, 3, 4, 4), "is not an image"},
	} {
		b := decoding(t, nil, nil, c.out, c.nodes)
		if _, err := draw(t, b, runner.Options{}).Answer(t.Context(), outputs(ask("x", 0), "image"), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	b := seeing(t) // made for another core
	dir := string(b.Files.(folder))
	if err := seed.Write(filepath.Join(dir, "other"), seed.Options{Type: abi.Decoder, Name: "img-dec", Version: "1.0.0", Modality: abi.Image, DModel: 32}); err != nil {
		t.Fatal(err)
	}
	b.Assembly.Decoders[0].Files = builds.Formats{"onnx": {"other/img_dec.onnx"}}
	_, err := draw(t, b, runner.Options{}).Answer(t.Context(), outputs(ask("x", 0), "image"), nil)
	if err == nil || !strings.Contains(err.Error(), "input latent_tokens [T_dec, d_model] fp16 has width 32, the core's states have width 64") {
		t.Errorf("another width: %v", err)
	}
}
