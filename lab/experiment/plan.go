// Package experiment executes the steps of a plan repeatedly for hours and survives being
// killed at any point.
//
// Every event is a row of a chain (package chain): start, resume, choice, step, telemetry,
// stop. [Run] has no other state: after a kill it reads the chain and repeats the step that
// has no row, so steps must be repeatable. If a step has arms, a policy chooses one by the
// recorded times ([Scheduler]); [Replay] reproduces every choice. Before each run of a
// step, and every second during it, the limits are checked: heat, battery, disk, the file
// STOP and the duration. A step that a limit interrupts gets a partial row and is repeated
// when the run is resumed. [Summarize] computes figures from the rows. Heartbeats, which
// may be copied elsewhere, show whether a run is alive.
//
// Clock, sensors and executor are options. [Simulation] derives them from the plan, so that
// six hours pass in seconds; its rows are marked as simulated.
package experiment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/telemetry"
	"mm-abi.org/mm/schemas"
)

// Plan is a plan file, as described by schemas/plan.schema.json.
type Plan struct {
	Name       string    `json:"name"`
	Seed       uint64    `json:"seed,omitempty"`
	Duration   Duration  `json:"duration,omitempty"`
	Iterations int       `json:"iterations,omitempty"`
	Interval   Duration  `json:"interval,omitempty"`
	Telemetry  Duration  `json:"telemetry,omitempty"` // if zero, 30 s
	Heartbeat  Duration  `json:"heartbeat,omitempty"` // if zero, 5 min
	Limits     Limits    `json:"limits,omitzero"`
	Steps      []Step    `json:"steps"`
	Simulate   *Simulate `json:"simulate,omitempty"`

	Digest string `json:"-"` // hex SHA-256 of the file
}

// Limits stop a run. A nil limit is not checked; a limit without a sensor value stops the
// run.
type Limits struct {
	HeatC      *float64 `json:"heat_c,omitempty"`
	BatteryPct *float64 `json:"battery_pct,omitempty"`
	DiskMiB    *float64 `json:"disk_mib,omitempty"`
	Failures   int      `json:"failures,omitempty"` // consecutive; if zero, 3
}

// Step is a command, a function, or a list of arms, one of which a policy chooses each
// time.
type Step struct {
	Name     string             `json:"name"`
	Command  []string           `json:"command,omitempty"`
	Function string             `json:"function,omitempty"`
	With     map[string]float64 `json:"with,omitempty"`
	Repeat   int                `json:"repeat,omitempty"`  // if zero, 1
	Every    int                `json:"every,omitempty"`   // if zero, 1
	Timeout  Duration           `json:"timeout,omitempty"` // if zero, 10 min
	Arms     []Arm              `json:"arms,omitempty"`
	Policy   Policy             `json:"policy,omitzero"` // if empty, static in the order of the arms

	arm string // the chosen arm, if the step has arms
}

// Arm is an alternative for a step.
type Arm struct {
	Name     string             `json:"name"`
	Command  []string           `json:"command,omitempty"`
	Function string             `json:"function,omitempty"`
	With     map[string]float64 `json:"with,omitempty"`
}

// Simulate describes a simulation.
type Simulate struct {
	Sensors []Sensed            `json:"sensors,omitempty"`
	Steps   map[string]Pretence `json:"steps"`
}

// Sensed is a point on the curve of the sensors.
type Sensed struct {
	At Duration `json:"at"`
	telemetry.Reading
}

// Pretence describes a step in a simulation.
type Pretence struct {
	Takes      Duration `json:"takes"`
	Load       Duration `json:"load,omitempty"`
	FailsEvery int      `json:"fails_every,omitempty"`

	Arms map[string]Pretence `json:"arms,omitempty"` // of a step with arms, instead of the other members
}

// Duration is a time.Duration with a text form such as "90s".
type Duration time.Duration

// UnmarshalText parses a duration such as "90s" or "6h".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// MarshalText formats the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// ReadPlan reads and checks the plan at path. The error holds all faults.
func ReadPlan(path string) (Plan, error) {
	var p Plan
	data, list := schemas.ReadFile(path, diag.Unreadable)
	if list.Failed() {
		return p, list.Err()
	}
	doc, list := schemas.Load(schemas.Plan, path, data)
	if doc == nil || list.Failed() {
		return p, list.Err()
	}
	if err := doc.Decode(&p); err != nil {
		return p, err
	}
	p.check(doc, &list)
	p.fill()
	sum := sha256.Sum256(data)
	p.Digest = hex.EncodeToString(sum[:])
	return p, list.Err()
}

