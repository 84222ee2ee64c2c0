package decode

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/net"
)

// Recipe is a training run of stage 2. The JSON names are those of the YAML that
// `mm train` reads; zero fields take the defaults named. Paths are relative to
// the recipe.
type Recipe struct {
	Name  string `json:"name,omitempty"`
	Stage Stage  `json:"stage"`
	Seed  uint64 `json:"seed,omitempty"` // of weights, noise and the order of examples

	Modality  Modality  `json:"modality"` // of what is made: image, audio
	Core      Core      `json:"core"`
	Decoder   Decoder   `json:"decoder"`
	Objective Objective `json:"objective"`
	Data      Data      `json:"data"`

	BatchSize  int `json:"batch_size,omitempty"` // examples at a time; 16
	Accumulate int `json:"accumulate,omitempty"` // batches a step; 1

	train.Settings
}

// Stage is that of the playbook's training (§7.1): decoders are stage 2.
type Stage string

// Decoders is the stage of decoders.
const Decoders Stage = "2"

// UnmarshalJSON takes a number or a word.
func (s *Stage) UnmarshalJSON(b []byte) error {
	return train.UnmarshalStage(b, s)
}

// Modality is what is made.
type Modality string

// The modalities.
const (
	Image Modality = "image"
	Audio Modality = "audio"
)

// Core is the language model whose states are taken.
type Core struct {
	Base string `json:"base"` // a checkpoint or a GGUF file, with its tokenizer
	// Adapter is a GGUF file of low-rank changes that the core of the build runs
	// with: the states are those of both.
	Adapter string `json:"adapter,omitempty"`
	States  int    `json:"states,omitempty"` // T_dec, the last states of a prompt that are taken; 64
	// Noise is the deviation of what is added to the states while training, as a
	// share of their root mean square: what a core of fewer bits makes of them.
	Noise float64 `json:"noise,omitempty"`
}

// Decoder is the network: drawn anew, or that of a checkpoint. Its inputs are
// states [T_dec, d_model] and, of a flow, noise, of the shape of its only output,
// and time [1, 1].
type Decoder struct {
	Net  *net.Config `json:"net,omitempty"`
	From string      `json:"from,omitempty"` // a checkpoint of mm train of the same stage
	// Begin is the ONNX file of a module whose tensors net begins with, those of the
	// same name and shape.
	Begin string `json:"begin,omitempty"`
}

// The names of a decoder's inputs.
const (
	States = "states"
	Noise  = "noise"
	Time   = "time"
)

// Data says what is made: exactly one source.
type Data struct {
	Scene  *Scene  `json:"scene,omitempty"`  // pictures drawn by mm
	Speech *Speech `json:"speech,omitempty"` // words that a voice of espeak-ng says
}

// Speech is the sayings of train/dataset/sound. The target is their frames.
type Speech struct {
	Dir      string `json:"dir"` // folder that mm data speech --reader made
	Seed     uint64 `json:"seed,omitempty"`
	Examples int    `json:"examples,omitempty"` // to train on, gone through again and again; 0: no end
}

// Scene is the pictures of train/dataset/scene that words can ask for.
type Scene struct {
	Kinds    []string `json:"kinds,omitempty"` // with weights; none: shapes
	Seed     uint64   `json:"seed,omitempty"`
	Pixels   int      `json:"pixels,omitempty"`   // width and height; 96
	Examples int      `json:"examples,omitempty"` // to train on, gone through again and again; 0: no end
}

// WithDefaults is r with the defaults filled in.
func (r Recipe) WithDefaults() Recipe {
	train.SetDefault(&r.BatchSize, 16)
	train.SetDefault(&r.Accumulate, 1)
	train.SetDefault(&r.Core.States, 64)
	r.Settings = r.Settings.WithDefaults()
	r.Objective = r.Objective.withDefaults()
	return r
}

func (r Recipe) run() train.Run { return r.Settings.Run(r.Name, r.Accumulate) }

// The bounds of a recipe.
const (
	maxBatch    = 1 << 16
	maxStates   = 1 << 14
	maxExamples = 1 << 30
)

