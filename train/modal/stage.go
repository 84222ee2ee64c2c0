package modal

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/train"
)

// Stage is a stage of training (playbook §7.1). It determines the trained
// parts.
type Stage string

// The stages.
const (
	// Encode trains an encoder, by signs or with a temporary projector and
	// core. Stage 0 begins with that encoder.
	Encode Stage = "encoder"
	// Align is stage 0: projectors train, encoders and the core are frozen.
	Align Stage = "0"
	// Tune is stage 1: projectors and low-rank adapters of the core train,
	// encoders and the core itself are frozen.
	Tune Stage = "1"
	// Mix is stage 3: only the adapters train, on mixtures of text and media.
	Mix Stage = "3"
)

// stages returns all stages in the order of training.
func stages() []Stage { return []Stage{Encode, Align, Tune, Mix} }

// UnmarshalJSON decodes a number or a string.
func (s *Stage) UnmarshalJSON(b []byte) error {
	return train.UnmarshalStage(b, s)
}

func (s Stage) check() error {
	if !slices.Contains(stages(), s) {
		var names []string
		for _, one := range stages() {
			names = append(names, string(one))
		}
		return fmt.Errorf("unknown stage %q, want one of %s", s, strings.Join(names, ", "))
	}
	return nil
}

// The kinds of parts, prefixes of the names of their tensors.
const (
	EncoderPart   = "encoder"
	ProjectorPart = "projector"
	CorePart      = "core"
	AdapterPart   = "adapter" // of the core
)

// trains reports whether parts of a kind train in the stage.
func (s Stage) trains(kind string) bool {
	switch kind {
	case EncoderPart, CorePart:
		return s == Encode
	case ProjectorPart:
		return s != Mix
	}
	return s == Tune || s == Mix
}

// Frozen returns the frozen parts in words.
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
