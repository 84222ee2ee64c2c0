package part

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// Argument is an input of a function of a build.
type Argument struct {
	// Name is PART.PORT, or the name of a port or of a part if that is
	// unambiguous, or "".
	Name string
	// Modality selects, if Name is empty, its encoder.
	Modality abi.Modality
	modality.Input
	Numbers []float64 // literal numbers, instead of an Input
}

// Computed is the result of a function.
type Computed struct {
	Part      builds.Part
	Backend   string            // as results show it
	Simulated bool              // the backend emulates hardware
	Facts     map[string]string // facts that the backend reports
	Session   *modality.Session // of the run
	Load, Run time.Duration     // opening the part, if this run did, and computing
	*modality.Result
}

// Step returns the trace of the run.
func (c Computed) Step(what string, at time.Duration, note string) Step {
	return Step{
		What: what, Part: c.Part.Name, Backend: c.Backend, Note: note, In: TensorInfos(c.Inputs), Out: TensorInfos(c.Outputs),
		Simulated: c.Simulated, Facts: c.Facts,
		Start: at, Load: c.Load, Prepare: c.Prepare, Run: c.Run - c.Prepare,
	}
}

// Compute runs the functions that have inputs, in the order of the graph. A
// projector after an encoder in the graph runs on its outputs. An input that fits
// no port, or several, is a [modality.InputError].
func (s *Set) Compute(ctx context.Context, args []Argument) ([]Computed, error) {
	inputs := map[string]map[string]Argument{}
	for _, g := range args {
		part, port, err := s.place(g)
		if err != nil {
			return nil, err
		}
		if inputs[part] == nil {
			inputs[part] = map[string]Argument{}
		}
		if _, twice := inputs[part][port]; twice {
			return nil, &modality.InputError{Detail: fmt.Sprintf("duplicate input for %s", dotted(part, port)), Hint: "give one"}
		}
		inputs[part][port] = g
	}
	if len(inputs) == 0 && len(s.functions) == 1 { // whose session reports the missing inputs
		for name := range s.functions {
			inputs[name] = map[string]Argument{}
		}
	}
	if len(inputs) == 0 {
		return nil, &modality.InputError{Detail: "no input", Hint: "the build takes " + strings.Join(s.ports(), ", ")}
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
		next := s.projector(p.Name)
		if next == nil || inputs[next.part.Name] != nil {
			continue
		}
		if c, err = next.Project(ctx, f, c.Outputs); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Computes reports whether the build has functions.
func (s *Set) Computes() bool { return len(s.functions) > 0 }

// Compute opens the function and runs it in a new session, on inputs by port; ""
// is the port that has no other source.
func (f *Function) Compute(ctx context.Context, args map[string]Argument) (Computed, error) {
	c, err := f.begin(ctx)
	if err != nil {
		return c, err
	}
	in := make(map[string]modality.Input, len(args))
	for port, g := range args {
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

// Project opens the function, a projector, and runs it on an encoder's outputs.
func (f *Function) Project(ctx context.Context, enc *Function, outputs map[string]runtimes.Tensor) (Computed, error) {
	c, err := f.begin(ctx)
	if err != nil {
		return c, err
	}
	start := time.Now()
	in, err := Connect(enc.Side(), f.Side(), outputs)
	if err != nil {
		return c, err
	}
	out, err := f.Run(ctx, in)
	c.Run, c.Result = time.Since(start), &modality.Result{Inputs: in, Outputs: out}
	return c, err
}

// begin opens the function and starts a session.
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

// projector returns the projector of an encoder, or nil if there is none or the
// target ships no file of it.
func (s *Set) projector(encoder string) *Function {
	for _, m := range s.build.Assembly.Modalities {
		if m.Encoder.Name == encoder && m.Projects() && len(m.Projector.Files) > 0 {
			return s.functions[m.Projector.Name]
		}
	}
	return nil
}

// ports lists the inputs of the build's functions as PART.PORT.
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

// place finds the function and the port of an input; port "" is the one that has
// no other source.
func (s *Set) place(g Argument) (part, port string, err error) {
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
	if g.Name == "" && g.Modality == "" && len(found) > 1 { // encoders feed projectors
		found = slices.DeleteFunc(found, func(at [2]string) bool { return s.functions[at[0]].part.Type == abi.Projector })
	}
	if len(found) == 1 {
		return found[0][0], found[0][1], nil
	}
	if len(all) == 1 && len(found) == 0 && g.Modality == "" { // whose session reports its inputs
		return all[0], g.Name, nil
	}
	names := s.ports()
	what := ""
	if g.Name == "" {
		what = "an unnamed input "
		if g.Modality != "" {
			what = fmt.Sprintf("an input of %s ", g.Modality)
		}
	}
	if len(found) > 1 {
		var fits []string
		for _, at := range found {
			fits = append(fits, dotted(at[0], at[1]))
		}
		return "", "", &modality.InputError{Name: g.Name, Detail: what + "is ambiguous: " + strings.Join(fits, " or "), Hint: "write PART.PORT, one of " + strings.Join(names, ", ")}
	}
	candidates := all
	for _, k := range names {
		candidates = append(candidates, k, k[strings.LastIndexByte(k, '.')+1:])
	}
	hint := diag.Suggest(g.Name, candidates, "the build takes "+strings.Join(names, ", "))
	return "", "", &modality.InputError{Name: g.Name, Detail: what + "fits no part of " + s.build.Assembly.Name, Hint: hint}
}
