package decode

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/sound"
	"mm-abi.org/mm/train/net"
)

// spoken returns the folder of a voice that says each word as two tones.
func spoken(t *testing.T) string {
	t.Helper()
	var takes []sound.Take
	var samples [][]int16
	for k, text := range sound.SpokenWords() {
		takes = append(takes, sound.Take{Text: text, Voice: "en-us", Variant: "en-us", Speed: 150})
		v := make([]int16, sound.Rate/4+100*(k%20))
		for i := range v {
			at := 2 * math.Pi * float64(i) / sound.Rate
			v[i] = int16(6000*math.Sin(at*float64(200+60*k)) + 5000*math.Sin(at*float64(4000-25*k)))
		}
		samples = append(samples, v)
	}
	var b bytes.Buffer
	if err := sound.WritePack(&b, "a test", takes, samples); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, sound.PackFile), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// saying is a minimal run of a speech decoder.
func saying(core, dir string) Recipe {
	return Recipe{
		Name: "say", Stage: Decoders, Seed: 3, Modality: Audio, Core: Core{Base: core, States: 24},
		Decoder: Decoder{Net: &net.Config{
			Inputs: []net.Port{{Name: States, Rows: 24, Cols: 24}},
			Layers: []net.Layer{
				{Kind: "linear", Out: 16}, {Kind: "position", Name: "tokens"}, {Kind: "queries", Count: sound.Stretches, Out: 16},
				{Kind: "cross_attention", Heads: 2, Memory: "tokens"}, {Kind: "linear", Out: sound.CodeWidth, Name: "codes"},
			},
			Outputs: []string{"codes"},
		}},
		Objective: Objective{Kind: Regression},
		Data:      Data{Speech: &Speech{Dir: dir, Examples: 8}},
		BatchSize: 8, Settings: train.Settings{Optimizer: train.Optimizer{Rate: 0.01}, Stop: train.Stop{Steps: 30}, Eval: train.HeldOut{N: 10}, LogEvery: 29},
	}
}

// A speech decoder learns the codes of words, is judged by the nearest words,
// and generates their sound: a word is as loud as it should be in its slot, and
// no word is silence.
func TestSpeech(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	out := t.TempDir()
	_, events := run(t, saying(reading(t), spoken(t)), out, false, 1)
	if l := events.losses(); !(l[1] < 0.9*l[0]) {
		t.Errorf("losses %v", l)
	}
	c, err := OpenCheckpoint(filepath.Join(out, train.LastFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var kinds []string
	for _, s := range c.Decoding.Held.Scores {
		kinds = append(kinds, s.Kind)
	}
	if want := []string{"digits/all", "digits/word", "numbers/all", "numbers/word", "words/all", "words/word"}; !slices.Equal(kinds, want) {
		t.Errorf("judged %v", kinds)
	}
	learnt, _, err := c.Network()
	if err != nil {
		t.Fatal(err)
	}
	n, port, err := c.Sounding(c.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if port.Name != Samples || port.Rows*port.Cols != sound.Stretches*sound.StretchSamples {
		t.Fatalf("output %+v", port)
	}
	for _, x := range learnt.Params().Tensors() {
		if y := n.Params().Tensor(x.Name); y == nil || !slices.Equal(x.Data, y.Data) {
			t.Errorf("%s differs from the checkpoint", x.Name)
		}
	}
	// Codes that the last layer outputs for any input.
	r, err := sound.OpenReader(train.Resolve(c.Dir(), c.Decoding.Recipe.Data.Speech.Dir))
	if err != nil {
		t.Fatal(err)
	}
	clear(n.Params().Tensor("codes.weight").Data)
	copy(n.Params().Tensor("codes.bias").Data, r.Codes([]string{"seven"}))
	n.Pack(true)
	pcm := c.Decoding.Recipe.Make(n, make([]float32, 24), nil)
	for i := range sound.Stretches {
		v := pcm[i*sound.StretchSamples : (i+1)*sound.StretchSamples]
		if word, rest := power(v[800:3200]), power(v[5600:]); word < 0.01 || word > 0.2 || rest > word/50 {
			t.Errorf("stretch %d: power %.5f of the word, %.5f after it", i, word, rest)
		}
	}
	clear(n.Params().Tensor("codes.bias").Data)
	n.Pack(true)
	if p := power(c.Decoding.Recipe.Make(n, make([]float32, 24), nil)); p != 0 {
		t.Errorf("power of silence is %v", p)
	}
}

func power(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x) / float64(len(v))
	}
	return sum
}

// Faults of a speech source are reported.
func TestSpeechRefused(t *testing.T) {
	for want, change := range map[string]func(r *Recipe){
		"modality audio, got image": func(r *Recipe) { r.Modality = Image },
		"missing dir":               func(r *Recipe) { r.Data.Speech.Dir = "" },
		"one of scene":              func(r *Recipe) { r.Data.Scene = &Scene{} },
		"got -1":                    func(r *Recipe) { r.Data.Speech.Examples = -1 },
	} {
		r := saying("core", "somewhere")
		change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := New(saying(reading(t), t.TempDir()), train.Options{From: "."}); err == nil || !strings.Contains(err.Error(), "mm data speech --reader") {
		t.Error(err)
	}
}
