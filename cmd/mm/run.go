package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/schemas"
)

func (p *program) runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "run a build: verify it, load it, stream its answer", ArgsUsage: "REF|DIR|GRAPH",
		Description: "REF is in the store, DIR an output folder of assemble (or one of its targets), GRAPH a\n" +
			"build.graph.yaml, which is assembled first. A request is JSON:\n\n" +
			`  {"inputs": [{"type": "text", "text": "Once upon a time"}], "preferences": {"max_tokens": 64}}`,
		Flags: append(append([]cli.Flag{
			p.jsonFlag(), layoutFlag(),
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "text to continue"},
			&cli.StringFlag{Name: "request", Usage: "read a request from `FILE`, - for standard input"},
			&cli.BoolFlag{Name: "raw", Usage: "continue the prompt as it stands, without the model's chat template"},
			&cli.BoolFlag{Name: "smoke", Usage: "run the golden prompts of the graph; exit 5 if one misses"},
			&cli.IntFlag{Name: "max-tokens", Aliases: []string{"n"}, Usage: "most tokens to generate (default: until the text ends)"},
			&cli.Float64Flag{Name: "temperature", Aliases: []string{"t"}, Usage: "0 is greedy"},
			&cli.IntFlag{Name: "top-k", Usage: "sample from the K likeliest tokens"},
			&cli.Float64Flag{Name: "top-p", Usage: "sample from the likeliest tokens of this total probability"},
			&cli.Float64Flag{Name: "min-p", Usage: "cut tokens less likely than this share of the likeliest"},
			&cli.Float64Flag{Name: "repetition-penalty", Usage: "make tokens that were used less likely (1 does nothing)"},
			&cli.Uint64Flag{Name: "seed", Usage: "seed of the sampler"},
			&cli.StringSliceFlag{Name: "stop", Usage: "end before this text"},
			&cli.IntFlag{Name: "threads", Usage: "threads of the engine (default: the physical cores at hand)"},
			&cli.StringFlag{Name: "backend", Usage: "engine for the core (mm doctor lists them)"},
			&cli.StringFlag{Name: "target", Usage: "which target of a multi-target build"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print the answer and nothing else", Destination: &p.quiet},
		}, resolveFlags()...), trustFlags()...),
		Action: p.run,
	}
}

func (p *program) run(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	req, err := p.request(c)
	if err != nil {
		return err
	}
	r, done, err := p.runner(c, c.Args().First())
	if err != nil {
		return err
	}
	defer done()
	r.Raw = c.Bool("raw")
	if c.Bool("smoke") {
		return p.smoke(c, r)
	}
	emit := func(text string) error {
		if p.json {
			return nil
		}
		_, err := io.WriteString(p.stdout, text)
		return err
	}
	answer, err := r.Answer(c.Context, req, emit)
	p.record(c.Context, audit.Entry{Action: "run", Ref: c.Args().First(), Result: outcome(err)})
	if err != nil {
		return err
	}
	return p.printAnswer(r, answer)
}

// request builds the request from the flags, or reads it whole.
func (p *program) request(c *cli.Context) (runtimes.Request, error) {
	if file := c.String("request"); file != "" {
		for _, name := range []string{"prompt", "max-tokens", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "stop"} {
			if c.IsSet(name) {
				return runtimes.Request{}, usageError{fmt.Errorf("--%s beside --request, which says everything", name)}
			}
		}
		return p.readRequest(file)
	}
	return runtimes.Request{
		Inputs: []runtimes.Input{{Type: abi.Text, Text: c.String("prompt")}},
		Preferences: runtimes.Preferences{
			MaxTokens: c.Int("max-tokens"), Temperature: c.Float64("temperature"), TopK: c.Int("top-k"), TopP: c.Float64("top-p"),
			MinP: c.Float64("min-p"), RepetitionPenalty: c.Float64("repetition-penalty"), Seed: c.Uint64("seed"), Stop: c.StringSlice("stop"),
		},
	}, nil
}

