package decode

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/net"
)

// Recipe describes a training run of stage 2. The JSON names are those of the
// YAML that `mm train` reads. Comments state the default of a zero field. Paths
// are relative to the recipe.
type Recipe struct {
	Name  string `json:"name,omitempty"`
	Stage Stage  `json:"stage"`
	Seed  uint64 `json:"seed,omitempty"` // of weights, noise and the order of examples

	Modality  Modality  `json:"modality"` // of the output: image, audio
	Core      Core      `json:"core"`
	Decoder   Decoder   `json:"decoder"`
	Objective Objective `json:"objective"`
	Data      Data      `json:"data"`

	BatchSize  int `json:"batch_size,omitempty"` // examples at a time; 16
	Accumulate int `json:"accumulate,omitempty"` // batches per step; 1

	train.Settings
}

// Stage is the stage of training (playbook §7.1). Decoders are stage 2.
type Stage string

// Decoders is the stage of decoders.
const Decoders Stage = "2"

// UnmarshalJSON decodes a number or a string.
func (s *Stage) UnmarshalJSON(b []byte) error {
	return train.UnmarshalStage(b, s)
}

// Modality is the type of the output.
type Modality string

// The modalities.
const (
	Image Modality = "image"
	Audio Modality = "audio"
)

// Core is the language model that supplies the states.
type Core struct {
	Base string `json:"base"` // a checkpoint or a GGUF file, with its tokenizer
	// Adapter is a GGUF file of the low-rank adapter of the build's core; the
	// states are those of the adapted core.
	Adapter string `json:"adapter,omitempty"`
	States  int    `json:"states,omitempty"` // T_dec, the number of last states of a prompt; 64
	// Noise is the deviation of the noise added to the states in training,
	// relative to their root mean square. It models a quantized core.
	Noise float64 `json:"noise,omitempty"`
}

// Decoder is a network, new or that of a checkpoint. Its inputs are states
// [T_dec, d_model] and, for a flow, noise, of the shape of its only output, and
// time [1, 1].
type Decoder struct {
	Net  *net.Config `json:"net,omitempty"`
	From string      `json:"from,omitempty"` // a checkpoint of mm train of the same stage
	// Begin is the ONNX file of a module that initializes the tensors of net of
	// the same name and shape.
	Begin string `json:"begin,omitempty"`
}

// The names of a decoder's inputs.
const (
	States = "states"
	Noise  = "noise"
	Time   = "time"
)

// Data configures exactly one source.
type Data struct {
	Scene  *Scene  `json:"scene,omitempty"`  // images drawn by mm
	Speech *Speech `json:"speech,omitempty"` // words spoken by a voice of espeak-ng
}

// Speech is the sayings of train/dataset/sound. The target is their frames.
type Speech struct {
	Dir      string `json:"dir"` // folder written by mm data speech --reader
	Seed     uint64 `json:"seed,omitempty"`
	Examples int    `json:"examples,omitempty"` // in an epoch; 0: unlimited
}

// Scene is the scenes of train/dataset/scene that a prompt can describe.
type Scene struct {
	Kinds    []string `json:"kinds,omitempty"` // with weights; empty: shapes
	Seed     uint64   `json:"seed,omitempty"`
	Pixels   int      `json:"pixels,omitempty"`   // width and height; 96
	Examples int      `json:"examples,omitempty"` // in an epoch; 0: unlimited
}

// WithDefaults returns r with the defaults filled in.
func (r Recipe) WithDefaults() Recipe {
	train.SetDefault(&r.BatchSize, 16)
	train.SetDefault(&r.Accumulate, 1)
	train.SetDefault(&r.Core.States, 64)
	r.Settings = r.Settings.WithDefaults()
	r.Objective = r.Objective.withDefaults()
	return r
}

func (r Recipe) run() train.Run { return r.Settings.Run(r.Name, r.Accumulate) }

// Limits of a recipe.
const (
	maxBatch    = 1 << 16
	maxStates   = 1 << 14
	maxExamples = 1 << 30
)

