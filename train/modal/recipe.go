package modal

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/net"
)

// Recipe describes a training run of one stage. The JSON names are those of the
// YAML that `mm train` reads. Comments state the default of a zero field. Paths
// are relative to the recipe.
type Recipe struct {
	Name  string `json:"name,omitempty"`
	Stage Stage  `json:"stage"`
	Seed  uint64 `json:"seed,omitempty"` // of weights, adapters and examples

	Modalities []Modality `json:"modalities"`
	Core       Core       `json:"core"`
	Data       Data       `json:"data"`

	BatchSize  int `json:"batch_size,omitempty"` // examples at a time; 8
	SeqLen     int `json:"seq_len,omitempty"`    // positions of each; 128
	Accumulate int `json:"accumulate,omitempty"` // batches per step; 1

	// Wait is the number of steps in which encoders and projectors do not
	// train, while the core learns the words with zeros in place of their
	// vectors. A core that does not yet understand the questions teaches an
	// encoder to map all inputs to the same output.
	Wait int `json:"wait,omitempty"`

	Precision train.Precision `json:"precision,omitempty"` // of the core's products; train.FP32

	train.Settings
}

// Modality is an encoder and its projector.
type Modality struct {
	Modality   Medium          `json:"modality"`             // image, audio
	Preprocess preprocess.Spec `json:"preprocess,omitempty"` // as in module.yaml; default: that of Encoder.From
	Encoder    Encoder         `json:"encoder"`
	Projector  Network         `json:"projector,omitempty"`
	// Heads train an encoder by signs, without a core and a projector.
	Heads []Head `json:"heads,omitempty"`
}

// Head is an output of the network for training, a row of logits for each
// position, that is not part of the encoder.
type Head struct {
	Output string  `json:"output"`
	Of     Target  `json:"of"`
	Weight float64 `json:"weight,omitempty"` // of its losses; 1
}

// Network is a network to train or to use: new, or that of a checkpoint.
type Network struct {
	Net  *net.Config `json:"net,omitempty"`  // one input, one output
	From string      `json:"from,omitempty"` // a checkpoint of mm train with a network of the same modality
	// Begin is a checkpoint, or the ONNX file of a module, that initializes the
	// tensors of net of the same name and shape.
	Begin string `json:"begin,omitempty"`
}

// Encoder is a network or an external ONNX file, which is never trained.
type Encoder struct {
	Network
	ONNX   string `json:"onnx,omitempty"`
	Output string `json:"output,omitempty"` // of the ONNX file; "" if there is only one
}

// Core is the language model that answers.
type Core struct {
	// Base is a checkpoint or a GGUF file, with its tokenizer. In the stage
	// "encoder" only the tokenizer is used.
	Base string `json:"base"`
	// Model is the shape of the temporary core of the stage "encoder".
	Model *llm.Config `json:"model,omitempty"`
	LoRA  *llm.LoRA   `json:"lora,omitempty"` // the adapters of stages 1 and 3
	From  string      `json:"from,omitempty"` // checkpoint with the initial adapters or the core of the stage "encoder"; or a GGUF adapter
	// Adapter, in stage 0, is a GGUF file of the low-rank adapter of the
	// build's core, frozen: a new projector learns with both.
	Adapter string `json:"adapter,omitempty"`
}

// Data configures the sources and their shares.
type Data struct {
	Scene *Scene `json:"scene,omitempty"` // images drawn by mm
	Sound *Sound `json:"sound,omitempty"` // sounds synthesized by mm, and speech
	Text  *Text  `json:"text,omitempty"`  // documents without media
	// Turns is the maximum number of questions about one example; 3.
	Turns int `json:"turns,omitempty"`
	// Ask lists kinds of questions, or patterns of path.Match; empty: all.
	Ask []string `json:"ask,omitempty"`
	// Silent is the share of examples without a question, answered by the
	// caption; 0.1, negative disables.
	Silent float64 `json:"silent,omitempty"`
	// Spell lists kinds of answers, or patterns of path.Match, that are learned
	// letter by letter, such as words/*.
	Spell []string `json:"spell,omitempty"`
	// Words is the weight of a second loss that pulls each vector towards the
	// core's embedding of the sign at its position (docs/STAGES.md), which the
	// core can repeat. It is for encoders that learned signs.
	Words float64 `json:"words,omitempty"`
	// Contrast is the weight of a loss that distinguishes the inputs of a batch by
	// their captions: SigLIP between the mean of an input's vectors and the mean
	// of the core's embeddings of the caption.
	Contrast float64 `json:"contrast,omitempty"`
	// Owners extends the second loss by the owner of a sign: the vector of a
	// bar's digit is pulled towards that digit and the bar's label, so that the
	// core finds it by the label in a question.
	Owners bool `json:"owners,omitempty"`
	// Late is the share of single questions before the input; 0.1, negative
	// disables.
	Late float64 `json:"late,omitempty"`
}