// check reports faults that the schema does not cover.
func (p *Plan) check(doc *schemas.Document, list *diag.List) {
	index := map[string]int{}
	for i, s := range p.Steps {
		if first, ok := index[s.Name]; ok {
			list.Add(diag.RepeatedItem, doc.Pos(fmt.Sprintf("/steps/%d/name", i)), fmt.Sprintf("duplicate step %q, also step %d", s.Name, first+1), "")
			continue
		}
		index[s.Name] = i
		s.check(i, doc, list)
	}
	if p.Simulate == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.Simulate.Steps)) {
		at := "/simulate/steps/" + name
		i, ok := index[name]
		if !ok {
			list.Add(diag.NotAllowed, doc.Pos(at), fmt.Sprintf("unknown step %q", name), "")
			continue
		}
		for _, arm := range slices.Sorted(maps.Keys(p.Simulate.Steps[name].Arms)) {
			if !slices.Contains(p.Steps[i].eligible(), arm) {
				list.Add(diag.NotAllowed, doc.Pos(at+"/arms/"+arm), fmt.Sprintf("step %q has no arm %q", name, arm), "")
			}
		}
	}
	for i := 1; i < len(p.Simulate.Sensors); i++ {
		if p.Simulate.Sensors[i].At <= p.Simulate.Sensors[i-1].At {
			list.Add(diag.WrongForm, doc.Pos(fmt.Sprintf("/simulate/sensors/%d/at", i)), "not later than the previous time", "")
		}
	}
}

// check reports faults of the arms of step i and of their policy.
func (s *Step) check(i int, doc *schemas.Document, list *diag.List) {
	at, names := fmt.Sprintf("/steps/%d", i), s.eligible()
	for k, name := range names {
		if first := slices.Index(names, name); first < k {
			list.Add(diag.RepeatedItem, doc.Pos(fmt.Sprintf("%s/arms/%d/name", at, k)), fmt.Sprintf("duplicate arm %q, also arm %d", name, first+1), "")
		}
	}
	if len(s.Arms) > 0 && len(s.With) > 0 {
		list.Add(diag.NotAllowed, doc.Pos(at+"/with"), "with is not allowed in a step with arms", "move it to the arms")
	}
	for k, name := range s.Policy.Prefer {
		if !slices.Contains(names, name) {
			list.Add(diag.NotAllowed, doc.Pos(fmt.Sprintf("%s/policy/prefer/%d", at, k)), fmt.Sprintf("unknown arm %q", name), "")
		}
	}
	for _, m := range []struct {
		name, kind string
		set        bool
	}{{"prefer", Static, s.Policy.Prefer != nil}, {"epsilon", Greedy, s.Policy.Epsilon != 0}, {"c", UCB, s.Policy.C != 0}, {"seed", Greedy, s.Policy.Seed != 0}} {
		if m.set && s.Policy.Kind != m.kind {
			list.Add(diag.NotAllowed, doc.Pos(at+"/policy/"+m.name), fmt.Sprintf("%s requires policy %s, got %s", m.name, m.kind, s.Policy.Kind), "")
		}
	}
}

// fill sets defaults.
func (p *Plan) fill() {
	p.Telemetry = cmp.Or(p.Telemetry, Duration(30*time.Second))
	p.Heartbeat = cmp.Or(p.Heartbeat, Duration(5*time.Minute))
	p.Limits.Failures = cmp.Or(p.Limits.Failures, 3)
	for i := range p.Steps {
		s := &p.Steps[i]
		s.Repeat, s.Every, s.Timeout = cmp.Or(s.Repeat, 1), cmp.Or(s.Every, 1), cmp.Or(s.Timeout, Duration(10*time.Minute))
		if len(s.Arms) == 0 {
			continue
		}
		switch s.Policy.Kind = cmp.Or(s.Policy.Kind, Static); {
		case s.Policy.Kind == Static && s.Policy.Prefer == nil:
			s.Policy.Prefer = s.eligible()
		case s.Policy.Kind == Greedy:
			s.Policy.Seed = cmp.Or(s.Policy.Seed, p.Seed)
		}
	}
}
