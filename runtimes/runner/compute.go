package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
}

// Computed is what a function gave.
type Computed struct {
	Part    builds.Part
	Backend string
	*modality.Result
}

// InputError says that an input does not name a port of the build, or names
// several.
type InputError struct {
	Detail, Hint string
}

// Error is the detail.
func (e *InputError) Error() string { return e.Detail }

// Compute runs the functions for which there are inputs, each with its own, in
// the order of the graph; where the graph has a projector behind an encoder it
// runs on what that gave. An input that fits no port, or more than one, is an
// [InputError].
func (r *Runner) Compute(ctx context.Context, given []Given) ([]Computed, error) {
	inputs := map[string]map[string]modality.Input{}
	for _, g := range given {
		part, port, err := r.place(g)
		if err != nil {
			return nil, err
		}
		if inputs[part] == nil {
			inputs[part] = map[string]modality.Input{}
		}
		if _, twice := inputs[part][port]; twice {
			return nil, &InputError{Detail: fmt.Sprintf("two inputs for %s", dotted(part, port)), Hint: "give one"}
		}
		inputs[part][port] = g.Input
	}
	if len(inputs) == 0 {
		return nil, &InputError{Detail: "nothing is given to compute on", Hint: "the build takes " + strings.Join(r.ports(), ", ")}
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
		result, err := r.encode(ctx, f, in)
		if err != nil {
			return nil, err
		}
		out = append(out, Computed{p, f.engine.Name(), result})
		behind := r.projector(p.Name)
		if behind == nil || inputs[behind.part.Name] != nil {
			continue
		}
		tensors, err := r.pass(ctx, f, behind, result.Outputs)
		if err != nil {
			return nil, err
		}
		out = append(out, Computed{behind.part, behind.engine.Name(), &modality.Result{Outputs: tensors}})
	}
	return out, nil
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
	var found, all [][2]string
	for _, p := range opened(r.build.Assembly) {
		f := r.functions[p.Name]
		if f == nil || f.manifest == nil {
			continue
		}
		all = append(all, [2]string{p.Name, ""})
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
	known := r.ports()
	what := fmt.Sprintf("input %q", g.Name)
	if g.Name == "" {
		what = "an input without a name"
		if g.Modality != "" {
			what = fmt.Sprintf("an input of %s", g.Modality)
		}
	}
	if len(found) > 1 {
		var fits []string
		for _, at := range found {
			fits = append(fits, dotted(at[0], at[1]))
		}
		return "", "", &InputError{Detail: what + " may be for " + strings.Join(fits, " or "), Hint: "write PART.PORT, one of " + strings.Join(known, ", ")}
	}
	e := &InputError{Detail: fmt.Sprintf("%s is for no part of %s", what, r.build.Assembly.Name), Hint: "the build takes " + strings.Join(known, ", ")}
	var names []string
	for _, at := range all {
		names = append(names, at[0])
	}
	for _, k := range known {
		names = append(names, k, k[strings.LastIndexByte(k, '.')+1:])
	}
	if near, ok := spell.Nearest(g.Name, names); ok {
		e.Hint = "did you mean " + near + "?"
	}
	return "", "", e
}
