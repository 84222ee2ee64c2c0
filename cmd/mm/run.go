package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/schemas"
)

func (p *program) runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "run a build: verify it, load it, stream its answer", ArgsUsage: "REF|DIR|GRAPH [PROMPT]",
		Description: "REF is in the store, DIR an output folder of assemble (or one of its targets), GRAPH a\n" +
			"build.graph.yaml, which is assembled first. The prompt is an argument, --prompt, or what\n" +
			"comes on standard input. mm chat holds a conversation. A request is JSON:\n\n" +
			`  {"inputs": [{"type": "text", "text": "Once upon a time"}], "preferences": {"max_tokens": 64}}`,
		Flags: append(append(append([]cli.Flag{
			p.jsonFlag(), layoutFlag(),
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "text to continue"},
			&cli.StringFlag{Name: "request", Usage: "read a request from `FILE`, - for standard input"},
			&cli.BoolFlag{Name: "smoke", Usage: "run the golden prompts of the graph; exit 5 if one misses"},
		}, answerFlags()...), p.quietFlag()), append(resolveFlags(), trustFlags()...)...),
		Action: p.run,
	}
}

func (p *program) quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print the answer and nothing else", Destination: &p.quiet}
}

// answerFlags say how to answer, for run and chat.
func answerFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "raw", Usage: "continue the prompt as it stands, without the model's chat template"},
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
		&cli.BoolFlag{Name: "no-draft", Usage: "do not let the build's draft core propose tokens"},
	}
}

func (p *program) run(c *cli.Context) error {
	if err := wantArgs(c, 1, 2); err != nil {
		return err
	}
	opt, err := p.runOptions(c)
	if err != nil {
		return err
	}
	var req runner.Request
	if !c.Bool("smoke") {
		if req, err = p.request(c); err != nil {
			return err
		}
	}
	r, done, err := p.runner(c, c.Args().First(), opt)
	if err != nil {
		return err
	}
	defer done()
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
		return explained(err)
	}
	if err := p.printAnswer(r, answer); err != nil {
		return err
	}
	if answer.Stop == runner.StopBudget {
		return overBudget(req.Preferences.BudgetMS, answer)
	}
	return nil
}

// explained gives an error of a runner its diagnostic.
func explained(err error) error {
	if !errors.Is(err, runtimes.ErrFull) {
		return err
	}
	var list diag.List
	list.Add(diag.PromptTooLong, diag.Pos{}, err.Error(), "shorten the prompt")
	return list.Err()
}

func overBudget(ms int64, a *runner.Answer) error {
	var list diag.List
	list.Add(diag.BudgetMissed, diag.Pos{}, fmt.Sprintf("%d tokens in %d ms", a.Timings.Generated, ms), "raise budget_ms, or ask for fewer tokens")
	return list.Err()
}

// runOptions takes what holds for the whole run from the flags.
func (p *program) runOptions(c *cli.Context) (runner.Options, error) {
	opt := runner.Options{
		Engines: p.engines, Engine: c.String("backend"), Raw: c.Bool("raw"), NoDraft: c.Bool("no-draft"),
		Limits: runtimes.Limits{Threads: c.Int("threads")},
	}
	if opt.Limits.Threads < 0 {
		return opt, usageError{fmt.Errorf("--threads is %d, not 0 or more", opt.Limits.Threads)}
	}
	return opt, nil
}

// preferences takes how to answer from the flags.
func preferences(c *cli.Context) (runner.Preferences, error) {
	p := runner.Preferences{
		Options: sample.Options{
			Temperature: float32(c.Float64("temperature")), TopK: c.Int("top-k"), TopP: float32(c.Float64("top-p")),
			MinP: float32(c.Float64("min-p")), RepeatPenalty: float32(c.Float64("repetition-penalty")), Seed: c.Uint64("seed"),
		},
		MaxTokens: c.Int("max-tokens"), Stop: c.StringSlice("stop"),
	}
	if err := p.Check(); err != nil {
		return p, usageError{err}
	}
	return p, nil
}

// request builds the request from the flags, or reads it whole.
func (p *program) request(c *cli.Context) (runner.Request, error) {
	if file := c.String("request"); file != "" {
		for _, name := range []string{"prompt", "max-tokens", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "stop"} {
			if c.IsSet(name) {
				return runner.Request{}, usageError{fmt.Errorf("--%s beside --request, which says everything", name)}
			}
		}
		if c.NArg() > 1 {
			return runner.Request{}, usageError{errors.New("a prompt beside --request, which says everything")}
		}
		return p.readRequest(file)
	}
	prefs, err := preferences(c)
	if err != nil {
		return runner.Request{}, err
	}
	text, err := p.prompt(c)
	if err != nil {
		return runner.Request{}, err
	}
	return runner.Request{Inputs: []talk.Part{{Type: abi.Text, Text: text}}, Preferences: prefs}, nil
}

