package tower

import (
	"encoding/json"
	"fmt"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/onnx"
)

// Names of the input of an encoder of sounds and of its dimension.
const (
	Mel       = "sound" // 1×M×frames
	framesDim = "frames"
)

// sound is the shape of an encoder of sounds, Whisper's.
type sound struct {
	mels      int // M
	positions int // S, features before pooling of the longest sound
	pool      int // features that are averaged to one
	stack     int // features that become one vector
	only      bool
}

// Limits of a sound's encoder.
const (
	maxMels  = 1 << 10
	maxSteps = 1 << 13
)

// Sound reports whether the tower is for sounds.
func (c Config) Sound() bool { return c.sound != nil }

// Input returns the name of the encoder's input.
func (c Config) Input() string {
	if c.Sound() {
		return Mel
	}
	return Pixels
}

func soundFamilies() []string { return []string{"qwen2_audio", "voxtral"} }

// rawAudio holds the keys of audio_config, in the names of either class.
type rawAudio struct {
	Width      *int    `json:"d_model"`
	Layers     *int    `json:"encoder_layers"`
	Heads      *int    `json:"encoder_attention_heads"`
	Hidden     *int    `json:"encoder_ffn_dim"`
	Width2     *int    `json:"hidden_size"`
	Layers2    *int    `json:"num_hidden_layers"`
	Heads2     *int    `json:"num_attention_heads"`
	Hidden2    *int    `json:"intermediate_size"`
	Mels       *int    `json:"num_mel_bins"`
	Positions  *int    `json:"max_source_positions"`
	Activation *string `json:"activation_function"`
	Scale      *bool   `json:"scale_embedding"` // not used by the classes
}

