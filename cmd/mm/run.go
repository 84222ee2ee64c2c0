package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/grammar/schema"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/spell"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/workspace"
)

func (p *program) runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "run a build or a model: load it, stream its answer", ArgsUsage: "REF|DIR|GRAPH|MODEL [PROMPT]",
		Description: argumentMeaning + "\n\n" +
			"The prompt is an argument, --prompt, or what comes on standard input; with --image,\n" +
			"--audio and --video the model reads them in the order given. mm chat holds a conversation. A request\n" +
			"is JSON:\n\n" +
			`  {"inputs": [{"type": "text", "text": "Once upon a time"}], "preferences": {"max_tokens": 64}}` + "\n\n" +
			"A build without a core is a set of functions. --input, --image and --audio give them\n" +
			"something to compute on, --output writes what they gave.",
		Flags: append(append(append([]cli.Flag{
			p.jsonFlag(), layoutFlag(),
			&cli.GenericFlag{Name: "prompt", Usage: "text to continue; also -p", Value: saying{p, abi.Text}},
			&cli.GenericFlag{Name: "p", Value: saying{p, abi.Text}, Hidden: true}, // an alias is set a second time
			&cli.GenericFlag{Name: "image", Usage: "show the model the picture in `FILE` (repeatable)", Value: saying{p, abi.Image}},
			&cli.GenericFlag{Name: "audio", Usage: "have the model hear the sound in `FILE` (repeatable)", Value: saying{p, abi.Audio}},
			&cli.GenericFlag{Name: "video", Usage: "show the model the film in `FILE`, an animated GIF, a Y4M file or a folder of frames (repeatable)", Value: saying{p, abi.Video}},
			&cli.StringFlag{Name: "request", Usage: "read a request from `FILE`, - for standard input"},
			&cli.StringFlag{Name: "json-schema", Usage: "answer in JSON that the schema in `FILE` accepts (docs/GRAMMAR.md)"},
			&cli.BoolFlag{Name: "smoke", Usage: "run the golden prompts of the graph; exit 5 if one misses"},
		}, append(append(outputFlags(), fileFlags()...), answerFlags()...)...), p.quietFlag()), append(resolveFlags(), append(claimFlags(), expectFlag())...)...),
		Action: p.run,
	}
}

// saying is a flag of a request: what it says stands among what the others say,
// in the order of the command line.
type saying struct {
	p  *program
	in abi.Modality
}

// Set implements cli.Generic.
func (s saying) Set(value string) error {
	part := talk.Part{Type: s.in, Text: value}
	if s.in != abi.Text {
		part = talk.Part{Type: s.in, Path: value}
	}
	s.p.inputs = append(s.p.inputs, part)
	return nil
}

// String implements cli.Generic; there is no default.
func (saying) String() string { return "" }

// argumentMeaning is what mm run and mm chat take.
const argumentMeaning = "REF is in the store or at a registry, DIR an output folder of assemble (or one of its\n" +
	"targets): both are verified. GRAPH is a build.graph.yaml, which is assembled first. MODEL is\n" +
	"a file or folder of your own, run as it stands and vouched for by nobody: a GGUF file, a\n" +
	"core module's folder or module.yaml, a folder of Hugging Face transformers (converted once,\n" +
	"into MM_HOME), a checkpoint of mm train; and, with --input, an ONNX file, a file compiled for an\n" +
	"NPU (.bin, .tflite, _ctx.onnx) or the folder of an encoder, projector or decoder."

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
		timeoutFlag("end a call of an engine that takes longer than `TIME`: a function's run, reading a prompt, the next token", "10m of qnn and onnxruntime, 1h of llamacpp, never of core and onnx"),
		&cli.StringSliceFlag{Name: "backend", Usage: "engine for the core, or PART=`NAME` for a part of the graph; NAME@VERSION of an installed one, by what it begins with (repeatable; mm doctor lists engines)"},
		&cli.BoolFlag{Name: "allow-fallback", Usage: "let a part that the engine asked for does not take run on another, which is told and named in the result"},
		&cli.StringFlag{Name: "target", Usage: "which target of a multi-target build"},
		&cli.StringFlag{Name: "tools", Usage: "skills of the build that the model may call, as `A,B` (default: all)"},
		&cli.BoolFlag{Name: "no-tools", Usage: "do not let the model call any"},
		&cli.StringSliceFlag{Name: "asset", Usage: "let the skills read a file that the model asks about by its name, #NAME, as `NAME=FILE` (repeatable)"},
		&cli.BoolFlag{Name: "no-draft", Usage: "do not let the build's draft core, or the text itself, propose tokens"},
	}
}

