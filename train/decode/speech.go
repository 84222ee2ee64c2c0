package decode

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/sound"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/nn"
)

// speech is the sayings of one voice. The target is the codes of their words,
// one per time slot.
type speech struct {
	sound.Sayings
	reader *sound.Reader
}

func (s Speech) open(split, dir string) (Source, int, error) {
	r, err := sound.OpenReader(train.Resolve(dir, s.Dir))
	if err != nil {
		return nil, 0, train.At("/data/speech/dir", err)
	}
	return speech{sound.Sayings{Split: split, Seed: s.Seed}, r}, s.Examples, nil
}

// Make implements [Source].
func (s speech) Make(i int) Sample {
	one := s.Sayings.Make(i)
	return Sample{Prompt: one.Prompt, Target: s.reader.Codes(one.Words)}
}

// Judge implements [Judge]: the word of each slot is the one of the voice with
// the nearest frames; "all" is all slots and silence after the last.
func (s speech) Judge(i int, output []float32) []Verdict {
	one := s.Sayings.Make(i)
	nearest := s.reader.Nearest(output)
	all := []Verdict{{one.Kind + "/all", strings.Join(one.Words, " "), strings.TrimRight(strings.Join(nearest, " "), " ")}}
	for k, w := range one.Words {
		all = append(all, Verdict{one.Kind + "/word", w, nearest[k]})
	}
	return all
}

// Sounding returns the decoder of a checkpoint that learned the codes of words,
// followed by layers with fixed weights that convert codes to samples: to the
// frames of a code, and from these, squared, to the sum of the grains of voice
// and breath. dir is the folder of the recipe's paths.
func (c *Checkpoint) Sounding(dir string) (*net.Net[float32], net.Port, error) {
	trained, out, err := c.Network()
	if err != nil {
		return nil, out, err
	}
	s := c.Decoding.Recipe.Data.Speech
	if s == nil {
		return nil, out, fmt.Errorf("checkpoint %s: not trained on speech", c.Path())
	}
	r, err := sound.OpenReader(train.Resolve(dir, s.Dir))
	if err != nil {
		return nil, out, err
	}
	cfg := trained.Config()
	cfg.Layers = append(slices.Clone(cfg.Layers), voice(cfg.Outputs[0])...)
	cfg.Outputs = []string{Samples}
	n, err := net.New[float32](cfg)
	if err == nil {
		out, err = outputShape(n)
	}
	if err != nil {
		return nil, out, fmt.Errorf("checkpoint %s: %w", c.Path(), err)
	}
	for _, t := range trained.Params().Tensors() {
		copy(n.Params().Tensor(t.Name).Data, t.Data)
	}
	tune(n.Params(), r)
	n.Pack(true)
	return n, out, nil
}

// breathKernel is the length of the grains of BreathFrames frames.
const breathKernel = (sound.BreathFrames + 1) * sound.FrameStep

// tune sets the weights of the layers of [voice].
func tune(p *nn.Params[float32], r *sound.Reader) {
	words, basis := p.Tensor("voice.words.weight").Data, r.Basis()
	const size = sound.StretchFrames * sound.FrameWidth
	for c := range sound.CodeWidth {
		for k := range size {
			words[k*sound.CodeWidth+c] = basis[c*size+k]
		}
	}
	copy(p.Tensor("voice.tones.weight").Data, sound.VoicedGrains())
	// A row is BreathFrames frames, whose grains begin one after the other.
	breath, grains := p.Tensor("voice.breath.weight").Data, sound.BreathGrains()
	const grain = 2 * sound.FrameStep
	for i := range sound.BreathFrames * sound.BreathBands {
		at := i*breathKernel + i/sound.BreathBands*sound.FrameStep
		copy(breath[at:at+grain], grains[i*grain:])
	}
}

// Samples is the output of a speech decoder: [Stretches·StretchSamples, 1].
const Samples = "pcm"

// voice returns the layers from codes to samples.
func voice(codes string) []net.Layer {
	const frames = sound.Stretches * sound.StretchFrames
	return []net.Layer{
		{Name: "voice.words", Kind: "linear", Inputs: []string{codes}, Out: sound.StretchFrames * sound.FrameWidth, NoBias: true},
		{Name: "voice.frames", Kind: "reshape", Rows: frames, Cols: sound.FrameWidth},
		{Name: "voice.above", Kind: "relu"},
		{Name: "voice.loud", Kind: "multiply", Inputs: []string{"voice.above", "voice.above"}},
		{Name: "voice.voiced", Kind: "slice", To: sound.VoicedBands},
		{Name: "voice.tones", Kind: "conv1d_transpose", Out: 1, Kernel: net.Sizes{2 * sound.FrameStep}, Stride: net.Sizes{sound.FrameStep}, Pad: net.Sizes{sound.FrameStep / 2}, NoBias: true},
		{Name: "voice.unvoiced", Kind: "slice", Inputs: []string{"voice.loud"}, From: sound.VoicedBands},
		{Name: "voice.breaths", Kind: "reshape", Rows: frames / sound.BreathFrames, Cols: sound.BreathFrames * sound.BreathBands},
		{Name: "voice.breath", Kind: "conv1d_transpose", Out: 1, Kernel: net.Sizes{breathKernel}, Stride: net.Sizes{sound.BreathFrames * sound.FrameStep}, Pad: net.Sizes{sound.FrameStep / 2}, NoBias: true},
		{Name: Samples, Kind: "add", Inputs: []string{"voice.tones", "voice.breath"}},
	}
}