// Scene configures the images of train/dataset/scene.
type Scene struct {
	Kinds    []string `json:"kinds,omitempty"` // with weights, such as shapes:3; empty: all equally
	Seed     uint64   `json:"seed,omitempty"`
	Pixels   int      `json:"pixels,omitempty"`   // width and height; 128
	Plain    bool     `json:"plain,omitempty"`    // plain backgrounds without noise
	Small    bool     `json:"small,omitempty"`    // more small texts in training; held-out images do not change
	Examples int      `json:"examples,omitempty"` // in an epoch; 0: unlimited
	Weight   float64  `json:"weight,omitempty"`   // relative to the other sources; 1
}

// Sound configures the sounds of train/dataset/sound.
type Sound struct {
	Kinds    []string `json:"kinds,omitempty"` // with weights, such as digits:3; empty: all for which there is speech
	Seed     uint64   `json:"seed,omitempty"`
	Speech   string   `json:"speech,omitempty"`        // folder of the speech made by espeak-ng
	FSDD     string   `json:"fsdd,omitempty"`          // folder of recordings of the Free Spoken Digit Dataset
	Speakers []string `json:"speakers,omitempty"`      // for training; empty: all
	Held     []string `json:"held_speakers,omitempty"` // for evaluation; empty: all
	Examples int      `json:"examples,omitempty"`      // in an epoch; 0: unlimited
	Weight   float64  `json:"weight,omitempty"`        // relative to the other sources; 1
}

// Text configures documents, as in a language model's recipe.
type Text struct {
	train.Data
	Weight float64 `json:"weight,omitempty"` // 1
}

// WithDefaults returns r with the defaults filled in.
func (r Recipe) WithDefaults() Recipe {
	train.SetDefault(&r.BatchSize, 8)
	train.SetDefault(&r.SeqLen, 128)
	train.SetDefault(&r.Accumulate, 1)
	train.SetDefault(&r.Data.Turns, 3)
	train.SetDefault(&r.Data.Silent, 0.1)
	train.SetDefault(&r.Data.Late, 0.1)
	r.Settings = r.Settings.WithDefaults()
	return r
}

func (r Recipe) run() train.Run { return r.Settings.Run(r.Name, r.Accumulate) }

// Limits of a recipe.
const (
	maxPositions = 1 << 20 // batch_size·seq_len
	maxTurns     = 64
	maxExamples  = 1 << 30
)

// Validate reports all faults of r with the defaults filled in.
func (r Recipe) Validate() error {
	r = r.WithDefaults()
	errs := []error{train.At("/stage", r.Stage.check()), r.run().Validate(), r.Settings.Validate(), r.Data.validate(r.Modalities), r.Precision.Validate()}
	if r.Reads() {
		errs = append(errs, r.validateHeads())
	} else {
		errs = append(errs, r.Core.validate(r.Stage))
	}
	fault := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf(path, format, args...))
		}
	}
	fault("/batch_size", r.BatchSize < 1 || r.SeqLen < 8 || r.BatchSize > maxPositions || r.SeqLen > maxPositions || r.BatchSize*r.SeqLen > maxPositions,
		"out of range: batch_size %d, seq_len %d, want at least 1, 8 and at most %d positions per batch", r.BatchSize, r.SeqLen, maxPositions)
	fault("/wait", r.Wait < 0 || r.Wait > 0 && r.Stage == Align, "wait out of range: got %d, want at least 0, and 0 in stage 0", r.Wait)
	fault("/modalities", len(r.Modalities) == 0, "missing modalities")
	var seen []Medium
	for i, m := range r.Modalities {
		place := fmt.Sprintf("/modalities/%d", i)
		fault(place+"/modality", slices.Contains(seen, m.Modality), "duplicate modality %s", m.Modality)
		seen = append(seen, m.Modality)
		errs = append(errs, m.validate(r.Stage, place))
	}
	return errors.Join(errs...)
}