// readAudio reads the configuration of an encoder of sounds.
func readAudio(data []byte, raw *rawConfig) (Config, error) {
	var all struct {
		Audio rawAudio `json:"audio_config"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return Config{}, err
	}
	v := all.Audio
	c := Config{
		Family: raw.ModelType, Shuffle: 1, Pool: 1, Into: raw.Text.Width, Epsilon: 1e-5, Act: or(raw.Act, "gelu"), Activation: or(v.Activation, "gelu"),
		Width: or(v.Width, or(v.Width2, 1280)), Layers: or(v.Layers, or(v.Layers2, 32)), Heads: or(v.Heads, or(v.Heads2, 20)), Hidden: or(v.Hidden, or(v.Hidden2, 5120)),
		sound: &sound{mels: or(v.Mels, 128), positions: or(v.Positions, 1500), pool: 1, stack: 1},
		names: names{
			projector: "multi_modal_projector.", patch: "conv1", post: "layer_norm", layer: "layers.%d.", norm1: "self_attn_layer_norm", norm2: "final_layer_norm",
			query: "self_attn.q_proj", key: "self_attn.k_proj", value: "self_attn.v_proj", out: "self_attn.out_proj", up: "fc1", down: "fc2",
		},
	}
	if c.Family == "qwen2_audio" {
		c.sound.pool, c.sound.only = 2, true
	} else if c.sound.stack = c.Hidden / max(c.Width, 1); c.sound.stack*c.Width != c.Hidden {
		return c, fmt.Errorf("intermediate_size %d is not a multiple of hidden_size %d", c.Hidden, c.Width)
	}
	return c, c.checkAudio()
}

// checkAudio validates the sizes.
func (c Config) checkAudio() error {
	if err := inRange([]bounded{
		{"width of the encoder", c.Width, maxWidth}, {"number of heads", c.Heads, c.Width}, {"number of layers", c.Layers, maxLayers},
		{"width of the feed-forward half", c.Hidden, maxHidden}, {"width of the language model", c.Into, maxHidden},
		{"num_mel_bins", c.sound.mels, maxMels}, {"max_source_positions", c.sound.positions, maxSteps},
	}); err != nil {
		return err
	}
	switch s := c.sound; {
	case c.Width%c.Heads != 0:
		return fmt.Errorf("width %d is not a multiple of %d heads", c.Width, c.Heads)
	case s.positions%(s.pool*s.stack) != 0:
		return fmt.Errorf("max_source_positions %d is not a multiple of %d", s.positions, s.pool*s.stack)
	case !knownActivation(c.Activation) || !knownActivation(c.Act):
		return fmt.Errorf("unsupported activation %q or %q", c.Activation, c.Act)
	}
	return nil
}

// rawSound holds the keys of a WhisperFeatureExtractor.
type rawSound struct {
	Rate      *int     `json:"sampling_rate"`
	Hop       *int     `json:"hop_length"`
	FFT       *int     `json:"n_fft"`
	Mels      *int     `json:"feature_size"`
	Seconds   *int     `json:"chunk_length"`
	Padding   *float64 `json:"padding_value"`
	Dither    *float64 `json:"dither"`
	Normalize *bool    `json:"do_normalize"`
}

// melSpec reads the preprocessing of sounds.
func (c Config) melSpec(data []byte) (s preprocess.Spec, err error) {
	var raw rawSound
	if err := json.Unmarshal(data, &raw); err != nil {
		return s, err
	}
	if or(raw.Padding, 0) != 0 || or(raw.Dither, 0) != 0 || or(raw.Normalize, false) {
		return s, fmt.Errorf("unsupported padding_value, dither or do_normalize")
	}
	if n := or(raw.Mels, c.sound.mels); n != c.sound.mels {
		return s, fmt.Errorf("got feature_size %d, want %d of the encoder", n, c.sound.mels)
	}
	fft := or(raw.FFT, 400)
	s = preprocess.Spec{DType: "fp32", Mean: []float64{-4}, Std: []float64{4}, Sound: preprocess.Sound{
		SampleRate: or(raw.Rate, 16000), NMels: c.sound.mels, Window: fft, NFFT: fft, Hop: or(raw.Hop, 160), Edge: "reflect", FMax: 8000, Log: "log10", Range: 8,
	}}
	seconds := or(raw.Seconds, 30)
	if seconds < 1 || s.SampleRate < 1 || s.Hop < 1 || seconds > maxSteps || s.SampleRate/s.Hop*seconds != 2*c.sound.positions {
		return s, fmt.Errorf("got chunk_length %d, hop_length %d and sampling_rate %d, want %d frames of the encoder", seconds, s.Hop, s.SampleRate, 2*c.sound.positions)
	}
	s.Span = &preprocess.Span{Samples: seconds * s.SampleRate, Longer: "divide"}
	if c.sound.only {
		s.Span.Longer, s.Span.Frames = "cut", "sound"
	}
	if faults := s.Check(); len(faults) > 0 {
		return s, faults[0]
	}
	return s, nil
}

// soundEncoder writes Whisper's encoder. The number of frames is that of a whole call,
// or 2·n + 1 for n features.
func (c Config) soundEncoder(t Weights) (m *onnx.Model, err error) {
	w := newWriter(c, t, "encoder")
	defer w.halted(&m, &err)
	g, s := w.g, c.sound
	in := onnx.TensorValue(Mel, onnx.FLOAT, 1, s.mels, 2*s.positions)
	if s.only {
		in = onnx.TensorValue(Mel, onnx.FLOAT, 1, s.mels, framesDim)
	}
	out := onnx.TensorValue(Features, onnx.FLOAT, 1, patchesDim, c.Width) // of all calls
	g.Inputs, g.Outputs = []onnx.Value{in}, []onnx.Value{out}
	x := w.step("conv1", Mel, s.mels, 1)
	x = g.Add("Transpose", []string{w.step("conv2", x, c.Width, 2)}, "steps", onnx.IntList("perm", 0, 2, 1))
	at := w.floats("positions", w.read(w.tower+"embed_positions.weight", s.positions, c.Width), 1, s.positions, c.Width)
	if s.only { // the last is of the frame after the sound
		x = g.Add("Slice", []string{x, w.ints("none", 0), w.ints("last", -1), w.ints("axis1", 1)}, "steps.sound")
		count := g.Add("Slice", []string{g.Add("Shape", []string{x}, "steps.shape"), w.ints("one", 1), w.ints("two", 2)}, "steps.count")
		at = g.Add("Slice", []string{at, w.ints("none", 0), count, w.ints("axis1", 1)}, "positions.sound")
	}
	x = g.Add("Add", []string{x, at}, "embedded")
	for i := range c.Layers {
		x = w.layer(i, x, "")
	}
	if s.pool > 1 {
		x = w.averaged(x)
	}
	g.Add("Identity", []string{w.norm(w.names.post, x, c.Width)}, Features)
	return w.m, w.err
}

// step writes a convolution of three steps and its activation.
func (w *writer) step(name, x string, in int, stride int64) string {
	at := w.tower + name
	y := w.g.Add("Conv", []string{x, w.constant(at+".weight", w.c.Width, in, 3), w.constant(at+".bias", w.c.Width)}, name,
		onnx.IntList("kernel_shape", 3), onnx.IntList("strides", stride), onnx.IntList("pads", 1, 1))
	return w.activated(name+".act", y, "gelu")
}

// averaged writes the means of neighbors; a rest is left out.
func (w *writer) averaged(x string) string {
	g, n := w.g, w.c.sound.pool
	count := g.Add("Slice", []string{g.Add("Shape", []string{x}, "pool.shape"), w.ints("one", 1), w.ints("two", 2)}, "pool.count")
	size := w.ints("pool", n)
	end := g.Add("Mul", []string{g.Add("Div", []string{count, size}, "pool.groups"), size}, "pool.end")
	x = g.Add("Slice", []string{x, w.ints("none", 0), end, w.ints("axis1", 1)}, "pool.even")
	x = g.Add("Reshape", []string{x, w.ints("pool.shape", 1, -1, n, w.c.Width)}, "pool.split")
	return g.Add("ReduceMean", []string{x}, "pooled", onnx.IntList("axes", 2), onnx.Int("keepdims", 0))
}

// soundProjector writes the part between features and vectors.
func (c Config) soundProjector(t Weights) (m *onnx.Model, err error) {
	w := newWriter(c, t, "projector")
	defer w.halted(&m, &err)
	g, at := w.g, w.names.projector
	g.Inputs = []onnx.Value{onnx.TensorValue(Features, onnx.FLOAT, 1, patchesDim, c.Width)}
	g.Outputs = []onnx.Value{onnx.TensorValue(Vectors, onnx.FLOAT, 1, vectorsDim, c.Into)}
	x := Features
	if c.Family == "qwen2_audio" {
		x = w.linear(at+"linear", x, c.Width, c.Into)
	} else {
		wide := c.Width * c.sound.stack
		x = g.Add("Reshape", []string{x, w.ints("stack", 1, -1, wide)}, "stacked")
		x = w.linear(at+"linear_2", w.activated(at+"act", w.linear(at+"linear_1", x, wide, c.Into), c.Act), c.Into, c.Into)
	}
	g.Add("Identity", []string{x}, Vectors)
	return w.m, w.err
}
