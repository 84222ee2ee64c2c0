package infer

import (
	"sync"
	"time"
)

// pace decides whether a draft model pays, from the cost of steps with and
// without it and their tokens. It starts without the draft, then lets it guess
// one token at a time, which is cheap, and gives up if few guesses are
// accepted, whatever the clock; then it tries full proposals and keeps the
// faster way. A draft that did not pay is tried again later, after four times
// as long each time. The decision changes the time, never the text. It belongs
// to the draft model, so that later texts reuse its findings; it is safe for
// concurrent use.
type pace struct {
	mu            sync.Mutex
	phase         phase
	steps         int // remaining in the phase
	most          int // limit of tokens proposed at a time
	patience      int // tokens without a draft before the next trial
	alone, helped rate
}

// phase is the purpose of the current steps.
type phase int

const (
	measuring phase = iota // without the draft, for the cost of a token
	guessing               // with one proposed token, for its acceptance
	trying                 // with the draft, for the cost of a step
	without
	with
)

// Lengths of the phases, in steps.
const (
	warmSteps   = 1 // not counted: caches are cold
	countSteps  = 6
	guessSteps  = 4       // one token each
	guessRight  = 2       // accepted of them; half as many would not pay with any draft
	fewSteps    = 2       // show that a trial is hopeless
	guessReads  = 16      // tokens that a draft which has missed more reads for a guess
	firstWait   = 512     // tokens until the next trial
	longestWait = 1 << 14 // and the limit
	checkAfter  = 64      // steps with the draft before the cost without it is measured again
	lookAfter   = 16      // steps between checks of whether it still pays
)

// rate holds the tokens of some steps and the minimum time of one: steps do the
// same work, and the minimum excludes the load of a busy machine.
type rate struct {
	tokens, steps int
	least         time.Duration
}

func (r *rate) add(tokens int, d time.Duration) {
	if r.steps == 0 || d < r.least {
		r.least = d
	}
	r.tokens += tokens
	r.steps++
}

// faster reports whether a takes less than share of b's time per token.
func faster(a, b rate, share float64) bool {
	return a.tokens > 0 && b.tokens > 0 &&
		float64(a.least)*float64(a.steps)*float64(b.tokens) < share*float64(b.least)*float64(b.steps)*float64(a.tokens)
}

// proposals returns the number of tokens that the draft should propose in the
// next step, up to most; 0 is a step without it.
func (p *pace) proposals(most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = most
	switch p.phase {
	case measuring:
		if p.steps == 0 {
			p.steps = warmSteps + countSteps
		}
		return 0
	case guessing:
		return min(1, most)
	case trying, with:
		return most
	}
	return 0
}

// settled returns the number of tokens that the draft should propose if it was
// measured to pay, otherwise 0.
func (p *pace) settled(most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase == with {
		return most
	}
	return 0
}

// recordAlone records a step without the draft.
func (p *pace) recordAlone(tokens int, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.phase {
	case measuring:
		if p.steps--; p.steps < countSteps {
			p.alone.add(tokens, d)
		}
		if p.steps <= 0 {
			p.helped = rate{}
			p.enter(guessing, guessSteps)
		}
	case without:
		if p.steps--; p.steps <= 0 {
			p.alone = rate{}
			p.enter(measuring, warmSteps+countSteps)
		}
	}
}

// recordDraft records a step with the draft.
func (p *pace) recordDraft(tokens int, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.phase {
	case guessing:
		p.helped.add(tokens, d)
		switch {
		case p.helped.steps < guessSteps:
		case p.mayPay():
			p.helped = rate{}
			p.enter(trying, countSteps)
		default:
			p.giveUp()
		}
	case trying:
		p.steps--
		p.helped.add(tokens, d)
		switch {
		case p.steps == 0 && faster(p.helped, p.alone, 1):
			p.patience, p.helped = 0, rate{}
			p.enter(with, checkAfter)
		case p.steps == 0 || p.helped.steps >= fewSteps && !faster(p.helped, p.alone, 1.5):
			p.giveUp()
		}
	case with:
		p.helped.add(tokens, d)
		switch p.steps--; {
		case p.steps%lookAfter == 0 && !faster(p.helped, p.alone, 1):
			p.giveUp()
		case p.steps <= 0:
			p.alone = rate{}
			p.enter(measuring, warmSteps+countSteps)
		}
	}
}

// mayPay reports whether a full trial is worthwhile after the guesses: enough
// of them were accepted, and longer proposals would gain more tokens than time
// if as many were accepted and each took less than a single step.
func (p *pace) mayPay() bool {
	accepted := p.helped.tokens - p.helped.steps
	if accepted < guessRight {
		return false
	}
	right := float64(accepted+1) / (guessSteps + 1)
	tokens, all := 1.0, 1.0
	for range p.most {
		all *= right
		tokens += all
	}
	guess := float64(p.helped.least - p.alone.least)
	const less = 0.7
	return tokens*float64(p.alone.least) >= less*(float64(p.alone.least)+float64(p.most)*guess)
}

// giveUp suspends the draft for a while.
func (p *pace) giveUp() {
	p.patience = min(max(firstWait, 4*p.patience), longestWait)
	p.enter(without, p.patience)
}

func (p *pace) enter(to phase, steps int) { p.phase, p.steps = to, steps }
