package modal

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/train"
)

// Stage is a step of the playbook's training (§7.1): it says what trains.
type Stage string

// The stages.
const (
	// Encode trains an encoder, by signs, or with a projector and a core of its
	// own; those are thrown away. Stage 0 begins with it.
	Encode Stage = "encoder"
	// Align is stage 0: projectors train, encoders and the core are frozen.
	Align Stage = "0"
	// Tune is stage 1: projectors and low-rank adapters beside the core train,
	// encoders and the core itself are frozen.
	Tune Stage = "1"
	// Mix is stage 3: the adapters alone train, on mixtures of text and media.
	Mix Stage = "3"
)

// stages are all of them, in the order of training.
func stages() []Stage { return []Stage{Encode, Align, Tune, Mix} }

// UnmarshalJSON takes a number or a word.
func (s *Stage) UnmarshalJSON(b []byte) error {
	return train.UnmarshalStage(b, s)
}

func (s Stage) check() error {
	if !slices.Contains(stages(), s) {
		var names []string
		for _, one := range stages() {
			names = append(names, string(one))
		}
		return fmt.Errorf("stage %q is none of %s", s, strings.Join(names, ", "))
	}
	return nil
}

// The kinds of parts, which begin the names of their tensors.
const (
	EncoderPart   = "encoder"
	ProjectorPart = "projector"
	CorePart      = "core"
	AdapterPart   = "adapter" // of the core
)

// trains reports whether parts of a kind move in the stage.
func (s Stage) trains(kind string) bool {
	switch kind {
	case EncoderPart, CorePart:
		return s == Encode
	case ProjectorPart:
		return s != Mix
	}
	return s == Tune || s == Mix
}

// Frozen says in words what does not move.
func (s Stage) Frozen() string {
	switch s {
	case Align:
		return "encoders and the core"
	case Tune:
		return "encoders and the core beneath its adapters"
	case Mix:
		return "encoders, projectors and the core beneath its adapters"
	}
	return "nothing"
}