// Validate says everything that is wrong with r, defaults filled in first.
func (r Recipe) Validate() error {
	r = r.WithDefaults()
	errs := []error{r.run().Validate(), r.Settings.Validate(), r.Objective.validate(), r.Data.validate(r.Modality)}
	fault := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf(path, format, args...))
		}
	}
	fault("/stage", r.Stage != Decoders, "stage %q is not that of decoders, %s", r.Stage, Decoders)
	fault("/modality", r.Modality != Image && r.Modality != Audio, "the modality %q is none of image, audio", r.Modality)
	fault("/core/base", r.Core.Base == "", "base is missing: the core that reads the prompts")
	fault("/core/states", r.Core.States < 1 || r.Core.States > maxStates, "states is %d, 1 to %d", r.Core.States, maxStates)
	fault("/core/noise", !(r.Core.Noise >= 0 && r.Core.Noise <= 10), "noise %v is out of range, 0 to 10", r.Core.Noise)
	fault("/decoder", (r.Decoder.Net == nil) == (r.Decoder.From == ""), "a decoder is one of net, from")
	fault("/decoder/begin", r.Decoder.Begin != "" && r.Decoder.Net == nil, "begin belongs to net: what it begins with")
	fault("/batch_size", r.BatchSize < 1 || r.BatchSize > maxBatch, "batch_size is %d, 1 to %d", r.BatchSize, maxBatch)
	return errors.Join(errs...)
}

func (d Data) validate(m Modality) error {
	var errs []error
	fault := func(key string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf("/data"+key, format, args...))
		}
	}
	fault("", (d.Scene == nil) == (d.Speech == nil), "a source is one of scene, which draws pictures, and speech")
	if s := d.Speech; s != nil {
		fault("/speech", m != Audio, "speech is of the modality audio, not %s", m)
		fault("/speech/dir", s.Dir == "", "dir is missing: the folder that mm data speech --reader VOICE made")
		fault("/speech/examples", s.Examples < 0 || s.Examples > maxExamples, "examples is %d, 0 to %d", s.Examples, maxExamples)
	}
	if s := d.Scene; s != nil {
		fault("/scene", m != Image, "pictures are of the modality image, not %s", m)
		fault("/scene/examples", s.Examples < 0 || s.Examples > maxExamples, "examples is %d, 0 to %d", s.Examples, maxExamples)
	}
	return errors.Join(errs...)
}

// check holds a network against the recipe: its inputs and its output. width is
// the core's d_model.
func (r Recipe) check(n *net.Net[float32], width int) error {
	cfg := n.Config()
	out, err := made(n)
	if err != nil {
		return err
	}
	want := map[string]net.Port{States: {Rows: r.Core.States, Cols: width}}
	if r.Objective.Kind == Flow {
		want[Noise], want[Time] = out, net.Port{Rows: 1, Cols: 1}
	}
	var errs []error
	for _, p := range cfg.Inputs {
		w, ok := want[p.Name]
		delete(want, p.Name)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("the input %s is nothing that %s gives", p.Name, r.Objective.Kind))
		case w.Rows != p.Rows || w.Cols != p.Cols:
			errs = append(errs, fmt.Errorf("the input %s is [%d, %d], given are [%d, %d]", p.Name, p.Rows, p.Cols, w.Rows, w.Cols))
		}
	}
	for _, name := range []string{States, Noise, Time} {
		if _, ok := want[name]; ok {
			errs = append(errs, fmt.Errorf("there is no input %s", name))
		}
	}
	if len(cfg.Inputs) > 0 && cfg.Inputs[0].Name != States {
		errs = append(errs, fmt.Errorf("the first input is %s: a decoder's first takes the core's states", cfg.Inputs[0].Name))
	}
	return errors.Join(errs...)
}

// made is the shape of a network's only output.
func made(n *net.Net[float32]) (net.Port, error) {
	cfg := n.Config()
	if len(cfg.Outputs) != 1 {
		return net.Port{}, fmt.Errorf("a network of %d outputs: a decoder has one", len(cfg.Outputs))
	}
	name, _ := n.Output(cfg.Outputs[0])
	for _, s := range n.Steps() {
		if s.Name == name {
			return s.Gives, nil
		}
	}
	return net.Port{}, fmt.Errorf("no layer gives the output %s", cfg.Outputs[0])
}
