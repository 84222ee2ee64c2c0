package modal

import (
	"fmt"

	"mm-abi.org/mm/core/preprocess"
)

// Video is a video: its frames go through the image modality, and its vectors
// are the means over the first and the second half of the frames, in this order
// (params.temporal: halves of a projector). No gradient goes from them to the
// projector, which learns from images; the core learns to read them.
const Video Medium = "video"

// halves is the number of parts of a video that have separate vectors.
const halves = 2

// medium returns the medium of an example: video if it has frames.
func medium(e Example) Medium {
	if len(e.Frames) > 0 {
		return Video
	}
	return e.Modality
}

// eye returns the modality whose networks process m.
func eye(m Medium) Medium {
	if m == Video {
		return Image
	}
	return m
}

// video prepares the frames of a video for the encoder.
func (s *sense) video(frames []*preprocess.Raster) (item, error) {
	if len(frames) < halves {
		return item{}, fmt.Errorf("video has %d frames, want at least %d", len(frames), halves)
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

// videos returns the vectors of videos, [2·rows, cols] each. It overwrites the
// outputs of the networks.
func (p *Perception) videos(b *batch) ([]float32, error) {
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
			part := it.frames[from:min(n, from+s.proj.B)]
			if err := s.look(p.ctx, part); err != nil {
				return nil, err
			}
			for i := range part {
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