func (p *program) readRequest(file string) (runtimes.Request, error) {
	var req runtimes.Request
	in := p.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return req, err
		}
		defer f.Close()
		in = f
	} else {
		file = "stdin"
	}
	data, err := io.ReadAll(io.LimitReader(in, schemas.MaxBytes+1))
	if err != nil {
		return req, fmt.Errorf("reading the request: %w", err)
	}
	// JSON is YAML: one strict reader gives positions for both.
	doc, list := schemas.Load(schemas.Request, file, data)
	if err := list.Err(); err != nil {
		return req, err
	}
	return req, doc.Decode(&req)
}

// runner makes a Runner for what arg means. done frees it.
func (p *program) runner(c *cli.Context, arg string) (r *runtimes.Runner, done func(), err error) {
	backend, err := runtimes.Select(c.Context, p.backends, c.String("backend"))
	if err != nil {
		return nil, nil, err
	}
	var l *located
	if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
		l, err = p.buildToRun(c, arg)
		if err != nil {
			return nil, nil, err
		}
	} else {
		if l, err = locate(c, arg); err != nil {
			return nil, nil, err
		}
		if err := p.verified(c, l); err != nil {
			l.store.Close()
			return nil, nil, err
		}
	}
	artifact, err := chooseTarget(c, l)
	if err == nil {
		r, err = newRunner(c, l.store, artifact, backend)
	}
	if err != nil {
		l.store.Close()
		return nil, nil, err
	}
	return r, func() { r.Close(); l.store.Close() }, nil
}

// buildToRun assembles a graph into the store, without giving it a name.
func (p *program) buildToRun(c *cli.Context, graph string) (*located, error) {
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	quiet := p.quiet
	p.quiet = true
	result, err := p.build(c, assemble.Options{Graph: graph, Target: c.String("target"), KeepGoing: true, Store: store, Untagged: true})
	p.quiet = quiet
	if err != nil {
		store.Close()
		return nil, err
	}
	return &located{store: store, desc: result.Descriptor, ref: graph, digested: true}, nil
}

// chooseTarget finds the manifest to run: the one asked for, or the first that
// ships the core.
func chooseTarget(c *cli.Context, l *located) (*registry.Artifact, error) {
	want := c.String("target")
	if want == "" {
		want = l.target
	}
	if l.desc.MediaType != ocispec.MediaTypeImageIndex {
		a, err := registry.ReadArtifact(c.Context, l.store, l.desc)
		if err == nil && want != "" && a.Annotations[abi.AnnotationTarget] != want {
			err = noTarget(want, []string{a.Annotations[abi.AnnotationTarget]})
		}
		return a, err
	}
	ix, err := registry.ReadIndex(c.Context, l.store, l.desc)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range ix.Entries {
		names = append(names, e.Target)
		a, err := registry.ReadArtifact(c.Context, l.store, e.Descriptor)
		if err != nil {
			return nil, err
		}
		if e.Target == want || want == "" && shipsCore(a) {
			return a, nil
		}
	}
	return nil, noTarget(want, names)
}

func noTarget(want string, have []string) error {
	var list diag.List
	list.Add(diag.NoTarget, diag.Pos{}, fmt.Sprintf("%q; there is %s", want, strings.Join(have, ", ")), "choose one with --target")
	return list.Err()
}

func shipsCore(a *registry.Artifact) bool {
	for _, l := range a.Layers {
		if l.CoreModel() {
			return true
		}
	}
	return false
}

// newRunner reads the assembly out of an artifact. A core on its own runs, too.
func newRunner(c *cli.Context, store *registry.Store, a *registry.Artifact, backend runtimes.Backend) (*runtimes.Runner, error) {
	layers := map[string]registry.Layer{}
	for _, l := range a.Layers {
		layers[l.Path] = l
	}
	assembly, err := assemblyOf(c, store, a, layers)
	if err != nil {
		return nil, err
	}
	return &runtimes.Runner{
		Assembly: assembly, Backend: backend, Settings: runtimes.Settings{Threads: c.Int("threads")},
		Path: func(file string) (string, error) {
			l, ok := layers[file]
			if !ok {
				return "", fmt.Errorf("the artifact does not hold %s", file)
			}
			return filepath.Abs(store.BlobPath(l.Descriptor))
		},
	}, nil
}

