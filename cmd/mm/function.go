package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/workspace"
)

// fileFlags say what goes into a function and where what comes out goes.
func fileFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "input", Aliases: []string{"i"}, Usage: "`NAME=FILE` (.npy, .png, .jpg, .gif, .webp, .bmp, .wav) or NAME=NUMBER,… of an encoder, projector, decoder or ONNX file; the name may be left out where there is one input"},
		&cli.StringSliceFlag{Name: "output", Aliases: []string{"o"}, Usage: "write an output to `NAME=FILE` (.npy, .png, .wav)"},
	}
}

// call is what mm run gives to functions, and where what they give goes.
type call struct {
	inputs, outputs []assignment
	media           []talk.Part // pictures and sounds without a name
}

// assignment is NAME=VALUE; the name may be empty.
type assignment struct{ name, value string }

// read lists the paths of what is read.
func (c call) read() (paths []string) {
	for _, in := range c.inputs {
		paths = append(paths, in.value)
	}
	for _, in := range c.media {
		paths = append(paths, in.Path)
	}
	return paths
}

// explicit reports whether functions are meant, whatever the build is.
func (c call) explicit() bool { return len(c.inputs)+len(c.outputs) > 0 }

func (p *program) callOptions(c *cli.Context) (call, error) {
	var u call
	for _, m := range p.said {
		if m.Type != abi.Text {
			u.media = append(u.media, m)
		}
	}
	for _, f := range []struct {
		flag string
		into *[]assignment
	}{{"input", &u.inputs}, {"output", &u.outputs}} {
		seen := map[string]bool{}
		for _, text := range c.StringSlice(f.flag) {
			name, value, ok := strings.Cut(text, "=")
			if !ok {
				name, value = "", text
			}
			if value == "" {
				return u, usageError{fmt.Errorf("--%s %s: nothing behind the name", f.flag, text)}
			}
			if seen[name] {
				return u, usageError{fmt.Errorf("--%s %s: %q is given twice", f.flag, text, name)}
			}
			seen[name] = true
			*f.into = append(*f.into, assignment{name, value})
		}
	}
	for _, o := range u.outputs {
		if ext := strings.ToLower(filepath.Ext(o.value)); ext != ".npy" && ext != ".png" && ext != ".wav" {
			return u, usageError{fmt.Errorf("--output %s: only .npy, .png and .wav are written", o.value)}
		}
		for _, path := range u.read() {
			if overwrites(o.value, path) {
				return u, usageError{fmt.Errorf("--output %s would be written over an input", o.value)}
			}
		}
	}
	return u, nil
}

// aloneOptions refuses what only models of text take.
func aloneOptions(c *cli.Context) error {
	for _, name := range []string{"prompt", "p", "request", "smoke", "raw", "max-tokens", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "stop", "no-draft", "json-schema", "out-image", "out-audio", "out-text", "trace", "trace-svg"} {
		if c.IsSet(name) {
			return usageError{fmt.Errorf("--%s is for models of text; functions take --input", name)}
		}
	}
	if c.NArg() > 1 {
		return usageError{errors.New("a prompt is for models of text; functions take --input")}
	}
	return nil
}

// runOwn runs a function of the user's own on the files that were given.
func (p *program) runOwn(ctx context.Context, w *workspace.Workspace, use use, opt runner.Options, call call) error {
	fn, err := w.Function(ctx, use.arg, workspace.RunOptions{Target: use.target, Resolve: use.resolve})
	if err != nil {
		return err
	}
	if fn == nil {
		return hinted{fmt.Errorf("%s is the name of a build in the store as well", use.arg), "write ./" + use.arg + " for the folder"}
	}
	r, err := p.start(ctx, fn.Build(), opt)
	if err != nil {
		return err
	}
	defer r.Close()
	if fn.Made {
		p.say("%s has no manifest: a module is made of it for this run, its ports from the file", use.arg)
	}
	out, err := p.compute(ctx, w, r, use, call)
	if err != nil {
		return err
	}
	return p.printFunctions(out)
}

// runFunctions runs functions of a build on the files that were given.
func (p *program) runFunctions(ctx context.Context, w *workspace.Workspace, r *runner.Runner, use use, call call) error {
	if !r.Computes() {
		return usageError{fmt.Errorf("--input and --output are for functions of tensors, and %s is none", use.arg)}
	}
	out, err := p.compute(ctx, w, r, use, call)
	if err != nil {
		return err
	}
	return p.printFunctions(out)
}

// printFunctions prints what each part gave.
func (p *program) printFunctions(out []*functionAnswer) error {
	if p.json {
		return p.printJSON(struct {
			Parts []*functionAnswer `json:"parts"`
		}{out})
	}
	for _, a := range out {
		if len(out) > 1 {
			if _, err := fmt.Fprintf(p.stdout, "%s\n", diag.Printable(a.Part)); err != nil {
				return err
			}
		}
		if err := p.printFunction(a); err != nil {
			return err
		}
	}
	return nil
}

