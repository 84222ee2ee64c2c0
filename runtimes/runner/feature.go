package runner

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/talk"
)

// maxMedia bounds an image or a sound in bytes.
const maxMedia = 256 << 20

// feature is what an input comes to for the core.
type feature struct {
	vectors []float32 // n × d_model
	id      int32     // of each of its positions: below zero, as no token is
	assumed []string  // what the encoder's manifest did not say
}

// key is an input by its content, for one modality.
type key struct {
	modality abi.Modality
	sum      [sha256.Size]byte
}

// features remembers the vectors of inputs that were encoded, those used last.
type features struct {
	mu    sync.Mutex
	held  map[key]feature
	order []key // the one used last at the end
	size  int   // numbers held
	last  int32 // the id given last
}

// maxFeatures bounds the numbers that features holds: 64 MiB of them.
const maxFeatures = 16 << 20

func (c *features) get(k key) (feature, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.held[k]
	if ok {
		c.order = append(slices.DeleteFunc(c.order, func(o key) bool { return o == k }), k)
	}
	return f, ok
}

// put remembers vectors, forgets those of longest ago where there are too many,
// and gives them an id. What another put meanwhile stays.
func (c *features) put(k key, vectors []float32, assumed []string) feature {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.held[k]; ok {
		return f
	}
	c.last--
	f := feature{vectors, c.last, assumed}
	if c.held == nil {
		c.held = map[key]feature{}
	}
	c.held[k], c.size = f, c.size+len(vectors)
	c.order = append(c.order, k)
	for c.size > maxFeatures && len(c.order) > 1 {
		c.size -= len(c.held[c.order[0]].vectors)
		delete(c.held, c.order[0])
		c.order = c.order[1:]
	}
	return f
}

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
			data, err := fsx.ReadFile(p.Path, maxMedia)
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

// project gives the vectors of an input: encoder, then projector.
func (r *Runner) project(ctx context.Context, m medium, width int) (feature, error) {
	k := key{m.part.Type, sha256.Sum256(m.data)}
	if f, ok := r.features.get(k); ok {
		return f, nil
	}
	enc, proj := r.functions[m.joins.Encoder.Name], r.functions[m.joins.Projector.Name]
	if enc == nil || proj == nil { // an assembly that calls them something else
		return feature{}, fmt.Errorf("reading the %s input: %s and %s are no encoder and projector", m.part.Type, m.joins.Encoder.ID(), m.joins.Projector.ID())
	}
	result, err := r.compute(ctx, enc, map[string]Given{"": {Input: modality.Input{Data: m.data}}})
	if err != nil {
		return feature{}, fmt.Errorf("reading the %s input: %w", m.part.Type, err)
	}
	out, err := r.pass(ctx, enc, proj, result.Outputs)
	if err != nil {
		return feature{}, fmt.Errorf("reading the %s input: %w", m.part.Type, err)
	}
	v, err := vectors(proj, out, m.joins.TCap, width)
	if err != nil {
		return feature{}, fmt.Errorf("reading the %s input: %w", m.part.Type, err)
	}
	return r.features.put(k, v, result.Assumed), nil
}

// pass runs a projector on what an encoder gave.
func (r *Runner) pass(ctx context.Context, enc, proj *function, given map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if err := r.open(ctx, proj); err != nil {
		return nil, err
	}
	in, err := connect(enc, proj, given)
	if err != nil {
		return nil, err
	}
	out, err := proj.model.Run(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("running %s on %s: %w", proj.part.ID(), proj.engine.Name(), err)
	}
	return out, nil
}