func assemblyOf(c *cli.Context, store *registry.Store, a *registry.Artifact, layers map[string]registry.Layer) (*builds.Assembly, error) {
	l, ok := layers[builds.AssemblyFile]
	if !ok {
		return loneCore(a)
	}
	data, err := readLayer(c, store, l)
	if err != nil {
		return nil, err
	}
	return builds.ParseAssembly(data)
}

// loneCore makes an assembly of a single core module.
func loneCore(a *registry.Artifact) (*builds.Assembly, error) {
	notes := a.Annotations
	if notes[abi.AnnotationType] != string(abi.Core) && notes[abi.AnnotationType] != string(abi.DraftCore) {
		return nil, hinted{fmt.Errorf("%s is a %s, which does not run by itself", a.Name, notes[abi.AnnotationType]), "run a build that contains it"}
	}
	part := builds.Part{Name: a.Name, Version: a.Version, Type: abi.Core, Files: builds.Formats{}}
	for _, l := range a.Layers {
		if f := l.Annotations[abi.AnnotationFormat]; f == "gguf" {
			part.Files[f] = []string{l.Path}
		}
	}
	return &builds.Assembly{Name: a.Name, Version: a.Version, Core: part}, nil
}

// maxSmall bounds a layer that is read into memory.
const maxSmall = 4 << 20

func readLayer(c *cli.Context, store *registry.Store, l registry.Layer) ([]byte, error) {
	if l.Descriptor.Size > maxSmall {
		return nil, fmt.Errorf("%s of %d bytes is over the limit of %d", l.Path, l.Descriptor.Size, maxSmall)
	}
	r, err := store.Fetch(c.Context, l.Descriptor)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxSmall))
}

// ran is the answer as --json prints it.
type ran struct {
	Text    string  `json:"text"`
	Tokens  []int32 `json:"tokens"`
	Stop    string  `json:"stop"`
	Timings struct {
		LoadMS       float64 `json:"load_ms"`
		FirstTokenMS float64 `json:"first_token_ms"`
		PromptTokens int     `json:"prompt_tokens"`
		Generated    int     `json:"generated"`
		PerSecond    float64 `json:"tokens_per_second"`
	} `json:"timings"`
	Backend string `json:"backend"`
}

func (p *program) printAnswer(r *runtimes.Runner, a *runtimes.Answer) error {
	t := a.Timings
	if p.json {
		out := ran{Text: a.Text, Tokens: a.Tokens, Stop: string(a.Stop), Backend: r.Backend.Name()}
		if out.Tokens == nil {
			out.Tokens = []int32{}
		}
		out.Timings.LoadMS, out.Timings.FirstTokenMS = ms(t.Load), ms(t.FirstToken)
		out.Timings.PromptTokens, out.Timings.Generated, out.Timings.PerSecond = t.Prompt, t.Generated, t.PerSecond()
		return p.printJSON(out)
	}
	if _, err := fmt.Fprintln(p.stdout); err != nil {
		return err
	}
	p.say("%d prompt + %d generated tokens (%s); load %.0f ms, first token %.1f ms, %.1f tok/s",
		t.Prompt, t.Generated, a.Stop, ms(t.Load), ms(t.FirstToken), t.PerSecond())
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// smoke runs the golden prompts and tells every one that missed.
func (p *program) smoke(c *cli.Context, r *runtimes.Runner) error {
	missed, n, err := r.Smoke(c.Context)
	p.record(c.Context, audit.Entry{Action: "run", Ref: c.Args().First() + " (smoke)", Result: outcome(err)})
	if err != nil {
		return err
	}
	if n == 0 {
		return hinted{errors.New("the build has no golden prompts"), "add golden: to the graph"}
	}
	var list diag.List
	for _, m := range missed {
		list.Add(diag.GoldenMissed, diag.Pos{File: r.Assembly.Name}, fmt.Sprintf("%q wants %q, got %q", m.Prompt, m.Want, m.Got), "compare the two; a new core needs new golden outputs")
	}
	if err := list.Err(); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]int{"golden": n, "missed": 0})
	}
	_, err = fmt.Fprintf(p.stdout, "%d of %d golden prompts as they should be\n", n, n)
	return err
}
