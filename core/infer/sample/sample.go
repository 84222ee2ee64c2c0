// Package sample draws tokens from a model's logits.
//
// The order is llama.cpp's: a repetition penalty on the logits of recent
// tokens, then the candidates are narrowed to the TopK most likely, to the
// smallest set that holds TopP of the probability, and to those at least MinP
// times as likely as the most likely one; then the temperature, and a draw. A
// temperature of 0 takes the most likely token without a draw.
//
// [Sampler.Distribution] returns the probabilities that [Sampler.Sample] draws
// from; [Sampler.Follow] makes one sampler draw as another will, for
// speculative decoding. The same seed, logits and history give the same tokens.
package sample

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"mm-abi.org/mm/core/tensor"
)

// Options configures sampling, from a request or the command line to here. The
// zero value takes the most likely token.
type Options struct {
	// Temperature divides the logits; 0 takes the most likely token.
	Temperature float32 `json:"temperature,omitempty"`
	// TopK keeps the K most likely tokens; 0 keeps all.
	TopK int `json:"top_k,omitempty"`
	// TopP keeps the most likely tokens that together have this probability; 0
	// or 1 keeps all.
	TopP float32 `json:"top_p,omitempty"`
	// MinP keeps tokens at least this fraction as likely as the most likely
	// one; 0 keeps all.
	MinP float32 `json:"min_p,omitempty"`
	// RepeatPenalty divides positive logits of recent tokens and multiplies
	// negative ones. 0 or 1 does nothing.
	RepeatPenalty float32 `json:"repetition_penalty,omitempty"`
	// RepeatLast is the number of recent tokens. If zero, it is 64; if
	// negative, all.
	RepeatLast int `json:"repeat_last,omitempty"`
	// Seed of the draws.
	Seed uint64 `json:"seed,omitempty"`
}

// Check validates the options.
func (o Options) Check() error {
	number := func(name string, v, lo, hi float32) error {
		if !(v >= lo && v <= hi) {
			return fmt.Errorf("bad %s: got %v, want %v to %v", name, v, lo, hi)
		}
		return nil
	}
	var topK error
	if o.TopK < 0 {
		topK = fmt.Errorf("bad top-k: got %d, want 0 or more", o.TopK)
	}
	return errors.Join(
		number("temperature", o.Temperature, 0, 1e6), topK,
		number("top-p", o.TopP, 0, 1), number("min-p", o.MinP, 0, 1),
		number("the repetition penalty", o.RepeatPenalty, 0, 1e6),
	)
}

// Candidate is a token that may be drawn.
type Candidate struct {
	Token int32
	// P is the probability; those of a distribution sum to 1.
	P float64

	logit float32
}

// ErrNone reports that no token may be drawn: all logits are -Inf or NaN.
var ErrNone = errors.New("no token is allowed")

// Sampler draws tokens. It is not safe for concurrent use.
type Sampler struct {
	opt    Options
	source *rand.PCG
	rng    *rand.Rand
	logits []float32 // a copy that may be changed
	exps   []float32
	cands  []Candidate
	seen   map[int32]bool
}

// New returns a sampler; the options must pass Check.
func New(opt Options) (*Sampler, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	source := rand.NewPCG(opt.Seed, 0x9e3779b97f4a7c15)
	return &Sampler{opt: opt, source: source, rng: rand.New(source), seen: make(map[int32]bool)}, nil
}

// Follow makes the sampler's next draws equal to those of other, which is not
// modified.
func (s *Sampler) Follow(other *Sampler) { *s.source = *other.source }

// Sample draws the token that follows history.
func (s *Sampler) Sample(logits []float32, history []int32) (int32, error) {
	if s.opt.Temperature == 0 && !s.penalises() {
		return likeliest(logits)
	}
	d, err := s.Distribution(logits, history)
	if err != nil {
		return 0, err
	}
	return s.Draw(d), nil
}

// Draw draws a token of d at random, by its probabilities.
func (s *Sampler) Draw(d []Candidate) int32 {
	if len(d) == 1 {
		return d[0].Token
	}
	u := s.rng.Float64()
	for _, c := range d {
		if u < c.P {
			return c.Token
		}
		u -= c.P
	}
	return d[0].Token // rounding remainder
}

// Distribution returns the tokens that may follow history and their
// probabilities: the most likely first, and fully sorted if TopK or TopP is
// set. The slice is valid until the next call.
func (s *Sampler) Distribution(logits []float32, history []int32) ([]Candidate, error) {
	if s.penalises() {
		s.logits = append(s.logits[:0], logits...)
		logits = s.logits
		s.penalise(logits, history)
	}
	best, err := likeliest(logits)
	if err != nil {
		return nil, err
	}
	if s.opt.Temperature == 0 || math.IsInf(float64(logits[best]), 1) {
		s.cands = append(s.cands[:0], Candidate{Token: best, P: 1, logit: logits[best]})
		return s.cands, nil
	}
	s.choose(logits, best)
	softmax(s.cands, s.opt.Temperature)
	return s.cands, nil
}

