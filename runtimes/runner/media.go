package runner

import (
	"fmt"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// medium is an input that is no text, read.
type medium struct {
	part   *talk.Part
	data   []byte
	joins  builds.ModalityPart
	places int // the most it takes of the sequence
}

// media reads the inputs of a prompt that are no text.
func (r *Runner) media(prompt talk.Prompt) ([]medium, error) {
	var out []medium
	for _, piece := range prompt.Pieces {
		p := piece.Part
		if p == nil {
			continue
		}
		m := medium{part: p, data: p.Data}
		m.joins, _ = r.modality(p.Type)
		m.places = m.joins.TCap
		if p.Path != "" {
			if p.Data != nil {
				return nil, fmt.Errorf("the %s input %s has a path and data, one is wanted", p.Type, filepath.Base(p.Path))
			}
			data, err := fsx.ReadFile(p.Path, part.MaxInput)
			if err != nil {
				return nil, fmt.Errorf("reading the %s input: %w", p.Type, err)
			}
			m.data = data
		}
		if len(m.data) == 0 {
			return nil, fmt.Errorf("the %s input is empty: it wants a path or data", p.Type)
		}
		out = append(out, m)
	}
	return out, nil
}

// modality finds the encoder and projector for inputs of a kind.
func (r *Runner) modality(m abi.Modality) (builds.ModalityPart, bool) {
	all := r.build.Assembly.Modalities
	i := slices.IndexFunc(all, func(p builds.ModalityPart) bool { return p.Modality == m })
	if i < 0 {
		return builds.ModalityPart{}, false
	}
	return all[i], true
}

// roomy reports inputs that the sequence has no room for, before anything is
// loaded: each is counted with all the places that it may take.
func (r *Runner) roomy(prompt talk.Prompt, in []medium) error {
	most := r.build.Assembly.Tokens.MaxSeq
	if most <= 0 || len(in) == 0 {
		return nil // the core knows
	}
	text, places := 0, 0
	for _, piece := range prompt.Pieces {
		text += len(piece.Tokens)
	}
	for _, m := range in {
		places += min(max(m.places, 0), most)
	}
	if text+places >= most {
		return fmt.Errorf("%w: %d places of %d inputs and %d tokens of text, of a max_seq of %d", runtimes.ErrFull, places, len(in), text, most)
	}
	return nil
}