func (p *program) run(c *cli.Context) error {
	use, loose := useOptions(c), workspace.IsFunction(c.Args().First())
	use.skills, use.request = true, c.String("request") != ""
	opt, err := p.runOptions(c)
	if err != nil {
		return err
	}
	call, err := p.callOptions(c)
	if err != nil {
		return err
	}
	out, err := outputOptions(c)
	if err != nil {
		return err
	}
	var req runner.Request
	switch {
	case loose || call.explicit():
		err = textOnly(c)
	case !c.Bool("smoke"):
		if req, err = p.requestOptions(c); err == nil {
			err = out.apply(&req, c.String("request") != "")
		}
		if file := c.String("json-schema"); file != "" && err == nil {
			if len(req.ToolsAllowed) > 0 {
				return usageError{errors.New("an answer that a schema holds has no room for calls of tools: leave out --json-schema or the tools")}
			}
			req.Preferences.Grammar, err = readSchema(file)
		}
		req.Context = out.trace
	}
	if err != nil {
		return err
	}
	return p.inWorkspace(workspaceOptions(c, use.arg), func(w *workspace.Workspace) error {
		if loose {
			return p.runLoose(c.Context, w, use, opt, call)
		}
		if opt.Features = p.features(w, c.Bool("no-cache")); opt.Features != nil {
			defer opt.Features.Close()
		}
		return p.answer(c.Context, w, use, opt, req, call, out)
	})
}

// use is what an argument means and with what right it is used.
type use struct {
	arg, target string
	smoke       bool
	skills      bool // they are called
	request     bool // comes whole, from a file
	resolve     workspace.ResolveOptions
}

func useOptions(c *cli.Context) use {
	return use{arg: c.Args().First(), target: c.String("target"), smoke: c.Bool("smoke"), resolve: resolveOptions(c)}
}

func (p *program) answer(ctx context.Context, w *workspace.Workspace, u use, opt runner.Options, req runner.Request, call call, out outputs) error {
	r, err := p.runner(ctx, w, u, opt)
	if err != nil {
		return err
	}
	defer r.Close()
	if u.smoke {
		return p.smoke(ctx, w, r, u.arg)
	}
	if call.explicit() || r.Engine() == nil && !text(req.Inputs) && !out.any() {
		return p.runFunctions(ctx, w, r, u, call)
	}
	emit := func(text string) error {
		if p.json {
			return nil
		}
		_, err := io.WriteString(p.stdout, text)
		return err
	}
	if err := p.known(r.Build(), req.ToolsAllowed, !u.request); err != nil {
		return err
	}
	answer, err := r.Answer(ctx, req, emit)
	w.Record(ctx, audit.Entry{Action: "run", Ref: u.arg, Result: workspace.Outcome(err)})
	if err != nil {
		return explained(err)
	}
	if err := p.printAnswer(r, answer, out); err != nil {
		return err
	}
	if answer.Stop == runner.StopBudget {
		return overBudget(req.Preferences.BudgetMS, answer)
	}
	return nil
}

// text reports whether something is said in words.
func text(parts []talk.Part) bool {
	return slices.ContainsFunc(parts, func(p talk.Part) bool { return p.Type == abi.Text || p.Type == "" })
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
	engine, backends, err := backendOptions(c.StringSlice("backend"))
	if err != nil {
		return runner.Options{}, err
	}
	opt := runner.Options{
		Engines: p.engines, Engine: engine, Backends: backends, Raw: c.Bool("raw"), NoDraft: c.Bool("no-draft"),
		Limits: runtimes.Limits{Threads: c.Int("threads"), Time: c.Duration("timeout")}, Revision: p.revision,
	}
	if c.Bool("allow-fallback") {
		opt.Fallback = func(f part.Fallback) {
			p.say("%s runs on %s, not on %s: %v", f.Part, f.Used, f.Requested, f.Why)
		}
	}
	if opt.Limits.Threads < 0 {
		return opt, usageError{fmt.Errorf("--threads is %d, not 0 or more", opt.Limits.Threads)}
	}
	return opt, checkTimeout(opt.Limits.Time)
}

