package infer

import (
	"sync"
	"time"
)

// pace decides whether a draft model pays, from what steps cost with it and
// without, and how many tokens they give. It begins without; lets the draft
// guess one token at a time, which costs little, and gives it up where few of
// these stand, whatever the clock says; tries it in earnest, and keeps to what
// was faster. What did not pay is tried again after a while, and after four
// times as long each time that it does not. The decision changes how long a
// text takes, never what it says. It belongs to the draft model, so that what
// one text has found out the next need not; it is safe for concurrent use.
type pace struct {
	mu            sync.Mutex
	phase         phase
	left          int // steps of the phase to go
	most          int // tokens that it may propose at a time
	patience      int // tokens without a draft before the next trial
	alone, helped rate
}

// phase is what the steps are for.
type phase int

const (
	measuring phase = iota // without the draft, for the cost of a token
	guessing               // with one token of it, for whether it stands
	trying                 // with it, for the cost of a step
	without
	with
)

// How many steps a phase takes.
const (
	warmSteps   = 1 // not counted: caches are cold
	countSteps  = 6
	guessSteps  = 4       // one token each
	guessRight  = 2       // of them; half as many would not pay with any draft
	fewSteps    = 2       // show that a trial is hopeless
	guessReads  = 16      // tokens of the text that the draft has read for it, when it has missed more
	firstWait   = 512     // tokens until the next trial
	longestWait = 1 << 14 // and at most
	checkAfter  = 64      // steps with the draft until the cost without is measured anew
	lookAfter   = 16      // of these, until it is asked whether it still pays
)

// rate is the tokens of some steps and the least time that one of them took:
// a step always does the same, and what else a busy machine did meanwhile
// says nothing.
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

// faster reports whether a takes less than share of the time of b for a token.
func faster(a, b rate, share float64) bool {
	return a.tokens > 0 && b.tokens > 0 &&
		float64(a.least)*float64(a.steps)*float64(b.tokens) < share*float64(b.least)*float64(b.steps)*float64(a.tokens)
}

// proposals is how many tokens the draft is to propose in the next step, of at
// most so many; 0 is a step without it.
func (p *pace) proposals(most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = most
	switch p.phase {
	case measuring:
		if p.left == 0 {
			p.left = warmSteps + countSteps
		}
		return 0
	case guessing:
		return min(1, most)
	case trying, with:
		return most
	}
	return 0
}

// walked takes account of a step without the draft.
func (p *pace) walked(tokens int, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.phase {
	case measuring:
		if p.left--; p.left < countSteps {
			p.alone.add(tokens, d)
		}
		if p.left <= 0 {
			p.helped = rate{}
			p.enter(guessing, guessSteps)
		}
	case without:
		if p.left--; p.left <= 0 {
			p.alone = rate{}
			p.enter(measuring, warmSteps+countSteps)
		}
	}
}

// drafted takes account of a step with the draft, which gave tokens.
func (p *pace) drafted(tokens int, d time.Duration) {
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
		p.left--
		p.helped.add(tokens, d)
		switch {
		case p.left == 0 && faster(p.helped, p.alone, 1):
			p.patience, p.helped = 0, rate{}
			p.enter(with, checkAfter)
		case p.left == 0 || p.helped.steps >= fewSteps && !faster(p.helped, p.alone, 1.5):
			p.giveUp()
		}
	case with:
		p.helped.add(tokens, d)
		switch p.left--; {
		case p.left%lookAfter == 0 && !faster(p.helped, p.alone, 1):
			p.giveUp()
		case p.left <= 0:
			p.alone = rate{}
			p.enter(measuring, warmSteps+countSteps)
		}
	}
}

// mayPay reports whether it is worth a trial, after the guesses: enough of them
// stood, and more of them at a time would give more tokens than they take
// time, were as many to stand and each to take less than it took alone.
func (p *pace) mayPay() bool {
	stood := p.helped.tokens - p.helped.steps
	if stood < guessRight {
		return false
	}
	right := float64(stood+1) / (guessSteps + 1)
	tokens, all := 1.0, 1.0
	for range p.most {
		all *= right
		tokens += all
	}
	guess := float64(p.helped.least - p.alone.least)
	const less = 0.7
	return tokens*float64(p.alone.least) >= less*(float64(p.alone.least)+float64(p.most)*guess)
}

// giveUp leaves the draft alone for a while.
func (p *pace) giveUp() {
	p.patience = min(max(firstWait, 4*p.patience), longestWait)
	p.enter(without, p.patience)
}

func (p *pace) enter(to phase, steps int) { p.phase, p.left = to, steps }
