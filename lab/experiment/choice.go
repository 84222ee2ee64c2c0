package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/lab/chain"
)

// choose returns the step as the arm does it that is due: the one that a row
// names already, or a new choice, which gets its row before anything is done. So
// a run that is killed in an arm goes on with that arm.
func (r *runner) choose(s Step) (Step, error) {
	if r.at.chosen == "" {
		d, err := r.at.history.Decide(s.Name, s.eligible(), s.Policy)
		if err != nil {
			return s, err
		}
		p := Payload{Iteration: r.at.iteration, Step: s.Name, Index: r.at.next, BeganUS: r.at.began.Microseconds(), Choice: &d}
		if err := r.row(Choice, p); err != nil {
			return s, err
		}
	}
	for _, a := range s.Arms {
		if a.Name == r.at.chosen {
			s.arm, s.Command, s.Function, s.With = a.Name, a.Command, a.Function, a.With
			return s, nil
		}
	}
	return s, fmt.Errorf("the step %s has no arm %q", s.Name, r.at.chosen)
}

func (s Step) eligible() []string {
	var names []string
	for _, a := range s.Arms {
		names = append(names, a.Name)
	}
	return names
}

// choose takes in a choice, which must come out again of the rows before it.
func (s *state) choose(d *Decision) error {
	if d == nil {
		return errors.New("a choice without one")
	}
	said, again, err := s.history.Again(*d)
	if err != nil {
		return err
	}
	if said != again {
		return fmt.Errorf("%s: the choice %s comes out as %s", d.Op, said, again)
	}
	s.chosen = d.Backend
	return s.history.Add(HistoryRow{Decided: d})
}

// observations are what the scheduler learns of a step: the time of each run. The
// last one of a step that failed is the one that did; where it failed before
// the first, that counts as one. Of one that was cut short, those that finished count.
func (p Payload) observations() []Observation {
	if p.Arm == "" {
		return nil
	}
	runs := p.RunsUS
	if len(runs) == 0 && !p.Partial {
		runs = []int64{0}
	}
	var list []Observation
	for i, us := range runs {
		list = append(list, Observation{
			Op: p.Step, Backend: p.Arm, LatencyMS: ms(us), Simulated: p.Simulated,
			Failed: p.Error != "" && i == len(runs)-1,
		})
	}
	return list
}

// History verifies the chain of the run in dir and returns what was chosen in it
// and what the arms took, as [schedule.Replay] takes it. With
// [chain.ErrUnfinished] come all rows but the last.
func History(dir string, v chain.Verifier, noted string) ([]HistoryRow, error) {
	var rows []HistoryRow
	run := ""
	_, err := chain.Verify(filepath.Join(dir, ChainDir), v, chain.Options{Noted: noted, Each: func(row chain.Row) error {
		if foreign(row, run) {
			return nil
		}
		run = row.Run
		var p Payload
		if err := json.Unmarshal(row.Payload, &p); err != nil {
			return fmt.Errorf("row %d of the chain: %w", row.Seq, err)
		}
		switch row.Event {
		case Choice:
			rows = append(rows, HistoryRow{Decided: p.Choice})
		case StepDone:
			for _, o := range p.observations() {
				rows = append(rows, HistoryRow{Observed: &o})
			}
		}
		return nil
	}})
	return rows, err
}
