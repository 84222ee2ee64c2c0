// Package demo walks through the life of a build as two users would: a publisher
// assembles, signs and pushes it, a user pulls, verifies and runs it. The answers
// of the build are then compared with known ones.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/server"
)

// Options configures a demo.
type Options struct {
	Graph  string // name of a reference graph
	Prompt string // text to continue
	Seed   uint64 // of the images
	Source fs.FS  // reference modules and graphs, see [Source]
	Out    string // folder for images, sounds and the trace
	Dir    string // folder for everything else
	// MM runs mm with args in the given home and returns its standard output.
	MM func(ctx context.Context, home string, args ...string) ([]byte, error)
}

// Result is the outcome of a demo.
type Result struct {
	Steps  []Step `json:"steps"`
	Prompt string `json:"prompt"`
	Text   string `json:"text"` // the continuation of the prompt
	Folder string `json:"folder"`
	Shown  []Item `json:"shown"`
}

// Step is one command.
type Step struct {
	Step    string  `json:"step"`
	Command string  `json:"command"`
	MS      float64 `json:"ms"`
	Bytes   int64   `json:"bytes,omitempty"`
	Digest  string  `json:"digest,omitempty"`
	Note    string  `json:"note,omitempty"`
}

// Item is one question to the build, with its answer.
type Item struct {
	What   string `json:"what"`
	File   string `json:"file,omitempty"` // input, or output of a decoder
	Ask    string `json:"ask"`
	Said   string `json:"said,omitempty"` // for a drawn image, a description of its pixels
	Answer string `json:"answer,omitempty"`
	Right  *bool  `json:"right,omitempty"` // absent if the answer is not judged
	Lacks  string `json:"lacks,omitempty"` // why the build cannot answer
	// Untrained lists the parts involved whose weights are random.
	Untrained []string `json:"untrained,omitempty"`
}

// Verdict describes the result in a few words.
func (i Item) Verdict() string {
	switch {
	case i.Lacks != "":
		return i.Lacks
	case i.Right == nil:
		return ""
	case *i.Right:
		return "right"
	}
	return "wrong: " + i.Answer
}

// GraphError reports that a reference graph does not exist.
type GraphError struct {
	Name  string
	Known []string
}

// Error implements error.
func (e *GraphError) Error() string {
	return fmt.Sprintf("unknown reference graph %s, want one of %s", e.Name, strings.Join(e.Known, ", "))
}

// demo is a running demo.
type demo struct {
	Options
	Result
}

// Run runs a demo.
func Run(ctx context.Context, opt Options) (r *Result, err error) {
	cases, err := eval.Cases(opt.Seed)
	if err != nil {
		return nil, err
	}
	d := &demo{Options: opt, Result: Result{Prompt: opt.Prompt, Folder: opt.Out, Shown: []Item{}}}
	if err := copySource(opt.Source, d.Dir, fsx.CopyFS); err != nil {
		return nil, err
	}
	address, stop, err := d.serve(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return &d.Result, d.walk(ctx, address, cases)
}

// serve runs a registry on loopback until stop is called.
func (d *demo) serve(ctx context.Context) (address string, stop func() error, err error) {
	store, err := registry.Open(filepath.Join(d.Dir, "registry"), registry.Options{})
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, store, listener, server.ServeOptions{}) }()
	return listener.Addr().String(), func() error { cancel(); return <-done }, nil
}

// walk runs the steps.
func (d *demo) walk(ctx context.Context, address string, cases []eval.Case) error {
	publisher, user := filepath.Join(d.Dir, "publisher"), filepath.Join(d.Dir, "user")
	file := filepath.Join(d.Dir, "builds", d.Graph+".graph.yaml")
	dist := filepath.Join(d.Dir, "dist", d.Graph)
	parts, err := d.parts(file)
	if err != nil {
		return err
	}
	var pair struct {
		Public string `json:"public"`
	}
	if err := d.step(ctx, "keys", publisher, &pair, "keys", "generate", "--json"); err != nil {
		return err
	}
	var built struct {
		Digest  string `json:"digest"`
		Version string `json:"version"`
		Targets []struct {
			Bytes int64 `json:"bytes"`
		} `json:"targets"`
	}
	if err := d.step(ctx, "assemble, sign", publisher, &built, append([]string{"assemble", file, "--out", dist, "--sign", "default", "--locked", "--json"}, parts.exports()...)...); err != nil {
		return err
	}
	for _, t := range built.Targets {
		d.last().Bytes += t.Bytes
	}
	d.last().Digest, d.last().Note = built.Digest, fmt.Sprintf("%d targets", len(built.Targets))
	var sent, received struct {
		Digest string `json:"digest"`
		Report struct {
			Bytes int64 `json:"bytes"`
		} `json:"report"`
	}
	ref := address + "/demo/" + d.Graph + ":" + built.Version
	if err := d.step(ctx, "push", publisher, &sent, "push", dist, ref, "--json"); err != nil {
		return err
	}
	d.last().Bytes, d.last().Digest = sent.Report.Bytes, sent.Digest
	if err := d.step(ctx, "trust", user, nil, "trust", "add", pair.Public, "--match", address+"/demo/**"); err != nil {
		return err
	}
	if err := d.step(ctx, "pull", user, &received, "pull", ref, "--json"); err != nil {
		return err
	}
	d.last().Bytes, d.last().Digest = received.Report.Bytes, received.Digest
	var verified struct {
		Digest string   `json:"digest"`
		Keys   []string `json:"keys"`
	}
	if err := d.step(ctx, "verify", user, &verified, "verify", ref, "--json"); err != nil {
		return err
	}
	d.last().Digest, d.last().Note = verified.Digest, "key "+verified.Keys[0][:12]
	var answer answer
	if err := d.step(ctx, "run", user, &answer, "run", ref, "--prompt", d.Options.Prompt, "--max-tokens", "48", "--json"); err != nil {
		return err
	}
	d.last().Note = fmt.Sprintf("first token %.1f ms, %.0f tok/s", answer.Timings.FirstTokenMS, answer.Timings.PerSecond)
	d.Text = answer.Text
	return d.show(ctx, ref, user, parts, cases)
}

