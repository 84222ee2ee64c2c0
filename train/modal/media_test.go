package modal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/onnxfile"
)

// hearing is a small modality: half a second of 16 mel bands, 4 vectors.
func hearing(dim int) Modality {
	return Modality{
		Modality:   Audio,
		Preprocess: preprocess.Spec{Layout: "NTM", Sound: preprocess.Sound{SampleRate: 16000, Chunk: 8000, NMels: 16, Window: 400, Hop: 500, Uncenter: true, Log: "ln", Floor: 1e-4}},
		Encoder: Encoder{Network: Network{Net: &net.Config{
			Inputs: []net.Port{{Name: "frames", Rows: 16, Cols: 16}}, Layers: []net.Layer{{Kind: "conv1d", Out: 12, Kernel: net.Sizes{4}, Stride: net.Sizes{4}}, {Kind: "gelu", Name: "frame_tokens"}},
			Outputs: []string{"frame_tokens"}}}},
		Projector: Network{Net: &net.Config{Inputs: []net.Port{{Name: "frame_tokens", Rows: 4, Cols: 12}}, Layers: []net.Layer{{Kind: "linear", Out: dim, Name: "llm_tokens"}}, Outputs: []string{"llm_tokens"}}},
	}
}

// Images and sounds are learned in one run, each by its networks.
func TestTwoMedia(t *testing.T) {
	t.Parallel()
	r := encoding()
	r.Modalities = append(r.Modalities, hearing(24))
	r.Data.Sound = &Sound{Kinds: []string{"tones"}, Seed: 4}
	r.Core.Model = &llm.Config{Vocab: 1024, Dim: 24, Layers: 1, Heads: 2, Context: 64, Tied: true}
	r.Eval.N = 8
	start, err := New(context.Background(), r, train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer start.Close()
	tr, events := run(t, r, filepath.Join(t.TempDir(), "both"), false, 2)
	for _, part := range []string{"encoder of image", "projector of image", "encoder of audio", "projector of audio"} {
		if cmp.Equal(weights(start, part), weights(tr, part)) {
			t.Errorf("%s did not learn", part)
		}
	}
	kinds := ""
	for _, e := range events.events {
		if e, ok := e.(train.Evaluated); ok {
			for _, s := range e.Scores {
				kinds += s.Kind + " "
			}
		}
	}
	if !strings.Contains(kinds, "shapes/") || !strings.Contains(kinds, "tones/") {
		t.Errorf("held-out kinds: %s", kinds)
	}
	r.Data.Sound.Kinds = []string{"smells"}
	_, err = New(context.Background(), r, train.Options{From: "."})
	var f train.Fault
	if !errors.As(err, &f) || f.Path != "/data/sound" {
		t.Errorf("unknown kind of sounds: %v", err)
	}
}

// An external encoder, an ONNX file, is run and never trained. A projector
// learns after it as after the network that was exported to it.
func TestExternal(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	dir := t.TempDir()
	run(t, encoding(), filepath.Join(dir, "enc"), false, 2)
	from := filepath.Join(dir, "enc", train.LastFile)
	c, err := OpenCheckpoint(from)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, built, err := c.Network(EncoderPart, Image)
	if err != nil {
		t.Fatal(err)
	}
	model, err := onnxfile.Model(n, onnxfile.Options{Inputs: map[string]onnxfile.Input{"image": {Layout: onnxfile.Pixels}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "stranger.onnx")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := onnx.Write(f, model); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r := aligning(from)
	native, _ := run(t, r, filepath.Join(dir, "own"), false, 2)
	r.Modalities[0].Preprocess = built.Preprocess
	r.Modalities[0].Encoder = Encoder{ONNX: path}
	r.Data.Scene.Examples = 5
	external, events := run(t, r, filepath.Join(dir, "strange"), false, 1)
	if len(external.Task.senses[0].memory.held) == 0 {
		t.Error("features of an external encoder not cached")
	}
	if s := events.finished(t).Sealed; len(s) != 1 || s[0].Part != "core" {
		t.Errorf("sealed: %+v", s)
	}
	if a, b := len(weights(native, "projector of image")), len(weights(external, "projector of image")); a != b {
		t.Errorf("projectors of %d and %d tensors", a, b)
	}
	// Another file with the same shapes is refused: the projector was not
	// trained with it.
	last := filepath.Join(dir, "strange", train.LastFile)
	look := []Look{Actual}
	if _, err := Measure(t.Context(), last, look, MeasureOptions{N: 2}); err != nil {
		t.Errorf("same encoder: %v", err)
	}
	model.Doc = "another"
	if f, err = os.Create(path); err != nil {
		t.Fatal(err)
	}
	if _, err := onnx.Write(f, model); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "trained with another encoder of image: sha256 "+external.Task.senses[0].onnx.sum) {
			t.Errorf("%s with another encoder: %v", what, err)
		}
	}
	_, err = Measure(t.Context(), last, look, MeasureOptions{N: 2})
	refused("measured", err)
	_, err = Resume(t.Context(), last, train.Options{From: "."})
	refused("resumed", err)
	next := tuning(last)
	next.Modalities[0].Preprocess, next.Modalities[0].Encoder = built.Preprocess, Encoder{ONNX: path}
	_, err = New(t.Context(), next, train.Options{From: "."})
	refused("tuned", err)
	r.Modalities[0].Encoder.Output = "nothing"
	if _, err := New(context.Background(), r, train.Options{From: "."}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("unknown output: %v", err)
	}
	r.Modalities[0].Encoder.Output = ""
	r.Modalities[0].Preprocess.Resize = []int{16, 16}
	if _, err := New(context.Background(), r, train.Options{From: "."}); err == nil {
		t.Error("accepted images of another size")
	}
}

// Features are rows for every shape of an encoder's output.
func TestAsRows(t *testing.T) {
	data := []float32{1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		shape      []int
		rows, cols int
		want       []float32
	}{
		{[]int{1, 6}, 1, 6, data},
		{[]int{1, 2, 3}, 2, 3, data},
		{[]int{2, 3}, 2, 3, data},
		{[]int{1, 2, 1, 3}, 3, 2, []float32{1, 4, 2, 5, 3, 6}},
	} {
		rows, cols, got, err := asRows(c.shape, data)
		if err != nil || rows != c.rows || cols != c.cols || !cmp.Equal(got, c.want) {
			t.Errorf("%v: %d × %d %v, %v", c.shape, rows, cols, got, err)
		}
	}
	if _, _, _, err := asRows([]int{2, 1, 1, 3}, data); err == nil {
		t.Error("accepted a batch of two")
	}
}
