package runner

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
	Backend   string
	Session   *modality.Session // that it ran in
	Load, Run time.Duration     // opening it, where this did, and computing
	*modality.Result
}

// Compute runs the functions for which there are inputs, each with its own, in
// the order of the graph; where the graph has a projector behind an encoder it
// runs on what that gave. An input that fits no port, or more than one, is a
// [modality.InputError].
func (r *Runner) Compute(ctx context.Context, given []Given) ([]Computed, error) {
	inputs := map[string]map[string]Given{}
	for _, g := range given {
		part, port, err := r.place(g)
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
	if len(inputs) == 0 && len(r.functions) == 1 { // which says what it wants
		for name := range r.functions {
			inputs[name] = map[string]Given{}
		}
	}
	if len(inputs) == 0 {
		return nil, &modality.InputError{Detail: "nothing is given to compute on", Hint: "the build takes " + strings.Join(r.ports(), ", ")}
	}
	var out []Computed
	for _, p := range opened(r.build.Assembly) {
		f, in := r.functions[p.Name], inputs[p.Name]
		if f == nil || in == nil {
			continue
		}
		if len(p.Files) == 0 {
			return nil, &runtimes.Unavailable{What: p.ID(), Why: fmt.Sprintf("target %s ships no file of it", r.build.Assembly.Target), Hint: "add it to the target's onnx list"}
		}
		c, err := r.compute(ctx, f, in)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		behind := r.projector(p.Name)
		if behind == nil || inputs[behind.part.Name] != nil {
			continue
		}
		if c, err = r.behind(ctx, f, behind, c.Outputs); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Computes reports whether the build has functions.
func (r *Runner) Computes() bool { return len(r.functions) > 0 }

// compute runs one function.
func (r *Runner) compute(ctx context.Context, f *function, given map[string]Given) (Computed, error) {
	c := Computed{Part: f.part}
	start := time.Now()
	if err := r.open(ctx, f); err != nil {
		return c, err
	}
	c.Backend, c.Load = f.engine.Name(), time.Since(start)
	var err error
	if c.Session, err = r.session(f); err != nil {
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
	start = time.Now()
	if c.Result, err = c.Session.Run(ctx, in); err != nil {
		return c, fmt.Errorf("running %s on %s: %w", f.part.ID(), c.Backend, err)
	}
	c.Run = time.Since(start)
	return c, nil
}

// behind runs the projector behind an encoder on what that gave.
func (r *Runner) behind(ctx context.Context, enc, proj *function, given map[string]runtimes.Tensor) (Computed, error) {
	c := Computed{Part: proj.part}
	start := time.Now()
	if err := r.open(ctx, proj); err != nil {
		return c, err
	}
	c.Backend, c.Load = proj.engine.Name(), time.Since(start)
	var err error
	if c.Session, err = r.session(proj); err != nil {
		return c, err
	}
	start = time.Now()
	out, err := r.pass(ctx, enc, proj, given)
	c.Run, c.Result = time.Since(start), &modality.Result{Outputs: out}
	return c, err
}

// projector is the one behind an encoder; nil where there is none, or the
// target ships nothing of it.
func (r *Runner) projector(encoder string) *function {
	for _, m := range r.build.Assembly.Modalities {
		if m.Encoder.Name == encoder && m.Projects() && len(m.Projector.Files) > 0 {
			return r.functions[m.Projector.Name]
		}
	}
	return nil
}

// ports are the inputs of the build's functions as PART.PORT.
func (r *Runner) ports() []string {
	var out []string
	for _, p := range opened(r.build.Assembly) {
		if f := r.functions[p.Name]; f != nil && f.manifest != nil {
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
func (r *Runner) place(g Given) (part, port string, err error) {
	var found [][2]string
	var all []string
	for _, p := range opened(r.build.Assembly) {
		f := r.functions[p.Name]
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
		found = slices.DeleteFunc(found, func(at [2]string) bool { return r.functions[at[0]].part.Type == abi.Projector })
	}
	if len(found) == 1 {
		return found[0][0], found[0][1], nil
	}
	if len(all) == 1 && len(found) == 0 && g.Modality == "" { // which says what it takes
		return all[0], g.Name, nil
	}
	known := r.ports()
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
	e := &modality.InputError{Name: g.Name, Detail: what + "is for no part of " + r.build.Assembly.Name, Hint: "the build takes " + strings.Join(known, ", ")}
	names := all
	for _, k := range known {
		names = append(names, k, k[strings.LastIndexByte(k, '.')+1:])
	}
	if near, ok := spell.Nearest(g.Name, names); ok {
		e.Hint = "did you mean " + near + "?"
	}
	return "", "", e
}
