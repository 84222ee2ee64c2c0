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

// Recipe is a training run of one stage. The JSON names are those of the YAML
// that `mm train` reads; zero fields take the defaults named. Paths are relative
// to the recipe.
type Recipe struct {
	Name  string `json:"name,omitempty"`
	Stage Stage  `json:"stage"`
	Seed  uint64 `json:"seed,omitempty"` // of weights, adapters and examples

	Modalities []Modality `json:"modalities"`
	Core       Core       `json:"core"`
	Data       Data       `json:"data"`

	BatchSize  int `json:"batch_size,omitempty"` // examples at a time; 8
	SeqLen     int `json:"seq_len,omitempty"`    // positions of each; 128
	Accumulate int `json:"accumulate,omitempty"` // batches a step; 1

	// Wait is the steps that encoders and projectors wait for, while the core
	// learns the words with zeros in place of their vectors. A core that does not
	// know yet what is asked teaches an encoder to look the same at everything.
	Wait int `json:"wait,omitempty"`

	Precision train.Precision `json:"precision,omitempty"` // of the core's products; train.FP32

	train.Settings
}

// Modality is a way in: an encoder and the projector behind it.
type Modality struct {
	Modality   Medium          `json:"modality"`             // image, audio
	Preprocess preprocess.Spec `json:"preprocess,omitempty"` // as module.yaml states it; that of Encoder.From where it is not given
	Encoder    Encoder         `json:"encoder"`
	Projector  Network         `json:"projector,omitempty"`
	// Heads train an encoder by signs, without a core and a projector.
	Heads []Head `json:"heads,omitempty"`
}

// Head is an output of an encoder's network that is trained and left out of the
// encoder: a row of logits for each place.
type Head struct {
	Output string  `json:"output"`
	Of     Target  `json:"of"`
	Weight float64 `json:"weight,omitempty"` // of its losses; 1
}

// Network is a network to train or to use: drawn anew, or that of a checkpoint.
type Network struct {
	Net  *net.Config `json:"net,omitempty"`  // one input, one output
	From string      `json:"from,omitempty"` // a checkpoint of mm train, whose network of the same modality it is
	// Begin is a checkpoint, or the ONNX file of a module, whose tensors net begins
	// with, those of the same name and shape.
	Begin string `json:"begin,omitempty"`
}

// Encoder is a network, or a stranger's: an ONNX file, which is never trained.
type Encoder struct {
	Network
	ONNX   string `json:"onnx,omitempty"`
	Output string `json:"output,omitempty"` // of the ONNX file; "" is its only one
}

// Core is the language model that is asked.
type Core struct {
	// Base is a checkpoint or a GGUF file, with its tokenizer. In the stage
	// "encoder" it gives the tokenizer alone.
	Base string `json:"base"`
	// Model is the shape of the core that the stage "encoder" draws anew and
	// throws away.
	Model *llm.Config `json:"model,omitempty"`
	LoRA  *llm.LoRA   `json:"lora,omitempty"` // the adapters of stages 1 and 3
	From  string      `json:"from,omitempty"` // a checkpoint whose adapters, or whose core drawn anew, it begins with; or a GGUF adapter
	// Adapter is a GGUF file of low-rank changes that the core of the build runs
	// with and that does not move, in stage 0: a projector that joins a build learns
	// to speak to both.
	Adapter string `json:"adapter,omitempty"`
}

// Data says what is seen, heard and read: sources with their shares.
type Data struct {
	Scene *Scene `json:"scene,omitempty"` // pictures drawn by mm
	Sound *Sound `json:"sound,omitempty"` // sounds made by mm, and speech
	Text  *Text  `json:"text,omitempty"`  // documents without media
	// Turns are the most questions about one example; 3.
	Turns int `json:"turns,omitempty"`
	// Ask names the kinds of questions, or patterns of path.Match, that are asked;
	// none: all.
	Ask []string `json:"ask,omitempty"`
	// Silent is the share of examples with no question at all, which the caption
	// answers; 0.1, negative none.
	Silent float64 `json:"silent,omitempty"`
	// Spell names kinds of answers, or patterns of path.Match, that are learnt
	// letter by letter, such as words/*.
	Spell []string `json:"spell,omitempty"`
	// Words is the weight of a second loss, by which each vector comes near to the
	// core's own embedding of the sign that belongs at its place (docs/STAGES.md):
	// words that the core knows how to repeat. It is for encoders that learnt signs.
	Words float64 `json:"words,omitempty"`
	// Owners has the second loss tell whose sign it is, too: the vector of a bar's
	// digit comes near to that digit and the bar's label, so that the core finds it
	// by the word that a question says.
	Owners bool `json:"owners,omitempty"`
	// Late is the share of single questions that stand before what is asked about;
	// 0.1, negative none.
	Late float64 `json:"late,omitempty"`
}

