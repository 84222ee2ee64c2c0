package study

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"encoding/json"

	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/train"
)

// View is a run as its chain holds it.
type View struct {
	Study  Study
	Report chain.Report
	dir    string
	at     *state
}

// Open verifies the chain of the run in dir and reads it. It takes no lock: the run may go
// on. The error of a run that was killed while it wrote its last row is not an error here.
func Open(dir string, v chain.Verifier) (*View, error) {
	view := &View{dir: dir, at: newState()}
	var err error
	view.Report, err = chain.Verify(filepath.Join(dir, ChainDir), v, chain.Options{Each: view.at.apply})
	if err != nil && !errors.Is(err, chain.ErrUnfinished) {
		return nil, err
	}
	view.Study, err = view.at.study()
	return view, err
}

// absent reports whether err is that of a run without a row.
func absent(err error) bool { return errors.Is(err, chain.ErrNone) }

// Status is the state of a run.
type Status struct {
	Run       string    `json:"run"`
	Study     string    `json:"study"`
	Question  string    `json:"question,omitempty"`
	State     string    `json:"state"` // running, stopped, complete
	Rows      int       `json:"rows"`
	Head      string    `json:"head"`
	Last      string    `json:"last"` // time of the last row
	Event     string    `json:"event"`
	Trials    int       `json:"trials"`  // done
	Planned   int       `json:"planned"` // at most, without those that the scheduler has dropped
	Tokens    int       `json:"tokens"`
	Seconds   float64   `json:"seconds"` // of trials
	Joules    float64   `json:"joules,omitempty"`
	Resumes   int       `json:"resumes"`
	Exhausted string    `json:"exhausted,omitempty"`
	Now       *Progress `json:"now,omitempty"`
	Arms      []Figure  `json:"arms"`
}

// Progress is the trial that is next or in progress.
type Progress struct {
	Event  string  `json:"event"`
	Arm    string  `json:"arm,omitempty"`
	Seed   uint64  `json:"seed,omitempty"`
	Rung   int     `json:"rung,omitempty"`
	Tokens int     `json:"tokens,omitempty"` // trained so far
	Loss   float64 `json:"loss,omitempty"`   // of training
}

// Status returns the state of the run.
func (v *View) Status() Status {
	s := Status{Run: v.at.run, Study: v.Study.Name, Question: v.Study.Question, State: "stopped", Rows: v.Report.Rows, Head: v.Report.Head,
		Last: v.at.last.Time, Event: v.at.last.Event, Tokens: v.at.tokens, Seconds: v.at.seconds, Joules: v.at.joules, Resumes: v.at.resumes, Exhausted: v.at.exhausted}
	for c := range v.at.results {
		if c.rung > 0 {
			s.Trials++
		}
	}
	s.Planned = v.planned()
	for _, a := range append(slices.Clone(v.Study.Arms), v.Study.gridArms()...) {
		s.Arms = append(s.Arms, v.at.figure(v.Study, a))
	}
	switch {
	case v.at.ended != "":
		s.State = "complete"
		return s
	case v.Report.Running:
		s.State = "running"
	}
	s.Now = v.progress()
	return s
}

// planned returns the number of trials at all rungs of the arms that are not dropped.
func (v *View) planned() int {
	n := len(v.Study.gridArms())
	for _, a := range v.Study.Arms {
		if a.Same != "" {
			continue
		}
		for _, rung := range v.Study.rungs() {
			if d := v.at.dropped[a.Name]; d == 0 || rung <= d {
				n++
			}
		}
	}
	return n * len(v.Study.Seeds)
}

