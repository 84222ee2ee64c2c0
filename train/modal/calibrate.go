package modal

import (
	"errors"

	"mm-abi.org/mm/core/preprocess"
)

// Inputs returns at most n of the first training examples of a medium as the
// inputs of the checkpoint's encoder, for the calibration of ranges. dir is the
// folder of the recipe's paths, by default as recorded. Videos are skipped.
func (c *Checkpoint) Inputs(m Medium, n int, dir string) (inputs []*preprocess.Tensor, err error) {
	b, err := c.built(m)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		dir = c.Dir()
	}
	s, err := openSources(c.Perception.Recipe.Data, trainSplit, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	const tries = 32 // per input: a mixture may have few of this medium
	for i := 0; i < tries*n && len(inputs) < n && len(s.media) > 0; i++ {
		e := s.turn(i)
		if e.Modality != m || e.Raster == nil && e.Wave == nil {
			continue
		}
		t, err := prepare(&b.Preprocess, e)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, t)
	}
	return inputs, nil
}