// Scene is the pictures of train/dataset/scene.
type Scene struct {
	Kinds    []string `json:"kinds,omitempty"` // with weights, such as shapes:3; none: all alike
	Seed     uint64   `json:"seed,omitempty"`
	Pixels   int      `json:"pixels,omitempty"`   // width and height; 128
	Plain    bool     `json:"plain,omitempty"`    // even grounds without noise: what is easiest to see
	Small    bool     `json:"small,omitempty"`    // more small texts to learn from; what is held out stays as it is
	Examples int      `json:"examples,omitempty"` // to train on, gone through again and again; 0: no end
	Weight   float64  `json:"weight,omitempty"`   // of the source among the others; 1
}

// Sound is the sounds of train/dataset/sound.
type Sound struct {
	Kinds    []string `json:"kinds,omitempty"` // with weights, such as digits:3; none: all there is speech for
	Seed     uint64   `json:"seed,omitempty"`
	Speech   string   `json:"speech,omitempty"`        // folder of the speech that espeak-ng made
	FSDD     string   `json:"fsdd,omitempty"`          // folder of recordings of the Free Spoken Digit Dataset
	Speakers []string `json:"speakers,omitempty"`      // of it, to train on; none: all
	Held     []string `json:"held_speakers,omitempty"` // of it, to evaluate on; none: all
	Examples int      `json:"examples,omitempty"`      // to train on, gone through again and again; 0: no end
	Weight   float64  `json:"weight,omitempty"`        // of the source among the others; 1
}

// Text is documents, as a language model's recipe names them.
type Text struct {
	train.Data
	Weight float64 `json:"weight,omitempty"` // 1
}

// WithDefaults is r with the defaults filled in.
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

// The bounds of a recipe.
const (
	maxPositions = 1 << 20 // batch_size·seq_len
	maxTurns     = 64
	maxExamples  = 1 << 30
)

// Validate says everything that is wrong with r, defaults filled in first.
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
		"batch_size %d, seq_len %d: the first at least 1, the second at least 8, at most %d positions a batch", r.BatchSize, r.SeqLen, maxPositions)
	fault("/wait", r.Wait < 0 || r.Wait > 0 && r.Stage == Align, "wait is %d: not below 0, and 0 where nothing but projectors trains", r.Wait)
	fault("/modalities", len(r.Modalities) == 0, "no modality, so there is nothing to see or hear")
	var seen []Medium
	for i, m := range r.Modalities {
		place := fmt.Sprintf("/modalities/%d", i)
		fault(place+"/modality", slices.Contains(seen, m.Modality), "the modality %s is there twice", m.Modality)
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
	fault("/modality", m.Modality != Image && m.Modality != Audio, "the modality %q is none of image, audio", m.Modality)
	for _, f := range m.Preprocess.Check() {
		errs = append(errs, train.At(place+"/preprocess/"+f.Key, f))
	}
	fault("/preprocess", m.Preprocess.IsSound() != (m.Modality == Audio) && m.Encoder.From == "", "preprocess is not that of %s: a sample_rate makes it a sound's", m.Modality)
	fault("/preprocess/dtype", m.Preprocess.Element() != "fp32" && m.Encoder.ONNX == "", "dtype %s: a network that is trained here takes fp32", m.Preprocess.Element())
	e := m.Encoder
	ways := 0
	for _, set := range []bool{e.Net != nil, e.From != "", e.ONNX != ""} {
		if set {
			ways++
		}
	}
	fault("/encoder", ways != 1, "an encoder is one of net, from, onnx")
	fault("/encoder/onnx", e.ONNX != "" && stage.trains(EncoderPart), "an ONNX file is not trained: stage %s trains encoders", stage)
	fault("/encoder/net", e.Net != nil && !stage.trains(EncoderPart), "stage %s freezes encoders: one drawn anew would see nothing; name its checkpoint under from", stage)
	fault("/encoder/output", e.Output != "" && e.ONNX == "", "output belongs to onnx")
	p := m.Projector
	fault("/encoder/begin", e.Begin != "" && e.Net == nil, "begin belongs to net: what it begins with")
	fault("/projector/begin", p.Begin != "" && p.Net == nil, "begin belongs to net: what it begins with")
	if len(m.Heads) > 0 {
		return errors.Join(errs...)
	}
	fault("/projector", (p.Net != nil) == (p.From != ""), "a projector is one of net, from")
	fault("/projector/net", p.Net != nil && !stage.trains(ProjectorPart), "stage %s freezes projectors: one drawn anew would say nothing; name its checkpoint under from", stage)
	return errors.Join(errs...)
}