func (m Modality) validate(stage Stage, place string) error {
	var errs []error
	fault := func(key string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf(place+key, format, args...))
		}
	}
	fault("/modality", m.Modality != Image && m.Modality != Audio, "unknown modality %q, want image or audio", m.Modality)
	for _, f := range m.Preprocess.Check() {
		errs = append(errs, train.At(place+"/preprocess/"+f.Key, f))
	}
	fault("/preprocess", m.Preprocess.IsSound() != (m.Modality == Audio) && m.Encoder.From == "", "preprocess does not match modality %s: sample_rate is for audio", m.Modality)
	fault("/preprocess/dtype", m.Preprocess.Element() != "fp32" && m.Encoder.ONNX == "", "dtype %s, want fp32 for a trained network", m.Preprocess.Element())
	e := m.Encoder
	ways := 0
	for _, set := range []bool{e.Net != nil, e.From != "", e.ONNX != ""} {
		if set {
			ways++
		}
	}
	fault("/encoder", ways != 1, "want one of net, from, onnx")
	fault("/encoder/onnx", e.ONNX != "" && stage.trains(EncoderPart), "stage %s trains encoders, but an ONNX file is never trained", stage)
	fault("/encoder/net", e.Net != nil && !stage.trains(EncoderPart), "stage %s freezes encoders: a new one would be untrained; set from to its checkpoint", stage)
	fault("/encoder/output", e.Output != "" && e.ONNX == "", "output requires onnx")
	p := m.Projector
	fault("/encoder/begin", e.Begin != "" && e.Net == nil, "begin requires net")
	fault("/projector/begin", p.Begin != "" && p.Net == nil, "begin requires net")
	if len(m.Heads) > 0 {
		return errors.Join(errs...)
	}
	fault("/projector", (p.Net != nil) == (p.From != ""), "want one of net, from")
	fault("/projector/net", p.Net != nil && !stage.trains(ProjectorPart), "stage %s freezes projectors: a new one would be untrained; set from to its checkpoint", stage)
	return errors.Join(errs...)
}

func (c Core) validate(stage Stage) error {
	var errs []error
	fault := func(key string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf("/core"+key, format, args...))
		}
	}
	fault("/base", c.Base == "", "missing base: the tokenizer and, except in stage encoder, the weights")
	fault("/model", stage == Encode && c.Model == nil, "missing model: required in stage encoder")
	fault("/model", stage != Encode && c.Model != nil, "stage %s uses the core of base; model is for stage encoder", stage)
	fault("/lora", stage.trains(AdapterPart) && c.LoRA == nil, "missing lora: stage %s trains adapters", stage)
	fault("/lora", !stage.trains(AdapterPart) && c.LoRA != nil, "stage %s does not train adapters", stage)
	fault("/adapter", c.Adapter != "" && stage != Align, "adapter is frozen and for stage 0; to continue an adapter, set from and lora")
	fault("/from", c.From != "" && c.LoRA == nil && c.Model == nil, "from requires lora or model")
	if c.Model != nil {
		errs = append(errs, train.At("/core/model", c.Model.Validate()))
	}
	return errors.Join(errs...)
}

func (d Data) validate(in []Modality) error {
	var errs []error
	fault := func(key string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf("/data"+key, format, args...))
		}
	}
	has := func(m Medium) bool {
		return slices.ContainsFunc(in, func(one Modality) bool { return one.Modality == m })
	}
	weight := func(w float64) bool { return w >= 0 && w <= 1e6 }
	fault("", d.Scene == nil && d.Sound == nil && d.Text == nil, "missing source: want scene, sound or text")
	fault("", d.Scene == nil && has(Image), "missing scene: required for the image modality")
	fault("", d.Sound == nil && has(Audio), "missing sound: required for the audio modality")
	fault("/silent", !(d.Silent <= 1) || !(d.Late <= 1), "out of range: silent %v, late %v, want at most 1", d.Silent, d.Late)
	fault("/contrast", !(d.Contrast >= 0 && d.Contrast <= 1000), "contrast out of range: got %v, want 0 to 1000", d.Contrast)
	fault("/words", !(d.Words >= 0 && d.Words <= 1000), "words out of range: got %v, want 0 to 1000", d.Words)
	fault("/turns", d.Turns < 1 || d.Turns > maxTurns, "turns out of range: got %d, want 1 to %d", d.Turns, maxTurns)
	for key, list := range map[string][]string{"spell": d.Spell, "ask": d.Ask} {
		for i, p := range list {
			_, err := path.Match(p, "")
			fault(fmt.Sprintf("/%s/%d", key, i), err != nil, "invalid pattern %q", p)
		}
	}
	if s := d.Scene; s != nil {
		fault("/scene", !has(Image), "scene requires an image modality")
		fault("/scene/examples", s.Examples < 0 || s.Examples > maxExamples, "examples out of range: got %d, want 0 to %d", s.Examples, maxExamples)
		fault("/scene/weight", !weight(s.Weight), "weight out of range: %v", s.Weight)
	}
	if s := d.Sound; s != nil {
		fault("/sound", !has(Audio), "sound requires an audio modality")
		fault("/sound/examples", s.Examples < 0 || s.Examples > maxExamples, "examples out of range: got %d, want 0 to %d", s.Examples, maxExamples)
		fault("/sound/weight", !weight(s.Weight), "weight out of range: %v", s.Weight)
		for _, name := range s.Held {
			fault("/sound/held_speakers", slices.Contains(s.Speakers, name), "%s is in both speakers and held_speakers", name)
		}
	}
	if t := d.Text; t != nil {
		fault("/text/weight", !weight(t.Weight), "weight out of range: %v", t.Weight)
	}
	return errors.Join(errs...)
}