// compute runs functions and writes the outputs asked for.
func (p *program) compute(ctx context.Context, w *workspace.Workspace, r *runner.Runner, use use, call call) ([]*functionAnswer, error) {
	var given []part.Given
	for _, a := range call.inputs {
		g := part.Given{Name: a.name, Input: modality.Input{File: a.value}}
		if numbers, err := literals(a.value); err == nil && !exists(a.value) {
			g.Numbers, g.File = numbers, ""
		}
		given = append(given, g)
	}
	for _, m := range call.media {
		given = append(given, part.Given{Modality: m.Type, Input: modality.Input{File: m.Path, Data: m.Data}})
	}
	results, err := r.Compute(ctx, given)
	w.Record(ctx, audit.Entry{Action: "run", Ref: use.arg, Result: workspace.Outcome(err)})
	if err != nil {
		return nil, asInput(err)
	}
	var out []*functionAnswer
	for _, c := range results {
		a := &functionAnswer{Part: c.Part.Name, Backend: c.Backend, Simulated: c.Simulated, Facts: c.Facts}
		a.Timings.LoadMS, a.Timings.RunMS = ms(c.Load), ms(c.Run)
		if err := a.fill(r.Build().Manifests[c.Part.Name], c.Result); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, writeOutputs(results, call.outputs, out)
}

// asInput makes an input that is missing or unknown a fault of the command
// line.
func asInput(err error) error {
	var in *modality.InputError
	if errors.As(err, &in) {
		return usageError{hinted{in, in.Hint}}
	}
	return err
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// literals are numbers with commas between them, in brackets or not.
func literals(text string) ([]float64, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if text, ok = strings.CutSuffix(inner, "]"); !ok {
			return nil, errors.New("a bracket without its end")
		}
	}
	var out []float64
	for _, part := range strings.Split(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// functionAnswer is what a function gave, as --json prints it.
type functionAnswer struct {
	Part     string           `json:"part"`
	Text     string           `json:"text,omitempty"`
	Labels   []functionLabel  `json:"labels,omitempty"`
	Segments []functionSpan   `json:"segments,omitempty"`
	Outputs  []functionOutput `json:"outputs"`
	Assumed  []string         `json:"assumed,omitempty"`
	Backend  string           `json:"backend"`
	// Simulated is set where the backend stands in for hardware that is not there.
	Simulated bool              `json:"simulated,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"` // what the backend says of what it ran
	Timings   struct {
		LoadMS float64 `json:"load_ms"`
		RunMS  float64 `json:"run_ms"`
	} `json:"timings"`

	reads bool // the manifest says how an output is read
}

type functionLabel struct {
	Output string  `json:"output"`
	Index  int     `json:"index"`
	Name   string  `json:"name,omitempty"`
	Score  float64 `json:"score"`
}

// title is the class's name, or its number.
func (l functionLabel) title() string {
	if l.Name == "" {
		return "class " + strconv.Itoa(l.Index)
	}
	return l.Name
}

type functionSpan struct {
	Output string  `json:"output"`
	Start  float64 `json:"start"`
	End    float64 `json:"end"`
	Score  float64 `json:"score"`
}

// functionOutput describes one tensor.
type functionOutput struct {
	Name      string    `json:"name"`
	DType     string    `json:"dtype"`
	Shape     []int64   `json:"shape"`
	Min       float64   `json:"min"`
	Mean      float64   `json:"mean"`
	Max       float64   `json:"max"`
	NonFinite int       `json:"non_finite,omitempty"`
	First     []float64 `json:"first"`
	Top       []struct {
		Index int     `json:"index"`
		Score float64 `json:"score"`
	} `json:"top,omitempty"`
	File string `json:"file,omitempty"`
}

const (
	firstValues = 8
	topClasses  = 5
)

func (a *functionAnswer) fill(m *modules.Manifest, r *modality.Result) error {
	a.Text, a.Assumed = r.Text, r.Assumed
	for _, l := range r.Labels {
		a.Labels = append(a.Labels, functionLabel{l.Output, l.Index, l.Name, l.Score})
	}
	for _, s := range r.Segments {
		a.Segments = append(a.Segments, functionSpan{s.Output, s.Start, s.End, s.Score})
	}
	a.reads = len(m.Postprocess) > 0
	a.Outputs = []functionOutput{}
	for _, name := range slices.Sorted(maps.Keys(r.Outputs)) {
		_, read := m.Postprocess[name]
		o, err := describeOutput(name, r.Outputs[name], !read)
		if err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
		a.Outputs = append(a.Outputs, o)
	}
	return nil
}

// describeOutput sums a tensor up; what is no finite number is counted and left
// out. Of [1, classes] it has the likeliest.
func describeOutput(name string, t runtimes.Tensor, top bool) (functionOutput, error) {
	o := functionOutput{Name: name, DType: string(t.Type), Shape: listed(t.Shape), First: []float64{}}
	all, err := modality.Numbers(t)
	if err != nil {
		return o, err
	}
	sum, n := 0.0, 0
	for _, v := range all {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			o.NonFinite++
			continue
		}
		if n == 0 || v < o.Min {
			o.Min = v
		}
		if n == 0 || v > o.Max {
			o.Max = v
		}
		if len(o.First) < firstValues {
			o.First = append(o.First, v)
		}
		sum += v
		n++
	}
	o.Mean = sum / float64(max(n, 1))
	if top && len(t.Shape) == 2 && t.Shape[0] == 1 && t.Shape[1] > 1 && o.NonFinite == 0 {
		best, err := modality.Top(all, topClasses, false, nil)
		if err != nil {
			return o, err
		}
		for _, l := range best {
			o.Top = append(o.Top, struct {
				Index int     `json:"index"`
				Score float64 `json:"score"`
			}{l.Index, l.Score})
		}
	}
	return o, nil
}

// writeOutputs writes what --output asks for, OUTPUT or PART.OUTPUT: all files,
// or none that was not made whole.
func writeOutputs(results []part.Computed, asked []assignment, out []*functionAnswer) error {
	type place struct {
		part   int
		output string
	}
	for _, a := range asked {
		var found []place
		var names []string
		for i, c := range results {
			for _, name := range slices.Sorted(maps.Keys(c.Outputs)) {
				full := c.Part.Name + "." + name
				names = append(names, full)
				if a.name == "" || a.name == name || a.name == full {
					found = append(found, place{i, name})
				}
			}
		}
		wrong := func(what string) error {
			return usageError{hinted{fmt.Errorf("--output %s: %s output %q", a.value, what, a.name), "it gives " + strings.Join(names, ", ")}}
		}
		switch {
		case len(found) == 0:
			return wrong("there is no")
		case len(found) > 1:
			return wrong("more than one is the")
		}
		c, name := results[found[0].part], found[0].output
		encode := map[string]func(runtimes.Tensor) ([]byte, error){".npy": modality.EncodeArray, ".png": modality.EncodePicture, ".wav": c.Session.EncodeSound}[strings.ToLower(filepath.Ext(a.value))]
		data, err := encode(c.Outputs[name])
		if err != nil {
			return fmt.Errorf("writing output %q to %s: %w", name, a.value, err)
		}
		if err := fsx.Replace(a.value, 0o644, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
			return err
		}
		described := out[found[0].part].Outputs
		described[slices.IndexFunc(described, func(o functionOutput) bool { return o.Name == name })].File = a.value
	}
	return nil
}

// printFunction prints what the manifest says how to read, and otherwise every
// output.
func (p *program) printFunction(a *functionAnswer) error {
	for _, line := range a.Assumed {
		p.say("assumed: %s", line)
	}
	var b strings.Builder
	if a.Text != "" {
		fmt.Fprintln(&b, diag.Printable(a.Text))
	}
	for _, l := range a.Labels {
		fmt.Fprintf(&b, "%8.4f  %s\n", l.Score, diag.Printable(l.title()))
	}
	for _, s := range a.Segments {
		fmt.Fprintf(&b, "%9.3f s to %9.3f s  %.3f\n", s.Start, s.End, s.Score)
	}
	for _, o := range a.Outputs {
		if a.reads && o.File == "" {
			continue
		}
		o.print(&b)
	}
	_, err := io.WriteString(p.stdout, b.String())
	p.say("backend %s; load %.0f ms, run %.1f ms", a.Backend, a.Timings.LoadMS, a.Timings.RunMS)
	return err
}

func (o *functionOutput) print(b *strings.Builder) {
	shape := strings.ReplaceAll(fmt.Sprint(o.Shape), " ", ", ")
	fmt.Fprintf(b, "%s %s %s: min %.6g, mean %.6g, max %.6g", diag.Printable(o.Name), o.DType, shape, o.Min, o.Mean, o.Max)
	if o.NonFinite > 0 {
		fmt.Fprintf(b, ", %d not finite", o.NonFinite)
	}
	b.WriteString("\n ")
	for _, v := range o.First {
		fmt.Fprintf(b, " %.6g", v)
	}
	size := int64(1)
	for _, d := range o.Shape {
		size *= d
	}
	if size > int64(len(o.First)) {
		b.WriteString(" …")
	}
	b.WriteString("\n")
	for _, t := range o.Top {
		fmt.Fprintf(b, "  class %d: %.6g\n", t.Index, t.Score)
	}
	if o.File != "" {
		fmt.Fprintf(b, "  written to %s\n", o.File)
	}
}