// answer is the part of the output of mm run that a demo reads.
type answer struct {
	Text    string `json:"text"`
	Timings struct {
		FirstTokenMS float64 `json:"first_token_ms"`
		PerSecond    float64 `json:"tokens_per_second"`
	} `json:"timings"`
}

func (d *demo) last() *Step { return &d.Steps[len(d.Steps)-1] }

// step runs mm in a home and decodes its output into result.
func (d *demo) step(ctx context.Context, name, home string, result any, args ...string) error {
	start := time.Now()
	out, err := d.MM(ctx, home, args...)
	d.Steps = append(d.Steps, Step{Step: name, Command: "mm " + strings.Join(args, " "), MS: float64(time.Since(start)) / float64(time.Millisecond)})
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(out, result); err != nil {
		return fmt.Errorf("output of mm %s: %w", args[0], err)
	}
	return nil
}

// parts holds the functions of a graph, by the modality of their input or output.
type parts struct {
	graph     string
	all       []string
	in, out   map[abi.Modality][]string
	untrained map[string]bool
}

// parts reads the graph and the manifests of its functions.
func (d *demo) parts(file string) (parts, error) {
	p := parts{in: map[abi.Modality][]string{}, out: map[abi.Modality][]string{}, untrained: map[string]bool{}}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		known, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*.graph.yaml"))
		for i, k := range known {
			known[i] = strings.TrimSuffix(filepath.Base(k), ".graph.yaml")
		}
		return p, &GraphError{d.Graph, known}
	}
	if err != nil {
		return p, err
	}
	g, list := builds.Parse(file, data)
	if g == nil {
		return p, list.Err()
	}
	p.graph = g.Name
	load := func(name string) (*modules.Manifest, error) {
		m, list := modules.Load(filepath.Join(d.Dir, "modules", name))
		if m == nil {
			return nil, list.Err()
		}
		p.untrained[name] = seed.Untrained(m)
		if !slices.Contains(p.all, name) {
			p.all = append(p.all, name)
		}
		return m, nil
	}
	for _, m := range g.Modalities {
		if !m.Projects() {
			continue
		}
		enc, err := load(m.Enc.Ref.Name)
		if err != nil {
			return p, err
		}
		if _, err := load(m.Proj.Ref.Name); err != nil {
			return p, err
		}
		p.in[enc.Modality] = []string{m.Enc.Ref.Name, m.Proj.Ref.Name}
	}
	for _, dec := range g.Decoders {
		m, err := load(dec.Ref.Name)
		if err != nil {
			return p, err
		}
		p.out[m.Modality] = []string{dec.Ref.Name}
	}
	return p, nil
}

// exports returns flags that export every function: some targets of the graphs
// omit them.
func (p parts) exports() []string {
	if len(p.all) == 0 {
		return nil
	}
	return []string{"--export", "gguf=int8,kv=fp8", "--export", "onnx=" + strings.Join(p.all, ",")}
}

// show puts every case to the build.
func (d *demo) show(ctx context.Context, ref, home string, parts parts, cases []eval.Case) error {
	traced := false
	for _, c := range cases {
		i := Item{What: c.What, Ask: c.Ask, Answer: c.Answer}
		through, needs := parts.in[c.Input], fmt.Sprintf("no encoder for %s", c.Input)
		if c.Output != "" {
			through, needs = parts.out[c.Output], fmt.Sprintf("no decoder for %s", c.Output)
		}
		file := filepath.Join(d.Out, c.File)
		switch {
		case through == nil:
			i.Lacks = parts.graph + " has " + needs
		case c.Input != "" && c.Data == nil && !slices.ContainsFunc(d.Shown, func(o Item) bool { return o.File == file }):
			i.Lacks = "the build drew or spoke nothing to ask about"
		}
		if i.Lacks != "" {
			d.Shown = append(d.Shown, i)
			continue
		}
		if c.Data != nil {
			if err := fsx.WriteFile(file, c.Data, 0o644); err != nil {
				return err
			}
		}
		i.File = file
		for _, name := range through {
			if parts.untrained[name] {
				i.Untrained = append(i.Untrained, name)
			}
		}
		args := []string{"run", ref, c.Ask, "--json"}
		if c.Output != "" {
			args = append(args, "--out-"+string(c.Output), file)
		} else {
			args = append(args, "--"+string(c.Input), file, "--max-tokens", "24")
			if !traced {
				args, traced = append(args, "--trace-svg", filepath.Join(d.Out, "trace.svg")), true
			}
		}
		var answer answer
		if err := d.step(ctx, c.What, home, &answer, args...); err != nil {
			return err
		}
		if err := i.judge(c, answer.Text); err != nil {
			return err
		}
		d.Shown = append(d.Shown, i)
	}
	return nil
}

// judge compares the answer, or the drawn image, with the expected one. Speech is
// not judged: the next case has the build listen to it.
func (i *Item) judge(c eval.Case, text string) error {
	i.Said = strings.TrimSpace(text)
	right := c.Right(text)
	switch c.Output {
	case abi.Image:
		png, err := os.ReadFile(i.File)
		if err != nil {
			return err
		}
		if i.Said, right, err = c.Seen(png); err != nil {
			return err
		}
	case abi.Audio:
		return nil
	}
	i.Right = &right
	return nil
}
