package sound

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CodeWidth is the size of a word's code.
const CodeWidth = 64

// Reader is one voice with a single recording of every word of [SpokenWords]. A
// word is StretchFrames frames. The frames of all words are close to a space of
// CodeWidth dimensions; a word's code is its coordinates in the directions of
// largest variance, scaled to equal size over all words.
type Reader struct {
	Engine string // synthesizer
	Voice  string
	words  []string
	codes  map[string][]float32 // by word
	basis  []float32            // [CodeWidth, StretchFrames·FrameWidth]
	weight []float32            // squared norm of each direction in frames
}

// OpenReader reads the voice written by [Synthesize] for SpeechOptions.Reader.
func OpenReader(dir string) (*Reader, error) {
	p, err := OpenPack(filepath.Join(dir, PackFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no speech in %s: make it with mm data speech --reader VOICE %s", dir, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("opening speech in %s: %w", dir, err)
	}
	r, err := newReader(p)
	if err := errors.Join(err, p.Close()); err != nil {
		return nil, fmt.Errorf("speech in %s: %w", dir, err)
	}
	return r, nil
}

func newReader(p *Pack) (*Reader, error) {
	r := &Reader{Engine: p.Engine, words: SpokenWords(), codes: map[string][]float32{}}
	takes := map[string]*Take{}
	for i := range p.Takes {
		t := &p.Takes[i]
		if r.Voice == "" {
			r.Voice = t.Voice
		}
		if t.Voice != r.Voice || takes[t.Text] != nil {
			return nil, errors.New("not a single voice with every word once: make it with mm data speech --reader VOICE")
		}
		if t.Samples > StretchSamples {
			return nil, fmt.Errorf("%q has %d samples, want at most %d", t.Text, t.Samples, StretchSamples)
		}
		takes[t.Text] = t
	}
	missing := slices.DeleteFunc(SpokenWords(), func(w string) bool { return takes[w] != nil })
	if len(missing) > 0 {
		return nil, fmt.Errorf("missing %d words: %s", len(missing), strings.Join(missing[:min(len(missing), 5)], ", "))
	}
	a, frames := newAnalyser(), map[string][]float32{}
	for _, w := range r.words {
		frames[w] = a.frames(p.samples(takes[w]), StretchFrames)
	}
	return r, r.arrange(frames)
}

// familiar is the weight of digits relative to other words.
const familiar = 3

// arrange computes the basis of the words' frames, by singular value
// decomposition, and the codes.
func (r *Reader) arrange(frames map[string][]float32) error {
	const size = StretchFrames * FrameWidth
	n := len(r.words)
	all := make([][]float64, n)
	for i, w := range r.words {
		by := 1.0
		if i < len(digitWords()) {
			by = familiar
		}
		all[i] = make([]float64, size)
		for k, v := range frames[w] {
			all[i][k] = by * float64(v)
		}
	}
	directions := rightSingular(all)
	r.basis, r.weight = make([]float32, CodeWidth*size), make([]float32, CodeWidth)
	codes := make([]float64, n)
	for c := range CodeWidth {
		if c >= n || directions[c] == nil {
			return errors.New("too few distinct words")
		}
		direction := directions[c]
		// Of a direction and its opposite, use the one with a positive largest
		// number.
		if slices.Max(direction) < -slices.Min(direction) {
			for k := range direction {
				direction[k] = -direction[k]
			}
		}
		square := 0.0
		for i, w := range r.words {
			sum := 0.0
			for k, x := range frames[w] {
				sum += direction[k] * float64(x)
			}
			codes[i] = sum
			square += sum * sum / float64(n)
		}
		if square < 1e-9*float64(r.weight[0]) || square == 0 {
			return errors.New("too few distinct words")
		}
		by := math.Sqrt(square)
		for i, w := range r.words {
			r.codes[w] = append(r.codes[w], float32(codes[i]/by))
		}
		for k, x := range direction {
			r.basis[c*size+k] = float32(x * by)
		}
		r.weight[c] = float32(square)
	}
	return nil
}

// Codes returns the codes of words, one per slot, [Stretches, CodeWidth]; slots
// without a word are zero, which is silence.
func (r *Reader) Codes(words []string) []float32 {
	out := make([]float32, Stretches*CodeWidth)
	for i, w := range words[:min(len(words), Stretches)] {
		copy(out[i*CodeWidth:], r.codes[w])
	}
	return out
}

// Basis returns the frames of the numbers of a code, [CodeWidth,
// StretchFrames·FrameWidth]: a word's frames are its code times the basis.
func (r *Reader) Basis() []float32 { return r.basis }

// Nearest returns the words with the nearest frames to those of the codes, by
// sum of squares, or "" for silence.
func (r *Reader) Nearest(codes []float32) []string {
	var out []string
	for ; len(codes) >= CodeWidth; codes = codes[CodeWidth:] {
		nearest, least := "", float32(0)
		for c, v := range codes[:CodeWidth] {
			least += r.weight[c] * v * v
		}
		for _, w := range r.words {
			sum := float32(0)
			for c, v := range r.codes[w] {
				sum += r.weight[c] * (codes[c] - v) * (codes[c] - v)
			}
			if sum < least {
				nearest, least = w, sum
			}
		}
		out = append(out, nearest)
	}
	return out
}
