package modal

import (
	"fmt"

	"mm-abi.org/mm/core/preprocess"
)

// Video is a film: its frames go through the modality of pictures, and the means
// of the vectors of either half stand between its markers, the first half's first
// (params.temporal: halves of a projector). Nothing goes back from them into the
// projector, which learns on pictures; the core learns to read them.
const Video Medium = "video"

// halves of a film's frames have vectors each.
const halves = 2

// medium is what an example is shown as: one with frames as a film.
func medium(e Example) Medium {
	if len(e.Frames) > 0 {
		return Video
	}
	return e.Modality
}

// eye is the modality whose networks look at m.
func eye(m Medium) Medium {
	if m == Video {
		return Image
	}
	return m
}

// film prepares the frames of a film for the encoder.
func (s *sense) film(frames []*preprocess.Raster) (item, error) {
	if len(frames) < halves {
		return item{}, fmt.Errorf("a film of %d frames has no halves", len(frames))
	}
	var it item
	for _, f := range frames {
		one, err := s.item(Example{Modality: s.modality, Raster: f})
		if err != nil {
			return item{}, err
		}
		one.key = -1
		it.frames = append(it.frames, one)
	}
	return it, nil
}

// films gives the vectors of films, one behind the other: [2·rows, cols] each.
// What the networks gave for other items is lost.
func (p *Perception) films(b *batch) ([]float32, error) {
	var out []float32
	for _, it := range b.items[Video] {
		s := p.sense(Image)
		size := s.proj.rows() * s.proj.cols()
		sums := make([]float32, halves*size)
		if b.blank {
			out = append(out, sums...)
			continue
		}
		n := len(it.frames)
		for from := 0; from < n; from += s.proj.B {
			some := it.frames[from:min(n, from+s.proj.B)]
			if err := s.look(p.ctx, some); err != nil {
				return nil, err
			}
			for i := range some {
				sum, of := sums[:size], n/halves
				if from+i >= of {
					sum, of = sums[size:], n-of
				}
				for k, v := range s.proj.result(nil, i) {
					sum[k] += v / float32(of)
				}
			}
		}
		out = append(out, sums...)
	}
	return out, nil
}
