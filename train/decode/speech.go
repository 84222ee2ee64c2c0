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

// speech is sayings of one voice: the target is the codes of their words, one in
// each slot of time.
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

// Judge implements [Judge]: the word of every slot is that of the voice whose
// frames are nearest; "all" is that of all slots, and nothing behind the last.
func (s speech) Judge(i int, made []float32) []Verdict {
	one := s.Sayings.Make(i)
	heard := s.reader.Nearest(made)
	all := []Verdict{{one.Kind + "/all", strings.Join(one.Words, " "), strings.TrimRight(strings.Join(heard, " "), " ")}}
	for k, w := range one.Words {
		all = append(all, Verdict{one.Kind + "/word", w, heard[k]})
	}
	return all
}

// Sounding is the decoder of a checkpoint that learnt the codes of words, and
// behind it, with fixed weights, what makes samples of them: the frames that a
// code stands for, and of those, squared, the sum of the grains of the voice and
// of breath. dir is the folder that the recipe's paths are relative to.
func (c *Checkpoint) Sounding(dir string) (*net.Net[float32], net.Port, error) {
	trained, out, err := c.Network()
	if err != nil {
		return nil, out, err
	}
	s := c.Decoding.Recipe.Data.Speech
	if s == nil {
		return nil, out, fmt.Errorf("checkpoint %s: it learnt from no speech", c.Path())
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
		out, err = made(n)
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

// breathKernel is how long the grains of BreathFrames frames sound.
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

// Samples is the output of a decoder that speaks: [Stretches·StretchSamples, 1].
const Samples = "pcm"

// voice are the layers from codes to samples.
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
