package part

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/spell"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// Given is an input for a function of a build.
type Given struct {
	// Name is PART.PORT, or the name of a port or of a part where that is
	// enough to know which is meant, or "".
	Name string
	// Modality means, with no Name, the encoder for it.
	Modality abi.Modality
	modality.Input
	Numbers []float64 // in the place of an Input, written out
}

// Computed is what a function gave.
type Computed struct {
	Part      builds.Part
	Backend   string            // as it is shown
	Simulated bool              // it stands in for hardware
	Facts     map[string]string // what it says of what it ran
	Session   *modality.Session // that it ran in
	Load, Run time.Duration     // opening it, where this did, and computing
	*modality.Result
}

// Step is what the function did, as a trace tells it.
func (c Computed) Step(what string, at time.Duration, note string) Step {
	return Step{
		What: what, Part: c.Part.Name, Backend: c.Backend, Note: note, In: TensorInfos(c.Inputs), Out: TensorInfos(c.Outputs),
		Simulated: c.Simulated, Facts: c.Facts,
		Start: at, Load: c.Load, Prepare: c.Prepare, Run: c.Run - c.Prepare,
	}
}

// Compute runs the functions for which there are inputs, each with its own, in
// the order of the graph; where the graph has a projector behind an encoder it
// runs on what that gave. An input that fits no port, or more than one, is a
// [modality.InputError].
func (s *Set) Compute(ctx context.Context, given []Given) ([]Computed, error) {
	inputs := map[string]map[string]Given{}
	for _, g := range given {
		part, port, err := s.place(g)
		if err != nil {
			return nil, err
		}
		if inputs[part] == nil {
			inputs[part] = map[string]Given{}
		}
		if _, twice := inputs[part][port]; twice {
			return nil, &modality.InputError{Detail: fmt.Sprintf("two inputs for %s", dotted(part, port)), Hint: "give one"}
		}
		inputs[part][port] = g
	}
	if len(inputs) == 0 && len(s.functions) == 1 { // which says what it wants
		for name := range s.functions {
			inputs[name] = map[string]Given{}
		}
	}
	if len(inputs) == 0 {
		return nil, &modality.InputError{Detail: "nothing is given to compute on", Hint: "the build takes " + strings.Join(s.ports(), ", ")}
	}
	var out []Computed
	for _, p := range opened(s.build.Assembly) {
		f, in := s.functions[p.Name], inputs[p.Name]
		if f == nil || in == nil {
			continue
		}
		c, err := f.Compute(ctx, in)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		behind := s.projector(p.Name)
		if behind == nil || inputs[behind.part.Name] != nil {
			continue
		}
		if c, err = behind.Behind(ctx, f, c.Outputs); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Computes reports whether the build has functions.
func (s *Set) Computes() bool { return len(s.functions) > 0 }

// Compute opens the function and runs it in a session of its own, on inputs by
// port; "" is the one that wants something from outside.
func (f *Function) Compute(ctx context.Context, given map[string]Given) (Computed, error) {
	c, err := f.begin(ctx)
	if err != nil {
		return c, err
	}
	in := make(map[string]modality.Input, len(given))
	for port, g := range given {
		if in[port] = g.Input; g.Numbers != nil {
			t, err := c.Session.Literal(port, g.Numbers)
			if err != nil {
				return c, fmt.Errorf("input %s: %w", dotted(f.part.Name, port), err)
			}
			in[port] = modality.Input{Tensor: &t}
		}
	}
	start := time.Now()
	if c.Result, err = c.Session.Run(ctx, in); err != nil {
		return c, fmt.Errorf("running %s on %s: %w", f.part.ID(), c.Backend, err)
	}
	c.Run = time.Since(start)
	return c, nil
}

// Behind opens the function, a projector, and runs it on what an encoder gave.
func (f *Function) Behind(ctx context.Context, enc *Function, given map[string]runtimes.Tensor) (Computed, error) {
	c, err := f.begin(ctx)
	if err != nil {
		return c, err
	}
	start := time.Now()
	in, err := Connect(enc.Side(), f.Side(), given)
	if err != nil {
		return c, err
	}
	out, err := f.Run(ctx, in)
	c.Run, c.Result = time.Since(start), &modality.Result{Inputs: in, Outputs: out}
	return c, err
}

// begin opens the function and begins a session.
func (f *Function) begin(ctx context.Context) (Computed, error) {
	c := Computed{Part: f.part}
	var err error
	if c.Load, err = f.Open(ctx); err != nil {
		return c, err
	}
	c.Backend, c.Simulated = runtimes.Shown(f.engine), runtimes.Simulates(f.engine)
	if d, ok := f.model.(runtimes.Documented); ok {
		c.Facts = d.Facts()
	}
	if c.Facts, err = f.set.facts(ctx, f.part, f.engine, c.Facts); err != nil {
		return c, err
	}
	c.Session, err = f.Session()
	return c, err
}

// projector is the one behind an encoder; nil where there is none, or the
// target ships nothing of it.
func (s *Set) projector(encoder string) *Function {
	for _, m := range s.build.Assembly.Modalities {
		if m.Encoder.Name == encoder && m.Projects() && len(m.Projector.Files) > 0 {
			return s.functions[m.Projector.Name]
		}
	}
	return nil
}

// ports are the inputs of the build's functions as PART.PORT.
func (s *Set) ports() []string {
	var out []string
	for _, p := range opened(s.build.Assembly) {
		if f := s.functions[p.Name]; f != nil && f.manifest != nil {
			for _, in := range f.manifest.Inputs {
				out = append(out, dotted(p.Name, in.Name))
			}
		}
	}
	return out
}

func dotted(part, port string) string {
	if port == "" {
		return part
	}
	return part + "." + port
}

// place finds the function and the port that an input is for; port "" is the
// one that wants something from outside.
func (s *Set) place(g Given) (part, port string, err error) {
	var found [][2]string
	var all []string
	for _, p := range opened(s.build.Assembly) {
		f := s.functions[p.Name]
		if f == nil || f.manifest == nil {
			continue
		}
		all = append(all, p.Name)
		switch {
		case g.Name == "" && g.Modality == "", g.Name == "" && p.Type == abi.Encoder && p.Modality == g.Modality, g.Name == p.Name:
			found = append(found, [2]string{p.Name, ""})
			continue
		}
		for _, in := range f.manifest.Inputs {
			if g.Name != "" && (g.Name == in.Name || g.Name == dotted(p.Name, in.Name)) {
				found = append(found, [2]string{p.Name, in.Name})
			}
		}
	}
	if g.Name == "" && g.Modality == "" && len(found) > 1 { // projectors are fed by their encoders
		found = slices.DeleteFunc(found, func(at [2]string) bool { return s.functions[at[0]].part.Type == abi.Projector })
	}
	if len(found) == 1 {
		return found[0][0], found[0][1], nil
	}
	if len(all) == 1 && len(found) == 0 && g.Modality == "" { // which says what it takes
		return all[0], g.Name, nil
	}
	known := s.ports()
	what := ""
	if g.Name == "" {
		what = "an input without a name "
		if g.Modality != "" {
			what = fmt.Sprintf("an input of %s ", g.Modality)
		}
	}
	if len(found) > 1 {
		var fits []string
		for _, at := range found {
			fits = append(fits, dotted(at[0], at[1]))
		}
		return "", "", &modality.InputError{Name: g.Name, Detail: what + "may be for " + strings.Join(fits, " or "), Hint: "write PART.PORT, one of " + strings.Join(known, ", ")}
	}
	e := &modality.InputError{Name: g.Name, Detail: what + "is for no part of " + s.build.Assembly.Name, Hint: "the build takes " + strings.Join(known, ", ")}
	names := all
	for _, k := range known {
		names = append(names, k, k[strings.LastIndexByte(k, '.')+1:])
	}
	if near, ok := spell.Nearest(g.Name, names); ok {
		e.Hint = "did you mean " + near + "?"
	}
	return "", "", e
}
