package experiment

import (
	"encoding/json"
	"errors"
	"fmt"

	"mm-abi.org/mm/lab/chain"
)

// choose returns the step with the command or function of its arm: the arm of the last
// choice row, or a new choice, whose row is written first. A run that is killed in an arm
// so continues with that arm.
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
	return s, fmt.Errorf("step %s has no arm %q", s.Name, r.at.chosen)
}

func (s Step) eligible() []string {
	var names []string
	for _, a := range s.Arms {
		names = append(names, a.Name)
	}
	return names
}

// choose applies a decision, which must follow from the rows before it.
func (s *state) choose(d *Decision) error {
	if d == nil {
		return errors.New("missing choice")
	}
	recorded, replayed, err := s.history.Again(*d)
	if err != nil {
		return err
	}
	if recorded != replayed {
		return fmt.Errorf("%s: choice %s does not replay: got %s", d.Op, recorded, replayed)
	}
	s.chosen = d.Backend
	return s.history.Add(HistoryRow{Decided: d})
}

// observations returns what the scheduler learns from a row of a step: the time of each
// run. If the step failed, its last run did; if it failed before the first run, that counts
// as one failed run. Of a partial step, the finished runs count.
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

// ReadHistory verifies the chain of the run in dir and returns its decisions and
// observations, as [Replay] needs them. With [chain.ErrUnfinished] it returns all rows but
// the last.
func ReadHistory(dir string, v chain.Verifier, c Check) ([]HistoryRow, error) {
	var rows []HistoryRow
	run := ""
	_, err := verify(dir, v, c, func(row chain.Row) error {
		if foreign(row, run) {
			return nil
		}
		run = row.Run
		var p Payload
		if err := json.Unmarshal(row.Payload, &p); err != nil {
			return fmt.Errorf("chain row %d: %w", row.Seq, err)
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
	})
	return rows, err
}
