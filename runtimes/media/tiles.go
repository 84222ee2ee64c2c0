package media

import (
	"context"
	"fmt"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// divided returns the preprocessing of an encoder's input that has a property, or nil.
func divided(m *modules.Manifest, has func(s *preprocess.Spec) bool) *preprocess.Spec {
	if m == nil {
		return nil
	}
	for _, p := range m.FreeInputs() {
		if spec, ok := m.Preprocess[p.Name]; ok && has(&spec) {
			return &spec
		}
	}
	return nil
}

// sequence returns how the vectors of an input join the text, or nil.
func (s *Senses) sequence(m abi.Modality) *modules.Sequence {
	joins, ok := s.modality(m)
	if !ok || s.Build.Manifests[joins.Projector.Name] == nil {
		return nil
	}
	return s.Build.Manifests[joins.Projector.Name].Sequence
}

// Markers returns the texts of the core's template for the inputs of a build.
func Markers(b map[string]*modules.Manifest) map[abi.Modality]string {
	out := map[abi.Modality]string{}
	for _, m := range b {
		if m != nil && m.Type == abi.Projector && m.Sequence != nil && m.Sequence.Marker != "" {
			out[m.Modality] = m.Sequence.Marker
		}
	}
	return out
}

// Mutual reports whether the vectors of a run of a modality see each other.
func (s *Senses) Mutual(m abi.Modality) bool { return s.sequence(m).Mutual() }

// Prefix reports whether all positions of a prompt with an input of a modality see
// each other.
func (s *Senses) Prefix(m abi.Modality) bool { return s.sequence(m).Prefix() }

// Layout returns the texts around the runs of an input's vectors, or nil if its
// projector declares none. Of an image in tiles it reads the size.
func (s *Senses) Layout(p *talk.Part) ([]string, error) {
	seq := s.sequence(p.Type)
	if seq == nil {
		return nil, nil
	}
	if seq.ByRow() {
		g, err := s.fitted(p)
		if err != nil {
			return nil, err
		}
		if g == nil {
			return nil, fmt.Errorf("rows of the %s input are unknown: its encoder does not fit images", p.Type)
		}
		return seq.Rows(g.rows), nil
	}
	joins, _ := s.modality(p.Type)
	spec := divided(s.Build.Manifests[joins.Encoder.Name], func(s *preprocess.Spec) bool { return s.Tiles != nil })
	if spec == nil || p.Type != abi.Image || seq.Mosaic() {
		return seq.Texts(0, 0), nil
	}
	w, h, err := imageSize(p)
	if err != nil {
		return nil, err
	}
	g := spec.Tiles.Grid(w, h)
	return seq.Texts(g.Rows, g.Columns), nil
}

// grid is the rows and columns of vectors of an image.
type grid struct{ rows, columns int }

// fitted returns the grid of an image whose encoder fits its size, or nil.
func (s *Senses) fitted(p *talk.Part) (*grid, error) {
	joins, _ := s.modality(p.Type)
	spec := divided(s.Build.Manifests[joins.Encoder.Name], func(s *preprocess.Spec) bool { return s.Fit != nil })
	if spec == nil || p.Type != abi.Image {
		return nil, nil
	}
	w, h, err := imageSize(p)
	if err != nil {
		return nil, err
	}
	if w, h, err = spec.Fit.Size(w, h); err != nil {
		return nil, fmt.Errorf("reading the %s: %w", named(*p), err)
	}
	return &grid{h / spec.Fit.Multiple, w / spec.Fit.Multiple}, nil
}

// imageSize reads the size of an image.
func imageSize(p *talk.Part) (w, h int, err error) {
	data := p.Data
	if p.Path != "" {
		if data, err = fsx.ReadFile(p.Path, part.MaxInput); err != nil {
			return 0, 0, fmt.Errorf("reading the %s input: %w", p.Type, err)
		}
	}
	if w, h, err = preprocess.ImageSize(data); err != nil {
		return 0, 0, fmt.Errorf("reading the %s: %w", named(*p), err)
	}
	return w, h, nil
}

// tiles cuts an image into the inputs of an encoder.
func (e *Encoded) tiles(ctx context.Context, spec *preprocess.Spec) ([]modality.Input, error) {
	r, err := preprocess.DecodeImage(e.data)
	if err != nil {
		return nil, err
	}
	tensors, _, err := spec.FromTiles(ctx, r)
	if err != nil {
		return nil, err
	}
	if e.mosaic == nil && len(tensors) != e.Runs {
		return nil, fmt.Errorf("image has %d tiles, the prompt %d", len(tensors), e.Runs)
	}
	var out []modality.Input
	for _, t := range tensors {
		x := runtimes.Tensor{Type: runtimes.Elem(t.DType), Data: t.Data}
		for _, d := range t.Shape {
			x.Shape = append(x.Shape, int64(d))
		}
		out = append(out, modality.Input{Tensor: &x})
	}
	return out, nil
}
