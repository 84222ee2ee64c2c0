package study

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/lab/chain"
)

// The events of a run.
const (
	Started   = "study"
	Resumed   = "resume"
	Trained   = "trial"
	Chosen    = "choice" // of the arms that go on after a rung
	Exhausted = "budget"
	Sealed    = "sealed" // the choice is made, the sealed documents may be opened
	Judged    = "judged"
	Ended     = "end"
)

// Payload is the payload of a row. Members that do not apply to the event are absent.
type Payload struct {
	Study  string `json:"study,omitempty"`  // study: the text of the file
	Recipe string `json:"recipe,omitempty"` // study: the text of the recipe
	Parts  *Parts `json:"parts,omitempty"`  // study

	Arm     string          `json:"arm,omitempty"` // trial, judged
	Seed    uint64          `json:"seed,omitempty"`
	Rung    int             `json:"rung,omitempty"` // trial: tokens at which it is scored; choice
	Result  json.RawMessage `json:"result,omitempty"`
	Seconds float64         `json:"seconds,omitempty"` // trial, without earlier processes
	Joules  float64         `json:"joules,omitempty"`

	Kept    []string `json:"kept,omitempty"`    // choice
	Dropped []string `json:"dropped,omitempty"` // choice
	Reason  string   `json:"reason,omitempty"`  // budget
	Winner  string   `json:"winner,omitempty"`  // sealed
	Answer  string   `json:"answer,omitempty"`  // end: hex SHA-256
}

// cell identifies a result: an arm with a seed, at a rung or, if that is 0, judged.
type cell struct {
	arm  string
	seed uint64
	rung int
}

// scored is a result with its row.
type scored struct {
	Result
	row chain.Row
}

// state is the state of a run. It follows from the rows of the chain.
type state struct {
	run       string
	start     Payload
	results   map[cell]scored
	dropped   map[string]int // rung by arm
	chosen    map[int]bool   // rungs with a choice
	exhausted string
	winner    string
	sealed    bool
	ended     string
	tokens    int // spent
	seconds   float64
	joules    float64
	last      chain.Row
	resumes   int
}

func newState() *state {
	return &state{results: map[cell]scored{}, dropped: map[string]int{}, chosen: map[int]bool{}}
}

// apply applies a row.
func (s *state) apply(row chain.Row) error {
	var p Payload
	if err := json.Unmarshal(row.Payload, &p); err != nil {
		return fmt.Errorf("chain row %d: %w", row.Seq, err)
	}
	if s.run == "" && row.Event != Started || s.run != "" && row.Event == Started {
		return fmt.Errorf("chain row %d: event %q in a run of mm experiment", row.Seq, row.Event)
	}
	s.last = row
	switch row.Event {
	case Started:
		s.run, s.start = row.Run, p
	case Resumed:
		s.resumes++
	case Trained, Judged:
		return s.result(row, p)
	case Chosen:
		s.chosen[p.Rung] = true
		for _, a := range p.Dropped {
			s.dropped[a] = p.Rung
		}
	case Exhausted:
		s.exhausted = p.Reason
	case Sealed:
		s.sealed, s.winner = true, p.Winner
	case Ended:
		s.ended = p.Answer
	}
	return nil
}

// result applies a row with a result.
func (s *state) result(row chain.Row, p Payload) error {
	var r Result
	if err := json.Unmarshal(p.Result, &r); err != nil {
		return fmt.Errorf("chain row %d: result: %w", row.Seq, err)
	}
	if len(r.Counts) != len(r.Nats) || len(r.Bytes) != len(r.Nats) || slices.ContainsFunc(r.Nats, func(v float64) bool { return math.IsNaN(v) || v < 0 }) {
		return fmt.Errorf("chain row %d: result: malformed losses", row.Seq)
	}
	if row.Event == Judged {
		s.results[cell{p.Arm, p.Seed, 0}] = scored{r, row}
		return nil
	}
	before := 0
	for c, o := range s.results {
		if c.arm == p.Arm && c.seed == p.Seed && c.rung > 0 {
			before = max(before, o.Tokens)
		}
	}
	s.tokens += max(r.Tokens-before, 0)
	s.seconds += p.Seconds
	s.joules += p.Joules
	s.results[cell{p.Arm, p.Seed, p.Rung}] = scored{r, row}
	return nil
}

// diverged returns why a trial of the arm diverged, or "".
func (s *state) diverged(arm string) string {
	cells := make([]cell, 0, len(s.results))
	for c, r := range s.results {
		if c.arm == arm && r.Diverged != "" {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return ""
	}
	slices.SortFunc(cells, func(a, b cell) int { return a.rung - b.rung })
	first := cells[0]
	for _, c := range cells {
		if c.rung == first.rung && c.seed < first.seed {
			first = c
		}
	}
	return fmt.Sprintf("seed %d, %s", first.seed, s.results[first].Diverged)
}

// mean returns the mean loss of the arm over the seeds at a rung, or judged if that is 0.
func (s *state) mean(arm string, seeds []uint64, rung int) (loss float64, ok bool) {
	for _, seed := range seeds {
		r, found := s.results[cell{arm, seed, rung}]
		if !found || r.Diverged != "" {
			return 0, false
		}
		loss += r.loss() / float64(len(seeds))
	}
	return loss, true
}

// loss returns the nats per token over all documents.
func (r Result) loss() float64 {
	var nats float64
	n := 0
	for i, v := range r.Nats {
		nats += v
		n += r.Counts[i]
	}
	return nats / float64(max(n, 1))
}
