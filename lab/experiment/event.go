package experiment

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/telemetry"
)

// The events of a run.
const (
	Start     = "start"
	Resume    = "resume"
	Choice    = "choice" // of an arm, for the step that comes next
	StepDone  = "step"
	Telemetry = "telemetry"
	Stop      = "stop"
)

// The reasons of a stop. After Complete ones nothing is left to be done; after
// the others a run can be resumed.
const (
	ByDuration   = "duration"
	ByIterations = "iterations"
	ByFile       = "stop-file"
	ByHeat       = "heat"
	ByBattery    = "battery"
	ByDisk       = "disk"
	BySensor     = "sensor-lost"
	ByFailures   = "failures"
	ByInterrupt  = "interrupted"
)

// Payload is what the row of an event holds; members that are not the event's
// are absent.
type Payload struct {
	ElapsedUS int64 `json:"elapsed_us"` // of the run, without the time it lay dead
	Simulated bool  `json:"simulated,omitempty"`

	Plan string `json:"plan,omitempty"` // of start: hex SHA-256 of the plan
	Name string `json:"name,omitempty"` // of start: the plan's

	Reading *telemetry.Reading `json:"reading,omitempty"` // of telemetry and stop

	Choice *Decision `json:"choice,omitempty"` // of choice

	Iteration int     `json:"iteration,omitempty"` // of choice and step: from 1
	Step      string  `json:"step,omitempty"`      // of telemetry: that was being done
	Partial   bool    `json:"partial,omitempty"`   // of step: it was cut short, and is done again by a resumption
	Arm       string  `json:"arm,omitempty"`       // of step: the one that was chosen
	Index     int     `json:"index,omitempty"`     // of step: its place in the plan
	BeganUS   int64   `json:"began_us,omitempty"`  // of step: when its iteration began
	LoadUS    int64   `json:"load_us,omitempty"`   // of step: before the first run
	RunsUS    []int64 `json:"runs_us,omitempty"`   // of step: each run by itself
	Output    string  `json:"output,omitempty"`    // of step: hex SHA-256 of what the last run gave
	Bytes     int64   `json:"bytes,omitempty"`     // of step: what the last run gave
	Unstable  bool    `json:"unstable,omitempty"`  // of step: its runs gave different things
	Code      int     `json:"code,omitempty"`      // of step: the exit code of a command that failed
	Error     string  `json:"error,omitempty"`     // of step: why it failed
	Reason    string  `json:"reason,omitempty"`    // of stop
	Detail    string  `json:"detail,omitempty"`    // of stop: both values
	Complete  bool    `json:"complete,omitempty"`  // of stop: nothing is left to be done
}

// state is where a run stands; it is made of the chain's rows and nothing else.
type state struct {
	run       string
	plan      string
	simulated bool
	began     time.Duration // of the iteration
	elapsed   time.Duration
	settled   time.Duration // by the last row that was not written within a step
	told      time.Duration // of the last telemetry; below 0: none
	iteration int           // from 1
	next      int           // index of the step to be done
	failures  int           // in a row
	stopped   *Payload      // by the last row; nil: it goes on
	history   Scheduler
	chosen    string // arm of the step that is next; empty: none yet
}

// foreign reports whether a row is none of the run's: what judges a run writes
// into its chain, too.
func foreign(row chain.Row, run string) bool {
	if run == "" {
		return row.Event != Start
	}
	return row.Run != run || !slices.Contains([]string{Start, Resume, Choice, StepDone, Telemetry, Stop}, row.Event)
}

// apply takes in a row. A foreign one changes nothing.
func (s *state) apply(steps int, row chain.Row) error {
	if foreign(row, s.run) {
		return nil
	}
	var p Payload
	if err := json.Unmarshal(row.Payload, &p); err != nil {
		return fmt.Errorf("row %d of the chain: %w", row.Seq, err)
	}
	resumed := s.stopped != nil
	s.elapsed, s.stopped = micro(p.ElapsedUS), nil
	switch row.Event {
	case Resume:
		if resumed { // whoever resumes a stopped run has seen to its failures
			s.failures = 0
		}
	case Start:
		*s = state{run: row.Run, plan: p.Plan, simulated: p.Simulated, told: -1, iteration: 1, began: -1}
	case Telemetry:
		s.told = s.elapsed
	case Choice:
		if err := s.choose(p.Choice); err != nil {
			return fmt.Errorf("row %d of the chain: %w", row.Seq, err)
		}
	case StepDone:
		for _, o := range p.observations() {
			if err := s.history.Add(HistoryRow{Observed: &o}); err != nil {
				return fmt.Errorf("row %d of the chain: %w", row.Seq, err)
			}
		}
		if p.Partial {
			break
		}
		s.chosen = ""
		s.iteration, s.next, s.began = p.Iteration, p.Index+1, micro(p.BeganUS)
		if s.next >= steps {
			s.iteration, s.next = p.Iteration+1, 0
		}
		s.failures++
		if p.Error == "" {
			s.failures = 0
		}
	case Stop:
		s.stopped = &p
	}
	if row.Event != Telemetry || p.Step == "" {
		s.settled = s.elapsed
	}
	return nil
}

func micro(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