// likeliest returns the token with the largest logit, the first of several.
func likeliest(logits []float32) (int32, error) {
	most := tensor.Max(logits)
	if !math.IsInf(float64(most), -1) {
		for i, v := range logits {
			if v == most {
				return int32(i), nil
			}
		}
	}
	return 0, ErrNone
}

func (s *Sampler) penalises() bool {
	return s.opt.RepeatPenalty != 0 && s.opt.RepeatPenalty != 1
}

func (s *Sampler) penalise(logits []float32, history []int32) {
	last := s.opt.RepeatLast
	if last == 0 {
		last = 64
	}
	if last > 0 && len(history) > last {
		history = history[len(history)-last:]
	}
	clear(s.seen)
	for _, t := range history {
		if t < 0 || int(t) >= len(logits) || s.seen[t] {
			continue
		}
		s.seen[t] = true
		if logits[t] > 0 {
			logits[t] /= s.opt.RepeatPenalty
		} else {
			logits[t] *= s.opt.RepeatPenalty
		}
	}
}

// choose sets s.cands to the tokens that pass TopK, TopP and MinP, the best
// first, and sorted if TopK or TopP is set.
func (s *Sampler) choose(logits []float32, best int32) {
	most := logits[best]
	// Tokens below MinP follow those above it in order, so they may be dropped
	// at the start, except for their part in the mass that TopP is a share of.
	floor := float32(math.Inf(-1))
	if s.opt.MinP > 0 {
		floor = most + float32(math.Log(float64(s.opt.MinP)))
	}
	switch topP := s.opt.TopP > 0 && s.opt.TopP < 1; {
	case s.opt.TopK > 0:
		s.largest(logits, s.opt.TopK)
		if topP {
			s.nucleus(most, mass(s.cands, most))
		}
	case topP:
		s.logits = append(s.logits[:0], logits...)
		for i, v := range s.logits {
			if v != v { // NaN
				s.logits[i] = float32(math.Inf(-1))
			}
		}
		logits = s.logits
		s.exps = append(s.exps[:0], logits...)
		total := float64(tensor.ExpSum(s.exps, s.exps, most))
		// Most of the mass is near the top; widen only if needed.
		for width := float32(2); ; width += 2 {
			s.above(logits, max(floor, most-width))
			if most-width <= floor || width > 128 || mass(s.cands, most) >= float64(s.opt.TopP)*total {
				break
			}
		}
		slices.SortFunc(s.cands, byLogit)
		s.nucleus(most, total)
	default:
		// The order does not matter here, and sorting a vocabulary takes longer
		// than a small model needs for a token.
		s.above(logits, floor)
		at := slices.IndexFunc(s.cands, func(c Candidate) bool { return c.Token == best })
		s.cands[0], s.cands[at] = s.cands[at], s.cands[0]
		return
	}
	for len(s.cands) > 1 && s.cands[len(s.cands)-1].logit < floor {
		s.cands = s.cands[:len(s.cands)-1]
	}
}

// above collects the tokens whose logits are at least floor.
func (s *Sampler) above(logits []float32, floor float32) {
	s.cands = s.cands[:0]
	for i, v := range logits {
		if v >= floor && !math.IsInf(float64(v), -1) {
			s.cands = append(s.cands, Candidate{Token: int32(i), logit: v})
		}
	}
}

// largest collects the k tokens with the largest logits, sorted.
func (s *Sampler) largest(logits []float32, k int) {
	s.cands = s.cands[:0]
	floor := float32(math.Inf(-1))
	for i, v := range logits {
		if !(v >= floor) || math.IsInf(float64(v), -1) {
			continue
		}
		if s.cands = append(s.cands, Candidate{Token: int32(i), logit: v}); len(s.cands)/2 >= k {
			// Keep the best k of 2k; the worst of them is the new threshold.
			slices.SortFunc(s.cands, byLogit)
			s.cands = s.cands[:k]
			floor = s.cands[k-1].logit
		}
	}
	slices.SortFunc(s.cands, byLogit)
	s.cands = s.cands[:min(k, len(s.cands))]
}

func byLogit(a, b Candidate) int {
	if c := cmp.Compare(b.logit, a.logit); c != 0 {
		return c
	}
	return cmp.Compare(a.Token, b.Token)
}

// mass returns the sum of the exponentials of the candidates' logits relative
// to most.
func mass(d []Candidate, most float32) float64 {
	var sum float64
	for _, c := range d {
		sum += math.Exp(float64(c.logit - most))
	}
	return sum
}

// nucleus keeps the first candidates that together have TopP of the total.
func (s *Sampler) nucleus(most float32, total float64) {
	var sum float64
	for i, c := range s.cands {
		if sum += math.Exp(float64(c.logit - most)); sum >= float64(s.opt.TopP)*total {
			s.cands = s.cands[:i+1]
			return
		}
	}
}

// softmax sets the probabilities of candidates, the first of which is the most
// likely.
func softmax(d []Candidate, temperature float32) {
	var sum float64
	for i := range d {
		d[i].P = math.Exp(float64(d[i].logit-d[0].logit) / float64(temperature))
		sum += d[i].P
	}
	for i := range d {
		d[i].P /= sum
	}
}