// prompt is the second argument, --prompt, or standard input where that is no
// terminal.
func (p *program) prompt(c *cli.Context) (string, error) {
	switch {
	case c.NArg() > 1 && c.IsSet("prompt"):
		return "", usageError{fmt.Errorf("two prompts, %q and --prompt %q", c.Args().Get(1), c.String("prompt"))}
	case c.NArg() > 1:
		return c.Args().Get(1), nil
	case c.IsSet("prompt"):
		return c.String("prompt"), nil
	}
	if f, ok := p.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return "", usageError{fmt.Errorf("no prompt: write it behind %s, or hold a conversation with mm chat %s", c.Args().First(), c.Args().First())}
	}
	data, err := io.ReadAll(io.LimitReader(p.stdin, schemas.MaxBytes+1))
	if err != nil {
		return "", fmt.Errorf("reading the prompt: %w", err)
	}
	if len(data) > schemas.MaxBytes {
		return "", fmt.Errorf("reading the prompt: standard input holds more than %d bytes", schemas.MaxBytes)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

func (p *program) readRequest(file string) (runner.Request, error) {
	var req runner.Request
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
func (p *program) runner(c *cli.Context, arg string, opt runner.Options) (r *runner.Runner, done func(), err error) {
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
		r, err = newRunner(c, l.store, artifact, opt)
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
func newRunner(c *cli.Context, store *registry.Store, a *registry.Artifact, opt runner.Options) (*runner.Runner, error) {
	files := artifactFiles{store: store, layers: map[string]registry.Layer{}}
	for _, l := range a.Layers {
		files.layers[l.Path] = l
	}
	assembly, err := assemblyOf(c, store, a, files.layers)
	if err != nil {
		return nil, err
	}
	return runner.Open(c.Context, &builds.Build{Assembly: assembly, Files: files}, opt)
}

// artifactFiles are the verified blobs of an artifact.
type artifactFiles struct {
	store  *registry.Store
	layers map[string]registry.Layer
}

// Path is where the blob lies.
func (f artifactFiles) Path(name string) (string, error) {
	l, ok := f.layers[name]
	if !ok {
		return "", fmt.Errorf("the artifact does not hold %s", name)
	}
	return filepath.Abs(f.store.BlobPath(l.Descriptor))
}

// Open opens the blob.
func (f artifactFiles) Open(name string) (*os.File, error) {
	path, err := f.Path(name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// Dir cannot be had: no engine of this mm asks for it.
func (f artifactFiles) Dir(context.Context, ...string) (string, error) {
	return "", errors.New("the artifact's files do not lie under their own names")
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
	Text      string      `json:"text"`
	Reasoning string      `json:"reasoning,omitempty"`
	Calls     []talk.Call `json:"calls,omitempty"`
	Tokens    []int32     `json:"tokens"`
	Stop      string      `json:"stop"`
	Timings   struct {
		LoadMS       float64 `json:"load_ms"`
		FirstTokenMS float64 `json:"first_token_ms"`
		PromptTokens int     `json:"prompt_tokens"`
		Generated    int     `json:"generated"`
		PerSecond    float64 `json:"tokens_per_second"`
	} `json:"timings"`
	Backend string `json:"backend"`
}

func (p *program) printAnswer(r *runner.Runner, a *runner.Answer) error {
	t := a.Timings
	if p.json {
		out := ran{Text: a.Text, Reasoning: a.Reasoning, Calls: a.Calls, Tokens: a.Tokens, Stop: string(a.Stop), Backend: r.Engine().Name()}
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
	p.sayCalls(a.Calls)
	p.say("%d prompt + %d generated tokens (%s); load %.0f ms, first token %.1f ms, %.1f tok/s",
		t.Prompt, t.Generated, a.Stop, ms(t.Load), ms(t.FirstToken), t.PerSecond())
	return nil
}

// sayCalls tells which tools the model called: nothing runs them.
func (p *program) sayCalls(calls []talk.Call) {
	for _, c := range calls {
		if c.Fault != "" {
			p.say("the model calls a tool and is not understood: %s: %q", c.Fault, c.Block)
			continue
		}
		p.say("the model calls %s %s", c.Name, c.Arguments)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// smoke runs the golden prompts and tells every one that missed.
func (p *program) smoke(c *cli.Context, r *runner.Runner) error {
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
		list.Add(diag.GoldenMissed, diag.Pos{File: r.Build().Assembly.Name}, fmt.Sprintf("%q wants %q, got %q", m.Prompt, m.Want, m.Got), "compare the two; a new core needs new golden outputs")
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
