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
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/workspace"
)

// fileFlags say what goes into a function and where what comes out goes.
func fileFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "input", Aliases: []string{"i"}, Usage: "`NAME=FILE` (.npy, .png, .jpg, .gif, .webp, .bmp, .wav) or NAME=NUMBER,… of an encoder, projector, decoder or ONNX file; the name may be left out where there is one input"},
		&cli.StringSliceFlag{Name: "output", Aliases: []string{"o"}, Usage: "write an output to `NAME=FILE` (.npy, .png, .wav)"},
	}
}

// functionRun is what mm run does with a function.
type functionRun struct {
	arg, engine     string
	inputs, outputs []assignment
	limits          runtimes.Limits
}

// assignment is NAME=VALUE; the name may be empty.
type assignment struct{ name, value string }

func functionOptions(c *cli.Context) (functionRun, error) {
	engine, parts, err := backendOptions(c.StringSlice("backend"))
	if err != nil {
		return functionRun{}, err
	}
	if len(parts) > 0 {
		return functionRun{}, usageError{errors.New("--backend PART=NAME is for builds: write --backend NAME")}
	}
	u := functionRun{arg: c.Args().First(), engine: engine, limits: runtimes.Limits{Threads: c.Int("threads")}}
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
	}
	for _, name := range []string{"prompt", "p", "image", "audio", "request", "smoke", "raw", "max-tokens", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "stop", "no-draft"} {
		if c.IsSet(name) {
			return u, usageError{fmt.Errorf("--%s is for models of text; %s takes --input", name, u.arg)}
		}
	}
	if c.NArg() > 1 {
		return u, usageError{fmt.Errorf("a prompt is for models of text; %s takes --input", u.arg)}
	}
	return u, nil
}

// runFunction runs a function once on the files that were given.
func (p *program) runFunction(ctx context.Context, w *workspace.Workspace, use use, u functionRun) error {
	fn, err := w.Function(ctx, u.arg, workspace.RunOptions{Target: use.target, Resolve: use.resolve})
	if err != nil {
		return err
	}
	if fn == nil {
		return hinted{fmt.Errorf("%s is the name of a build in the store as well", u.arg), "write ./" + u.arg + " for the folder"}
	}
	out, err := p.callFunction(ctx, fn, u)
	w.Record(ctx, audit.Entry{Action: "run", Ref: u.arg, Result: workspace.Outcome(err)})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(out)
	}
	return p.printFunction(out)
}

func (p *program) callFunction(ctx context.Context, fn *workspace.Function, u functionRun) (*functionAnswer, error) {
	engine, err := runtimes.Select(ctx, p.engines, u.engine, fn.Part)
	if err != nil {
		return nil, err
	}
	if fn.Made {
		p.say("%s has no manifest: a module is made of it for this run, its ports from the file", u.arg)
	}
	start := time.Now()
	model, err := engine.Open(ctx, runtimes.Bundle{Part: fn.Part, Manifest: fn.Manifest, Files: fn.Files}, u.limits)
	if err != nil {
		return nil, fmt.Errorf("opening %s with backend %s: %w", u.arg, engine.Name(), err)
	}
	defer model.Close()
	f, ok := model.(runtimes.Function)
	if !ok {
		return nil, fmt.Errorf("backend %s opens %s as no function", engine.Name(), u.arg)
	}
	session, err := modality.New(f, fn.Manifest, modality.Options{Path: fn.Files.Path})
	if err != nil {
		return nil, err
	}
	out := &functionAnswer{Backend: engine.Name()}
	out.Timings.LoadMS = ms(time.Since(start))
	inputs, err := readInputs(session, u.inputs)
	if err != nil {
		return nil, asInput(err)
	}
	start = time.Now()
	r, err := session.Run(ctx, inputs)
	if err != nil {
		return nil, asInput(err)
	}
	out.Timings.RunMS = ms(time.Since(start))
	if err := out.fill(fn, r); err != nil {
		return nil, err
	}
	return out, writeOutputs(session, r, u.outputs, out)
}

// asInput makes an input that is missing or unknown a fault of the command
// line.
func asInput(err error) error {
	var in *modality.InputError
	if errors.As(err, &in) {
		return usageError{hinted{err, in.Hint}}
	}
	return err
}

// readInputs takes files as files and what is written out as numbers.
func readInputs(session *modality.Session, given []assignment) (map[string]modality.Input, error) {
	in := map[string]modality.Input{}
	for _, a := range given {
		numbers, err := literals(a.value)
		if err != nil || exists(a.value) {
			in[a.name] = modality.Input{File: a.value}
			continue
		}
		t, err := session.Literal(a.name, numbers)
		if err != nil {
			return nil, fmt.Errorf("--input %s=%s: %w", a.name, a.value, err)
		}
		in[a.name] = modality.Input{Tensor: &t}
	}
	return in, nil
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
	Text     string           `json:"text,omitempty"`
	Labels   []functionLabel  `json:"labels,omitempty"`
	Segments []functionSpan   `json:"segments,omitempty"`
	Outputs  []functionOutput `json:"outputs"`
	Assumed  []string         `json:"assumed,omitempty"`
	Backend  string           `json:"backend"`
	Timings  struct {
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

func (a *functionAnswer) fill(fn *workspace.Function, r *modality.Result) error {
	a.Text, a.Assumed = r.Text, r.Assumed
	for _, l := range r.Labels {
		a.Labels = append(a.Labels, functionLabel{l.Output, l.Index, l.Name, l.Score})
	}
	for _, s := range r.Segments {
		a.Segments = append(a.Segments, functionSpan{s.Output, s.Start, s.End, s.Score})
	}
	a.reads = len(fn.Manifest.Postprocess) > 0
	a.Outputs = []functionOutput{}
	for _, name := range slices.Sorted(maps.Keys(r.Outputs)) {
		_, read := fn.Manifest.Postprocess[name]
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

// writeOutputs writes what --output asks for: all files, or none that was not
// made whole.
func writeOutputs(session *modality.Session, r *modality.Result, asked []assignment, out *functionAnswer) error {
	names := slices.Sorted(maps.Keys(r.Outputs))
	for _, a := range asked {
		name := a.name
		if name == "" && len(names) == 1 {
			name = names[0]
		}
		t, ok := r.Outputs[name]
		if !ok {
			return usageError{hinted{fmt.Errorf("--output %s: there is no output %q", a.value, name), "it gives " + strings.Join(names, ", ")}}
		}
		encode := map[string]func(runtimes.Tensor) ([]byte, error){".npy": modality.EncodeArray, ".png": modality.EncodePicture, ".wav": session.EncodeSound}[strings.ToLower(filepath.Ext(a.value))]
		data, err := encode(t)
		if err != nil {
			return fmt.Errorf("writing output %q to %s: %w", name, a.value, err)
		}
		if err := fsx.Replace(a.value, 0o644, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
			return err
		}
		i := slices.IndexFunc(out.Outputs, func(o functionOutput) bool { return o.Name == name })
		out.Outputs[i].File = a.value
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
