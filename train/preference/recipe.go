package preference

import (
	"errors"
	"fmt"
	"slices"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/llm"
)

// Stage is the stage of training: tool distillation, the second half of stage 2
// (playbook §7.1).
type Stage string

// Preference is the stage of preferences.
const Preference Stage = "preference"

// UnmarshalJSON decodes a number or a string.
func (s *Stage) UnmarshalJSON(b []byte) error { return train.UnmarshalStage(b, s) }

// Recipe describes a run that learns preferences. The JSON names are those of
// the YAML that `mm train` reads. Comments state the default of a zero field.
// Paths are relative to the recipe.
type Recipe struct {
	Name  string `json:"name,omitempty"`
	Stage Stage  `json:"stage"`
	Seed  uint64 `json:"seed,omitempty"` // of adapters and the order of pairs

	Core      Core      `json:"core"`
	Objective Objective `json:"objective,omitempty"`
	Data      Data      `json:"data"`

	BatchSize  int `json:"batch_size,omitempty"` // pairs at a time; 8
	SeqLen     int `json:"seq_len,omitempty"`    // positions of a prompt and an answer; 128
	Accumulate int `json:"accumulate,omitempty"` // batches per step; 1

	Precision train.Precision `json:"precision,omitempty"` // of the core's products; train.FP32

	train.Settings
}

// Core is the language model that learns. The reference is its state before the
// first step.
type Core struct {
	Base string `json:"base"` // a checkpoint or a GGUF file, with its tokenizer
	// Adapter is a GGUF file or a PEFT folder of a low-rank adapter that is
	// merged first.
	Adapter string    `json:"adapter,omitempty"`
	LoRA    *llm.LoRA `json:"lora,omitempty"` // adapters to train; without, every weight trains
	// From initializes the adapters: a GGUF adapter of the same rank and scale.
	From string `json:"from,omitempty"`
}

// Data configures the pairs.
type Data struct {
	// Files hold a JSON object with "prompt", "chosen" and "rejected" per line.
	Files   []string `json:"files,omitempty"`
	Errands *Errands `json:"errands,omitempty"`
	HeldOut float64  `json:"held_out,omitempty"` // share of the files' pairs; 0.05, negative disables
	// ControlTokens parses control tokens in the files' texts as such. It is for
	// trusted text.
	ControlTokens bool `json:"control_tokens,omitempty"`
}

// Errands configures questions that a tool answers (train/dataset/synth), with
// the right call and a wrong one. Evaluation uses numbers and wordings that no
// pair has.
type Errands struct {
	N     int      `json:"n,omitempty"` // pairs; 2000
	Seed  uint64   `json:"seed,omitempty"`
	Kinds []string `json:"kinds,omitempty"` // of synth.ErrandKinds; empty: all
	// Own makes the model's own wrong greedy answers the rejected ones.
	Own bool `json:"own,omitempty"`
}

// Limits of a recipe.
const (
	maxPositions = 1 << 20 // answers of a batch · seq_len
	maxPairs     = 1 << 20
)

// WithDefaults returns r with the defaults filled in.
func (r Recipe) WithDefaults() Recipe {
	train.SetDefault(&r.BatchSize, 8)
	train.SetDefault(&r.SeqLen, 128)
	train.SetDefault(&r.Accumulate, 1)
	train.SetDefault(&r.Data.HeldOut, 0.05)
	if e := r.Data.Errands; e != nil {
		c := *e
		train.SetDefault(&c.N, 2000)
		r.Data.Errands = &c
	}
	r.Objective = r.Objective.withDefaults()
	r.Settings = r.Settings.WithDefaults()
	return r
}

func (r Recipe) run() train.Run { return r.Settings.Run(r.Name, r.Accumulate) }

// Validate reports all faults of r with the defaults filled in.
func (r Recipe) Validate() error {
	r = r.WithDefaults()
	errs := []error{r.run().Validate(), r.Settings.Validate(), r.Objective.validate(), r.Data.validate(), r.Precision.Validate()}
	fault := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf(path, format, args...))
		}
	}
	fault("/stage", r.Stage != Preference, "stage %q, want %s", r.Stage, Preference)
	fault("/core/base", r.Core.Base == "", "missing base: the core that learns")
	fault("/core/adapter", r.Core.Adapter != "" && r.Core.LoRA != nil && r.Core.LoRA.Quantized, "adapter cannot be merged into a quantized base")
	fault("/core/from", r.Core.From != "" && r.Core.LoRA == nil, "from requires lora")
	rows := r.Objective.Rows()
	fault("/batch_size", r.BatchSize < 1 || r.SeqLen < 8 || r.BatchSize > maxPositions || r.SeqLen > maxPositions || r.BatchSize*rows*r.SeqLen > maxPositions,
		"out of range: batch_size %d, seq_len %d, want at least 1, 8 and at most %d positions per batch of %d answers", r.BatchSize, r.SeqLen, maxPositions, rows)
	return errors.Join(errs...)
}

func (d Data) validate() error {
	var errs []error
	fault := func(key string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf("/data"+key, format, args...))
		}
	}
	fault("", len(d.Files) == 0 && d.Errands == nil, "missing pairs: want files or errands")
	fault("/held_out", !(d.HeldOut < 1), "held_out out of range: got %v, want below 1", d.HeldOut)
	if e := d.Errands; e != nil {
		fault("/errands/n", e.N < 1 || e.N > maxPairs, "n out of range: got %d, want 1 to %d", e.N, maxPairs)
		for i, k := range e.Kinds {
			fault(fmt.Sprintf("/errands/kinds/%d", i), !slices.Contains(synth.ErrandKinds(), k), "unknown errands %q, want one of %v", k, synth.ErrandKinds())
		}
	}
	return errors.Join(errs...)
}