// timeoutFlag bounds the calls of engines; 0 leaves it to them.
func timeoutFlag(usage, absent string) cli.Flag {
	return &cli.DurationFlag{Name: "timeout", Usage: usage, DefaultText: absent}
}

func checkTimeout(d time.Duration) error {
	if d < 0 {
		return usageError{fmt.Errorf("--timeout is %v, not 0 or more", d)}
	}
	return nil
}

// backendOptions reads the values of --backend: NAME, and PART=NAME, with @VERSION
// or not.
func backendOptions(values []string) (engine string, parts map[string]string, err error) {
	parts = map[string]string{}
	for _, v := range values {
		part, name, named := strings.Cut(v, "=")
		if !named {
			part, name = "", v
		}
		switch {
		case name == "" || named && part == "", strings.HasSuffix(name, "@"):
			return "", nil, usageError{fmt.Errorf("--backend is %q, wanted NAME, NAME@VERSION or PART=NAME", v)}
		case parts[part] != "" && parts[part] != name:
			return "", nil, usageError{fmt.Errorf("--backend says %s and %s of one part", v, parts[part])}
		}
		parts[part] = name
	}
	engine = parts[""]
	delete(parts, "")
	return engine, parts, nil
}

// preferenceOptions takes how to answer from the flags.
func preferenceOptions(c *cli.Context) (runner.Preferences, error) {
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

// requestOptions builds the request from the flags, or reads it whole.
func (p *program) requestOptions(c *cli.Context) (runner.Request, error) {
	if file := c.String("request"); file != "" {
		for _, name := range []string{"prompt", "p", "image", "audio", "video", "out-text", "max-tokens", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "stop", "tools", "no-tools", "asset"} {
			if c.IsSet(name) {
				return runner.Request{}, usageError{fmt.Errorf("--%s beside --request, which says everything", name)}
			}
		}
		if c.NArg() > 1 {
			return runner.Request{}, usageError{errors.New("a prompt beside --request, which says everything")}
		}
		return p.readRequest(file)
	}
	prefs, err := preferenceOptions(c)
	if err != nil {
		return runner.Request{}, err
	}
	allowed, err := toolOptions(c)
	if err != nil {
		return runner.Request{}, err
	}
	assets, err := assetOptions(c)
	if err != nil {
		return runner.Request{}, err
	}
	inputs, err := p.inputOptions(c)
	return runner.Request{Inputs: inputs, Preferences: prefs, ToolsAllowed: allowed, Assets: assets}, err
}

// assetOptions reads the values of --asset: NAME=FILE.
func assetOptions(c *cli.Context) (out []runner.Asset, err error) {
	for _, v := range c.StringSlice("asset") {
		name, file, ok := strings.Cut(v, "=")
		if !ok || name == "" || file == "" {
			return nil, usageError{fmt.Errorf("--asset is %q, wanted NAME=FILE", v)}
		}
		out = append(out, runner.Asset{Name: name, Path: file})
	}
	return out, nil
}

// inputOptions are what the flags say, then the second argument, as a question
// stands behind the picture that it is about; or, where nothing was said in words,
// standard input.
func (p *program) inputOptions(c *cli.Context) ([]talk.Part, error) {
	said := p.inputs
	if c.NArg() > 1 {
		if c.IsSet("prompt") || c.IsSet("p") {
			return nil, usageError{fmt.Errorf("two prompts, %q and --prompt", c.Args().Get(1))}
		}
		said = append(slices.Clone(said), talk.Part{Type: abi.Text, Text: c.Args().Get(1)})
	}
	switch {
	case text(said), len(said) > 0 && !p.piped():
		return said, nil
	case len(said) == 0 && p.terminal():
		return nil, usageError{fmt.Errorf("no prompt: write it behind %s, or hold a conversation with mm chat %s", c.Args().First(), c.Args().First())}
	}
	words, err := p.readPrompt()
	if len(said) > 0 && strings.TrimSpace(words) == "" {
		return said, err
	}
	return append(slices.Clone(said), talk.Part{Type: abi.Text, Text: words}), err
}

// terminal reports whether somebody types on standard input.
func (p *program) terminal() bool {
	f, ok := p.stdin.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// piped reports whether standard input is a pipe or a file: a device, such as
// /dev/null, says nothing about pictures.
func (p *program) piped() bool {
	f, ok := p.stdin.(*os.File)
	if !ok {
		return true
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&(fs.ModeDevice|fs.ModeDir) == 0
}

// readPrompt reads standard input.
func (p *program) readPrompt() (string, error) {
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

// readSchema reads what an answer is held to.
func readSchema(file string) (*grammar.Grammar, error) {
	data, err := fsx.ReadFile(file, schemas.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	g, err := grammar.New(data, grammar.Options{})
	var beyond *schema.Error
	if !errors.As(err, &beyond) {
		return g, err
	}
	var list diag.List
	for _, f := range beyond.Faults {
		list.Add(diag.SchemaSubset, diag.Pos{File: file}, f.String(), "")
	}
	return nil, list.Err()
}

// runner makes a Runner for what the argument means.
func (p *program) runner(ctx context.Context, w *workspace.Workspace, u use, opt runner.Options) (*runner.Runner, error) {
	b, err := w.Runnable(ctx, u.arg, workspace.RunOptions{Target: u.target, Resolve: u.resolve, Exporters: exporters()})
	if err != nil {
		return nil, err
	}
	if u.skills {
		if err := p.equip(ctx, w, b, &opt); err != nil {
			return nil, err
		}
	}
	return p.start(ctx, b, opt)
}

// start makes a Runner for a build, and says what the command line changes of it.
func (p *program) start(ctx context.Context, b *builds.Build, opt runner.Options) (*runner.Runner, error) {
	r, err := runner.Open(ctx, b, opt)
	if unknown := (*part.NoPartError)(nil); errors.As(err, &unknown) {
		hint := "known: " + strings.Join(unknown.Known, ", ")
		if near, ok := spell.Nearest(unknown.Name, unknown.Known); ok {
			hint = "did you mean " + near + "?"
		}
		return nil, usageError{hinted{fmt.Errorf("--backend: %w", err), hint}}
	}
	if err != nil {
		return nil, err
	}
	for _, o := range r.Overrides() {
		p.say("%s runs on %s, as --backend says; the graph asks for %s", o.Part, o.Used, o.Graph)
	}
	return r, nil
}

func (p *program) printAnswer(r *runner.Runner, a *runner.Answer, o outputs) error {
	files, err := runner.WriteMade(o.files, a.Made)
	if err != nil {
		return err
	}
	steps, err := p.traceReport(o, r.Build().Assembly.Name, a.Trace)
	if err != nil {
		return err
	}
	if p.json {
		out := r.Report(a)
		out.Made, out.Trace = files, steps
		return p.printJSON(out)
	}
	if len(files) == 0 || o.text {
		if _, err := fmt.Fprintln(p.stdout); err != nil {
			return err
		}
	}
	for _, f := range files {
		p.say("%s by %s in %s: %s %v, %d bytes, %s", f.Type, f.Part, f.File, f.DType, f.Shape, f.Bytes, short(f.Digest))
	}
	p.sayCalls(a)
	if len(a.Context) > 0 {
		if err := writeTable(p.stderr, part.PositionHeading, part.PositionRows(a.Context)); err != nil {
			return err
		}
	}
	for _, line := range a.Assumed {
		p.say("assumed: %s", line)
	}
	p.say("%s", a.Summary())
	return nil
}

// sayCalls describes the tool calls of an answer.
func (p *program) sayCalls(a *runner.Answer) {
	for _, line := range a.CallLines() {
		p.say("%s", line)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// smoke runs the golden prompts and tells every one that missed.
func (p *program) smoke(ctx context.Context, w *workspace.Workspace, r *runner.Runner, arg string) error {
	missed, n, err := r.Smoke(ctx)
	w.Record(ctx, audit.Entry{Action: "run", Ref: arg + " (smoke)", Result: workspace.Outcome(err)})
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