// progress returns the next trial and its loss so far.
func (v *View) progress() *Progress {
	a := plan{v.Study, v.at}.next()
	p := &Progress{Event: a.event, Arm: a.arm.Name, Seed: a.seed, Rung: a.rung}
	if a.event != Trained || v.at.start.Parts == nil {
		return p
	}
	text, err := v.Study.spec(*v.at.start.Parts, a.arm, a.seed, a.rung, chooseFile)
	if err != nil {
		return p
	}
	var spec Spec
	if json.Unmarshal(text, &spec) != nil {
		return p
	}
	f, err := os.Open(filepath.Join(v.dir, filepath.FromSlash(spec.Folder), train.MetricsFile))
	if err != nil {
		return p
	}
	defer f.Close()
	if training, _, _ := train.ReadCurves(f); len(training) > 0 { // the last line may be in the making
		last := training[len(training)-1]
		p.Tokens, p.Loss = last.Tokens, last.Loss
	}
	return p
}

// Answer returns the answer as far as the rows allow it. An answer that differs from the
// one that the run recorded is an error.
func (v *View) Answer() (Answer, error) {
	a := conclude(v.Study, v.at)
	if v.at.ended != "" && v.at.ended != a.digest() {
		return a, fmt.Errorf("answer differs from the recorded one: got %.12s…, recorded %.12s…: another version of mm wrote it", a.digest(), v.at.ended)
	}
	return a, nil
}

// Evidence is a row of the chain behind a claim.
type Evidence struct {
	Row       int     `json:"row"`
	Hash      string  `json:"hash"`
	Event     string  `json:"event"`
	Arm       string  `json:"arm"`
	Seed      uint64  `json:"seed,omitempty"`
	Rung      int     `json:"rung,omitempty"`
	Spec      string  `json:"spec"`
	Weights   string  `json:"weights,omitempty"`
	Loss      float64 `json:"loss,omitempty"`
	Documents int     `json:"documents,omitempty"`
	Diverged  string  `json:"diverged,omitempty"`
}

// Explanation is a claim with its evidence.
type Explanation struct {
	Claim
	Rows []Evidence `json:"rows"`
	Head string     `json:"head"` // of the verified chain
}

// WinnerClaim is the name of the claim that the winner is better than the base.
const WinnerClaim = "winner"

// Explain returns the evidence for a claim: a hypothesis by name, or [WinnerClaim].
func (v *View) Explain(name string) (Explanation, error) {
	a, err := v.Answer()
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Head: v.Report.Head}
	var names []string
	if a.Winner != nil {
		a.Claims = append(a.Claims, Claim{Hypothesis: Hypothesis{Name: WinnerClaim, Claim: "the winner is better than the base", Arm: a.Winner.Arm, Against: BaseArm, Metric: "loss"},
			Verdict: a.Verdict, Why: a.Words[0], Comparison: a.Winner})
	}
	for _, c := range a.Claims {
		names = append(names, c.Name)
		if c.Name == name {
			e.Claim = c
		}
	}
	if e.Name == "" {
		return e, UnknownClaim{Name: name, Names: names}
	}
	for c, r := range v.at.results {
		if c.arm != v.Study.real(e.Arm) && c.arm != v.Study.real(e.Against) || e.Metric == "diverged" && c.arm != v.Study.real(e.Arm) {
			continue
		}
		e.Rows = append(e.Rows, Evidence{Row: r.row.Seq, Hash: r.row.Hash, Event: r.row.Event, Arm: c.arm, Seed: c.seed, Rung: c.rung,
			Spec: r.Spec, Weights: r.Weights, Loss: r.loss(), Documents: len(r.Nats), Diverged: r.Diverged})
	}
	slices.SortFunc(e.Rows, func(a, b Evidence) int { return cmp.Compare(a.Row, b.Row) })
	return e, nil
}

// UnknownClaim reports a claim that the study does not have.
type UnknownClaim struct {
	Name  string
	Names []string
}

// Error implements error.
func (u UnknownClaim) Error() string { return fmt.Sprintf("unknown claim %q", u.Name) }

// Hint returns the hint.
func (u UnknownClaim) Hint() string { return near(u.Name, u.Names) }

// Age returns the time since the last row.
func (s Status) Age(now time.Time) time.Duration {
	last, err := time.Parse(time.RFC3339Nano, s.Last)
	if err != nil {
		return 0
	}
	return now.Sub(last)
}