func (c Core) validate(stage Stage) error {
	var errs []error
	fault := func(key string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf("/core"+key, format, args...))
		}
	}
	fault("/base", c.Base == "", "base is missing: it gives the tokenizer, and but for the stage encoder the weights")
	fault("/model", stage == Encode && c.Model == nil, "the stage encoder draws a core of its own: model is missing")
	fault("/model", stage != Encode && c.Model != nil, "stage %s stands on the core of base: model belongs to the stage encoder", stage)
	fault("/lora", stage.trains(AdapterPart) && c.LoRA == nil, "stage %s trains adapters beside the core: lora is missing", stage)
	fault("/lora", !stage.trains(AdapterPart) && c.LoRA != nil, "stage %s trains no adapters", stage)
	fault("/adapter", c.Adapter != "" && stage != Align, "adapter is one that does not move, of stage 0; an adapter to go on with is from, beside lora")
	fault("/from", c.From != "" && c.LoRA == nil && c.Model == nil, "from gives adapters, or a core drawn anew, to begin with: lora or model is missing")
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
	fault("", d.Scene == nil && d.Sound == nil && d.Text == nil, "no source: scene draws pictures, sound makes sounds")
	fault("", d.Scene == nil && has(Image), "an image modality, and no source of pictures: scene")
	fault("", d.Sound == nil && has(Audio), "an audio modality, and no source of sounds: sound")
	fault("/silent", !(d.Silent <= 1) || !(d.Late <= 1), "silent %v, late %v: shares of at most 1", d.Silent, d.Late)
	fault("/words", !(d.Words >= 0 && d.Words <= 1000), "words is %v, 0 to 1000", d.Words)
	fault("/turns", d.Turns < 1 || d.Turns > maxTurns, "turns is %d, 1 to %d", d.Turns, maxTurns)
	for key, list := range map[string][]string{"spell": d.Spell, "ask": d.Ask} {
		for i, p := range list {
			_, err := path.Match(p, "")
			fault(fmt.Sprintf("/%s/%d", key, i), err != nil, "%q is no pattern", p)
		}
	}
	if s := d.Scene; s != nil {
		fault("/scene", !has(Image), "pictures, and no modality that sees them")
		fault("/scene/examples", s.Examples < 0 || s.Examples > maxExamples, "examples is %d, 0 to %d", s.Examples, maxExamples)
		fault("/scene/weight", !weight(s.Weight), "weight %v is out of range", s.Weight)
	}
	if s := d.Sound; s != nil {
		fault("/sound", !has(Audio), "sounds, and no modality that hears them")
		fault("/sound/examples", s.Examples < 0 || s.Examples > maxExamples, "examples is %d, 0 to %d", s.Examples, maxExamples)
		fault("/sound/weight", !weight(s.Weight), "weight %v is out of range", s.Weight)
		for _, name := range s.Held {
			fault("/sound/held_speakers", slices.Contains(s.Speakers, name), "%s is trained on and held out", name)
		}
	}
	if t := d.Text; t != nil {
		fault("/text/weight", !weight(t.Weight), "weight %v is out of range", t.Weight)
	}
	return errors.Join(errs...)
}