// Validate reports all faults of r with the defaults filled in.
func (r Recipe) Validate() error {
	r = r.WithDefaults()
	errs := []error{r.run().Validate(), r.Settings.Validate(), r.Objective.validate(), r.Data.validate(r.Modality)}
	fault := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf(path, format, args...))
		}
	}
	fault("/stage", r.Stage != Decoders, "stage %q, want %s for decoders", r.Stage, Decoders)
	fault("/modality", r.Modality != Image && r.Modality != Audio, "unknown modality %q, want image or audio", r.Modality)
	fault("/core/base", r.Core.Base == "", "missing base: the core that reads the prompts")
	fault("/core/states", r.Core.States < 1 || r.Core.States > maxStates, "states out of range: got %d, want 1 to %d", r.Core.States, maxStates)
	fault("/core/noise", !(r.Core.Noise >= 0 && r.Core.Noise <= 10), "noise out of range: got %v, want 0 to 10", r.Core.Noise)
	fault("/decoder", (r.Decoder.Net == nil) == (r.Decoder.From == ""), "want one of net, from")
	fault("/decoder/begin", r.Decoder.Begin != "" && r.Decoder.Net == nil, "begin requires net")
	fault("/batch_size", r.BatchSize < 1 || r.BatchSize > maxBatch, "batch_size out of range: got %d, want 1 to %d", r.BatchSize, maxBatch)
	return errors.Join(errs...)
}

func (d Data) validate(m Modality) error {
	var errs []error
	fault := func(key string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf("/data"+key, format, args...))
		}
	}
	fault("", (d.Scene == nil) == (d.Speech == nil), "want one of scene, speech")
	if s := d.Speech; s != nil {
		fault("/speech", m != Audio, "speech requires modality audio, got %s", m)
		fault("/speech/dir", s.Dir == "", "missing dir: the folder written by mm data speech --reader VOICE")
		fault("/speech/examples", s.Examples < 0 || s.Examples > maxExamples, "examples out of range: got %d, want 0 to %d", s.Examples, maxExamples)
	}
	if s := d.Scene; s != nil {
		fault("/scene", m != Image, "scene requires modality image, got %s", m)
		fault("/scene/examples", s.Examples < 0 || s.Examples > maxExamples, "examples out of range: got %d, want 0 to %d", s.Examples, maxExamples)
	}
	return errors.Join(errs...)
}

// check checks the inputs and the output of a network against the recipe. width
// is the core's d_model.
func (r Recipe) check(n *net.Net[float32], width int) error {
	cfg := n.Config()
	out, err := outputShape(n)
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
			errs = append(errs, fmt.Errorf("unknown input %s for %s", p.Name, r.Objective.Kind))
		case w.Rows != p.Rows || w.Cols != p.Cols:
			errs = append(errs, fmt.Errorf("input %s: got [%d, %d], want [%d, %d]", p.Name, p.Rows, p.Cols, w.Rows, w.Cols))
		}
	}
	for _, name := range []string{States, Noise, Time} {
		if _, ok := want[name]; ok {
			errs = append(errs, fmt.Errorf("missing input %s", name))
		}
	}
	if len(cfg.Inputs) > 0 && cfg.Inputs[0].Name != States {
		errs = append(errs, fmt.Errorf("first input is %s, want states", cfg.Inputs[0].Name))
	}
	return errors.Join(errs...)
}

// outputShape returns the shape of a network's only output.
func outputShape(n *net.Net[float32]) (net.Port, error) {
	cfg := n.Config()
	if len(cfg.Outputs) != 1 {
		return net.Port{}, fmt.Errorf("network has %d outputs, want one", len(cfg.Outputs))
	}
	name, _ := n.Output(cfg.Outputs[0])
	for _, s := range n.Steps() {
		if s.Name == name {
			return s.Gives, nil
		}
	}
	return net.Port{}, fmt.Errorf("unknown output %s", cfg.Outputs[0])
}
