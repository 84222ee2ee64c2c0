package infer

import (
	"sync"
	"time"
)

// pace decides whether a draft model pays, from what tokens cost with it and
// without. It begins without, tries, and keeps to what was faster; what was
// slower is tried again after a while, and after four times as long each time
// that it is slower still. The decision changes how long a text takes, never what
// it says. It belongs to the draft model, so that what one text has found out
// the next need not; it is safe for concurrent use.
type pace struct {
	mu            sync.Mutex
	phase         phase
	left          int // steps of the phase to go
	patience      int // tokens without a draft before the next trial
	alone, helped rate
}

// phase is what the steps are for.
type phase int

const (
	measuring phase = iota // without the draft, for the cost of a token
	trying                 // with it, for the same
	without
	with
)

// How many steps a phase takes. A trial at twice the cost of a token takes as
// long as a dozen tokens.
const (
	warmSteps   = 1 // not counted: caches are cold, and the draft reads what it has missed
	countSteps  = 6
	fewSteps    = 2       // show that a trial is hopeless
	firstWait   = 64      // tokens until the next trial
	longestWait = 1 << 14 // and at most
	checkAfter  = 64      // steps with the draft until the cost without is measured anew
)

// rate is tokens and the time that they took.
type rate struct {
	tokens int
	time   time.Duration
}

func (r *rate) add(tokens int, d time.Duration) { r.tokens += tokens; r.time += d }

// faster reports whether a took less time a token than b.
func faster(a, b rate) bool {
	return a.tokens > 0 && b.tokens > 0 && float64(a.time)*float64(b.tokens) < float64(b.time)*float64(a.tokens)
}

// draft reports whether the next step is to be one with the draft.
func (p *pace) draft() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 && p.phase == measuring {
		p.left = warmSteps + countSteps
	}
	return p.phase == trying || p.phase == with
}

// walked takes account of a step without the draft.
func (p *pace) walked(tokens int, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.left--; p.phase {
	case trying, with: // another text has decided meanwhile
		p.left++
	case measuring:
		if p.left < countSteps {
			p.alone.add(tokens, d)
		}
		if p.left == 0 {
			p.enter(trying, warmSteps+countSteps)
			p.helped = rate{}
		}
	case without:
		if p.left <= 0 {
			p.alone = rate{}
			p.enter(measuring, warmSteps+countSteps)
		}
	}
}

// drafted takes account of a step with the draft, which gave tokens.
func (p *pace) drafted(tokens int, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase != trying && p.phase != with {
		return // another text has decided meanwhile
	}
	p.left--
	if p.left < countSteps || p.phase == with {
		p.helped.add(tokens, d)
	}
	if p.left > 0 && !p.hopeless() {
		return
	}
	switch {
	case !faster(p.helped, p.alone):
		p.patience = min(max(firstWait, 4*p.patience), longestWait)
		p.enter(without, p.patience)
	case p.phase == trying:
		p.patience = 0
		p.helped = rate{}
		p.enter(with, checkAfter)
	default:
		p.alone = rate{}
		p.enter(measuring, warmSteps+countSteps)
	}
}

// hopeless reports whether a trial need not go on: what was measured of it is
// far from what would pay.
func (p *pace) hopeless() bool {
	h := p.helped
	return p.phase == trying && p.left <= countSteps-fewSteps && !faster(rate{3 * h.tokens, 2 * h.time}, p.alone)
}

func (p *pace) enter(to phase, steps int) { p.phase, p.left = to, steps }
