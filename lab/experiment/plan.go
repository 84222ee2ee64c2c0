// Package run does the steps of a plan again and again for hours, and can be
// killed at any point.
//
// Everything that happens is a row of a chain (package chain): start, resume,
// choice, step, telemetry, stop. [Run] holds no other state: killed, it reads the
// chain and goes on with the step that has no row. A step whose process died in it
// is done again, so that steps must bear being done twice. Where a step has arms,
// package schedule chooses one by what the rows say that they took; the choices of
// a killed run are those of an undisturbed one. Before each run of a
// step, and every second while it lasts, the limits are held against the sensors:
// heat, battery, disk, a file STOP, the duration. A step that one of them cuts
// short has a row of the runs that finished, and is done again by a resumption.
// [Summarize] makes figures of the rows.
//
// The clock, the sensors and what does the steps are handed in; [Simulation]
// makes all three of a plan, and six hours pass in seconds. Its rows say that
// they are simulated.
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

// Plan is what is to be done; the file's form is schemas/plan.schema.json.
type Plan struct {
	Name       string    `json:"name"`
	Seed       uint64    `json:"seed,omitempty"`
	Duration   Duration  `json:"duration,omitempty"`
	Iterations int       `json:"iterations,omitempty"`
	Interval   Duration  `json:"interval,omitempty"`
	Telemetry  Duration  `json:"telemetry,omitempty"` // 30 s
	Heartbeat  Duration  `json:"heartbeat,omitempty"` // 5 min
	Limits     Limits    `json:"limits,omitzero"`
	Steps      []Step    `json:"steps"`
	Simulate   *Simulate `json:"simulate,omitempty"`

	Digest string `json:"-"` // hex SHA-256 of the file
}

// Limits stop a run. What is nil is not watched; a sensor that is watched must be
// there.
type Limits struct {
	HeatC      *float64 `json:"heat_c,omitempty"`
	BatteryPct *float64 `json:"battery_pct,omitempty"`
	DiskMiB    *float64 `json:"disk_mib,omitempty"`
	Failures   int      `json:"failures,omitempty"` // 3
}

// Step is a command or a function, or arms of which a policy chooses one each
// time, by what they took so far.
type Step struct {
	Name     string             `json:"name"`
	Command  []string           `json:"command,omitempty"`
	Function string             `json:"function,omitempty"`
	With     map[string]float64 `json:"with,omitempty"`
	Repeat   int                `json:"repeat,omitempty"`  // 1
	Every    int                `json:"every,omitempty"`   // 1
	Timeout  Duration           `json:"timeout,omitempty"` // 10 min
	Arms     []Arm              `json:"arms,omitempty"`
	Policy   Policy             `json:"policy,omitzero"` // static, in the order of the arms

	arm string // the one that is to do it; empty: the step has none
}

// Arm is a way to do a step.
type Arm struct {
	Name     string             `json:"name"`
	Command  []string           `json:"command,omitempty"`
	Function string             `json:"function,omitempty"`
	With     map[string]float64 `json:"with,omitempty"`
}

// Simulate says what a simulation meets.
type Simulate struct {
	Sensors []Sensed            `json:"sensors,omitempty"`
	Steps   map[string]Pretence `json:"steps"`
}

// Sensed is a point of the curve of the sensors.
type Sensed struct {
	At Duration `json:"at"`
	telemetry.Reading
}

// Pretence is how a step fares in a simulation.
type Pretence struct {
	Takes      Duration `json:"takes"`
	Load       Duration `json:"load,omitempty"`
	FailsEvery int      `json:"fails_every,omitempty"`

	Arms map[string]Pretence `json:"arms,omitempty"` // of a step with arms, in place of the others
}

// Duration is a time.Duration that is written as Go writes one.
type Duration time.Duration

// UnmarshalText reads "90s" or "6h".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// MarshalText writes it back.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// ReadPlan reads and checks the plan at path; all its faults are told.
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

// check finds what the schema cannot.
func (p *Plan) check(doc *schemas.Document, list *diag.List) {
	named := map[string]int{}
	for i, s := range p.Steps {
		if first, ok := named[s.Name]; ok {
			list.Add(diag.RepeatedItem, doc.Pos(fmt.Sprintf("/steps/%d/name", i)), fmt.Sprintf("%q is step %d, too", s.Name, first+1), "")
			continue
		}
		named[s.Name] = i
		s.check(i, doc, list)
	}
	if p.Simulate == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.Simulate.Steps)) {
		at := "/simulate/steps/" + name
		i, ok := named[name]
		if !ok {
			list.Add(diag.NotAllowed, doc.Pos(at), fmt.Sprintf("there is no step %q", name), "")
			continue
		}
		for _, arm := range slices.Sorted(maps.Keys(p.Simulate.Steps[name].Arms)) {
			if !slices.Contains(p.Steps[i].eligible(), arm) {
				list.Add(diag.NotAllowed, doc.Pos(at+"/arms/"+arm), fmt.Sprintf("the step %q has no arm %q", name, arm), "")
			}
		}
	}
	for i := 1; i < len(p.Simulate.Sensors); i++ {
		if p.Simulate.Sensors[i].At <= p.Simulate.Sensors[i-1].At {
			list.Add(diag.WrongForm, doc.Pos(fmt.Sprintf("/simulate/sensors/%d/at", i)), "it is not later than the one before", "")
		}
	}
}

// check finds what is wrong with the arms of step i and with their policy.
func (s *Step) check(i int, doc *schemas.Document, list *diag.List) {
	at, names := fmt.Sprintf("/steps/%d", i), s.eligible()
	for k, name := range names {
		if first := slices.Index(names, name); first < k {
			list.Add(diag.RepeatedItem, doc.Pos(fmt.Sprintf("%s/arms/%d/name", at, k)), fmt.Sprintf("%q is arm %d, too", name, first+1), "")
		}
	}
	if len(s.Arms) > 0 && len(s.With) > 0 {
		list.Add(diag.NotAllowed, doc.Pos(at+"/with"), "a step with arms has no numbers of its own", "give them to the arms")
	}
	for k, name := range s.Policy.Prefer {
		if !slices.Contains(names, name) {
			list.Add(diag.NotAllowed, doc.Pos(fmt.Sprintf("%s/policy/prefer/%d", at, k)), fmt.Sprintf("there is no arm %q", name), "")
		}
	}
	for _, m := range []struct {
		name, of string
		given    bool
	}{{"prefer", Static, s.Policy.Prefer != nil}, {"epsilon", Greedy, s.Policy.Epsilon != 0}, {"c", UCB, s.Policy.C != 0}, {"seed", Greedy, s.Policy.Seed != 0}} {
		if m.given && s.Policy.Kind != m.of {
			list.Add(diag.NotAllowed, doc.Pos(at+"/policy/"+m.name), fmt.Sprintf("%s is of the policy %s, this one is %s", m.name, m.of, s.Policy.Kind), "")
		}
	}
}

// fill sets the defaults.
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
