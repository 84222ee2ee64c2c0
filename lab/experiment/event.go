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
	Choice    = "choice" // of an arm, for the next step
	StepDone  = "step"
	Telemetry = "telemetry"
	Stop      = "stop"
)

// The reasons of a stop. After ByDuration and ByIterations the run is complete; after the
// others it can be resumed.
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

// Payload is the payload of a row. Members that do not apply to the event are absent.
type Payload struct {
	ElapsedUS int64 `json:"elapsed_us"` // of the run, without the time between its processes
	Simulated bool  `json:"simulated,omitempty"`

	Plan string `json:"plan,omitempty"` // start: hex SHA-256 of the plan
	Name string `json:"name,omitempty"` // start: name of the plan

	Reading *telemetry.Reading `json:"reading,omitempty"` // telemetry and stop

	Choice *Decision `json:"choice,omitempty"` // of choice

	Iteration int     `json:"iteration,omitempty"` // choice and step: from 1
	Step      string  `json:"step,omitempty"`      // also telemetry: the step in progress
	Partial   bool    `json:"partial,omitempty"`   // step: interrupted, repeated when the run is resumed
	Arm       string  `json:"arm,omitempty"`       // step: the chosen arm
	Index     int     `json:"index,omitempty"`     // step: index in the plan
	BeganUS   int64   `json:"began_us,omitempty"`  // step: start of its iteration
	LoadUS    int64   `json:"load_us,omitempty"`   // step: before the first run
	RunsUS    []int64 `json:"runs_us,omitempty"`   // step: each run
	Output    string  `json:"output,omitempty"`    // step: hex SHA-256 of the output of the last run
	Bytes     int64   `json:"bytes,omitempty"`     // step: size of that output
	Unstable  bool    `json:"unstable,omitempty"`  // step: the outputs of its runs differ
	Code      int     `json:"code,omitempty"`      // step: exit code of a failed command
	Error     string  `json:"error,omitempty"`     // step: cause of the failure
	Reason    string  `json:"reason,omitempty"`    // stop
	Detail    string  `json:"detail,omitempty"`    // stop: value and limit
	Complete  bool    `json:"complete,omitempty"`  // stop: the run cannot be resumed
}

// state is the state of a run. It follows from the rows of the chain.
type state struct {
	run       string
	plan      string
	simulated bool
	began     time.Duration // of the iteration
	elapsed   time.Duration
	settled   time.Duration // elapsed at the last row that was not written during a step
	telemetry time.Duration // of the last telemetry, negative if none
	iteration int           // from 1
	next      int           // index of the next step
	failures  int           // consecutive
	stopped   *Payload      // by the last row, otherwise nil
	history   Scheduler
	chosen    string // arm of the next step, if chosen
}

// foreign reports whether a row does not belong to the run: mm lab falsify, for example,
// also writes to the chain.
func foreign(row chain.Row, run string) bool {
	if run == "" {
		return row.Event != Start
	}
	return row.Run != run || !slices.Contains([]string{Start, Resume, Choice, StepDone, Telemetry, Stop}, row.Event)
}

// apply applies a row. Foreign rows change nothing.
func (s *state) apply(steps int, row chain.Row) error {
	if foreign(row, s.run) {
		return nil
	}
	var p Payload
	if err := json.Unmarshal(row.Payload, &p); err != nil {
		return fmt.Errorf("chain row %d: %w", row.Seq, err)
	}
	resumed := s.stopped != nil
	s.elapsed, s.stopped = micro(p.ElapsedUS), nil
	switch row.Event {
	case Resume:
		if resumed { // resuming a stopped run resets the count
			s.failures = 0
		}
	case Start:
		*s = state{run: row.Run, plan: p.Plan, simulated: p.Simulated, telemetry: -1, iteration: 1, began: -1}
	case Telemetry:
		s.telemetry = s.elapsed
	case Choice:
		if err := s.choose(p.Choice); err != nil {
			return fmt.Errorf("chain row %d: %w", row.Seq, err)
		}
	case StepDone:
		for _, o := range p.observations() {
			if err := s.history.Add(HistoryRow{Observed: &o}); err != nil {
				return fmt.Errorf("chain row %d: %w", row.Seq, err)
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
