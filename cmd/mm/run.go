package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/speech"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/loose"
)

// saying is a flag that adds an input to the request, in the order of the command
// line.
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
const argumentMeaning = "REF is in the store or at a registry, DIR is an output folder of assemble (or one of its\n" +
	"targets): both are verified. GRAPH is a build.graph.yaml, which is assembled first. MODEL is\n" +
	"your own file or folder, which runs unverified; mm prints a notice. It is a GGUF file, the\n" +
	"folder or module.yaml of a core module, a folder of Hugging Face transformers (converted once\n" +
	"to MM_HOME) or a checkpoint of mm train; with --input also an ONNX file, a file compiled for an\n" +
	"NPU (.bin, .tflite, _ctx.onnx) or the folder of an encoder, projector or decoder."

func (p *program) run(c *cli.Context) error {
	use, loose := useOptions(c), loose.IsFunction(c.Args().First()) && !loose.IsLoop(c.Args().First())
	use.skills, use.request = true, c.String("request") != ""
	use.sampling = slices.ContainsFunc([]string{"temperature", "top-k", "top-p", "min-p", "repetition-penalty"}, c.IsSet)
	opt, err := p.runOptions(c)
	if err != nil {
		return err
	}
	call, err := part.ParseCall(c.StringSlice("input"), c.StringSlice("output"), slices.DeleteFunc(slices.Clone(p.inputs), func(m talk.Part) bool { return m.Type == abi.Text }))
	if err != nil {
		return err
	}
	out := runner.Outputs{Image: c.String("out-image"), Audio: c.String("out-audio"), TraceSVG: c.String("trace-svg"), Text: c.Bool("out-text"), Trace: c.Bool("trace")}
	if err := out.Check(); err != nil {
		return err
	}
	voice, err := speechOptions(c)
	if err != nil {
		return err
	}
	use.voiced = voice != (speech.Request{})
	if use.script, err = p.transcriptOptions(c); err != nil {
		return err
	}
	aloud := out.Audio != "" && !call.Named
	var req runner.Request
	switch {
	case loose && !aloud || call.Named:
		err = functionOptions(c)
	case !c.Bool("smoke"):
		req, err = p.answerOptions(c, out)
	}
	if err != nil {
		return err
	}
	return p.inWorkspace(p.pulling(workspaceOptions(c, use.arg)), func(w *workspace.Workspace) error {
		say := func(r *runner.Runner) error {
			return p.synthesize(c.Context, w, r, use.arg, req.Inputs, voice, out.Audio)
		}
		if !aloud {
			say = nil
		}
		if loose {
			return p.runLoose(c.Context, w, use, opt, call, say)
		}
		return p.cached(w, c.Bool("no-cache"), texts{home: use.keep != ""}, &opt, func() error {
			return p.answer(c.Context, w, use, opt, req, call, out, say)
		})
	})
}

// answerOptions returns the request for an answer with its outputs.
func (p *program) answerOptions(c *cli.Context, out runner.Outputs) (runner.Request, error) {
	req, err := p.requestOptions(c)
	if err == nil {
		err = out.Apply(&req, c.String("request") != "")
	}
	req.Context = out.Trace
	if file := c.String("json-schema"); file != "" && err == nil {
		if len(req.ToolsAllowed) > 0 {
			return req, diag.Usagef("--json-schema excludes tool calls: omit it, or the tools")
		}
		req.Preferences.Grammar, err = runner.ReadGrammar(file)
	}
	return req, err
}

// use describes an argument and how it is resolved.
type use struct {
	arg, target string
	ignore      []string // keys of config.json
	mmproj      string
	smoke       bool
	skills      bool // call skills
	request     bool // from a request file
	sampling    bool // with options of sampling
	resolve     workspace.ResolveOptions
	script      transcript // of an encoder-decoder
	keep        string     // name of a conversation
	voiced      bool       // with options of a voice
}

func useOptions(c *cli.Context) use {
	return use{arg: c.Args().First(), target: c.String("target"), ignore: c.StringSlice("ignore"), mmproj: c.String("mmproj"), smoke: c.Bool("smoke"), resolve: resolveOptions(c), keep: c.String("keep")}
}

func (p *program) answer(ctx context.Context, w *workspace.Workspace, u use, opt runner.Options, req runner.Request, call part.Call, out runner.Outputs, say func(*runner.Runner) error) error {
	r, err := p.runner(ctx, w, u, opt)
	if err != nil {
		return err
	}
	defer r.Close()
	switch {
	case u.keep != "" && u.smoke:
		return diag.Usagef("--keep and --smoke exclude each other")
	case u.keep != "" && (r.Engine() == nil || runner.HasLoop(r.Build())):
		return diag.Usagef("--keep: %s has no conversations, only a core answers turns", u.arg)
	case u.smoke:
		return p.smoke(ctx, w, r, u.arg)
	}
	if !call.Named && runner.HasLoop(r.Build()) {
		return p.transcribe(ctx, w, r, u.arg, req.Inputs, u.script)
	}
	if call.Named || r.Engine() == nil && !talk.HasText(req.Inputs) && !out.NeedAnswer() {
		return p.runFunctions(ctx, w, r, u, call)
	}
	if r.Engine() == nil && say != nil {
		return say(r)
	}
	if u.voiced {
		return diag.Usagef("--voice, --speed, --language and --phonemes are for a voice without a core; %s answers by its core", u.arg)
	}
	emit := func(text string) error {
		if p.JSON {
			return nil
		}
		_, err := io.WriteString(p.Stdout, text)
		return err
	}
	if err := p.known(r.Build(), req.ToolsAllowed, !u.request); err != nil {
		return err
	}
	if len(r.Build().Manifests) == 0 && !u.request && req.Preferences.Grammar == nil {
		req.Continue = func(o *runner.Preferences) {
			p.Note("%s has no chat template: continuing the text%s", u.arg, o.ContinueText(!u.sampling))
		}
	}
	answer, err := p.respond(ctx, w, u, r, req, emit)
	w.Record(ctx, audit.Entry{Action: "run", Ref: u.arg, Digest: r.Build().Digest, Result: workspace.Outcome(err)})
	if err != nil {
		return runner.Explain(err)
	}
	if err := p.printAnswer(r, answer, out); err != nil {
		return err
	}
	return answer.CheckBudget(req.Preferences.BudgetMS)
}

// respond answers a request, as a turn of a kept conversation if u names one.
func (p *program) respond(ctx context.Context, w *workspace.Workspace, u use, r *runner.Runner, req runner.Request, emit func(string) error) (*runner.Answer, error) {
	if u.keep == "" {
		return r.Answer(ctx, req, emit)
	}
	k, err := p.keep(ctx, w, u.keep)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	talk := &runner.Conversation{Runner: r}
	if err := p.resume(k, talk, modelOf(r)); err != nil {
		return nil, err
	}
	a, err := talk.Turn(ctx, req, emit)
	if err != nil {
		return a, err
	}
	return a, keepError(u.keep, k.Save(talk.Save))
}

// runOptions reads the options of a runner.
func (p *program) runOptions(c *cli.Context) (runner.Options, error) {
	engine, backends, err := part.ParseBackends(c.StringSlice("backend"))
	if err != nil {
		return runner.Options{}, err
	}
	opt := runner.Options{
		Engines: p.engines, Engine: engine, Backends: backends, Raw: c.Bool("raw"), Special: c.Bool("special"), NoDraft: c.Bool("no-draft"),
		Limits: runtimes.Limits{Threads: c.Int("threads"), Time: c.Duration("timeout")}, Revision: p.revision,
	}
	if c.Bool("allow-fallback") {
		opt.Fallback = func(f part.Fallback) {
			p.Note("%s runs on %s, not on %s: %v", f.Part, f.Used, f.Requested, f.Why)
		}
	}
	if opt.Special && !opt.Raw {
		return opt, diag.Usagef("--special requires --raw: a chat template writes the special tokens itself")
	}
	if opt.Now, err = workspace.Clock(c.String("date"), c.Bool("smoke")); err != nil {
		return opt, err
	}
	p.now = opt.Now
	return opt, nil
}

// preferenceOptions reads the preferences of a request.
func preferenceOptions(c *cli.Context) (runner.Preferences, error) {
	p := runner.Preferences{
		Options: sample.Options{
			Temperature: float32(c.Float64("temperature")), TopK: c.Int("top-k"), TopP: float32(c.Float64("top-p")),
			MinP: float32(c.Float64("min-p")), RepeatPenalty: float32(c.Float64("repetition-penalty")), Seed: c.Uint64("seed"),
		},
		MaxTokens: c.Int("max-tokens"), Stop: c.StringSlice("stop"),
	}
	return p, diag.Usage(p.Check())
}

// requestOptions builds the request from the flags, or reads it from a file.
func (p *program) requestOptions(c *cli.Context) (runner.Request, error) {
	if file := c.String("request"); file != "" {
		if err := refuseOptions(c, "--%s and --request exclude each other", "prompt", "p", "image", "audio", "video", "out-text", "max-tokens", "temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed", "stop", "tools", "no-tools", "asset", "keep"); err != nil {
			return runner.Request{}, err
		}
		if c.NArg() > 1 {
			return runner.Request{}, diag.Usagef("a prompt and --request exclude each other")
		}
		in, done, err := p.input().Open(file)
		if err != nil {
			return runner.Request{}, err
		}
		defer done()
		if file == "-" {
			file = "stdin"
		}
		return runner.ReadRequest(file, in)
	}
	prefs, err := preferenceOptions(c)
	if err != nil {
		return runner.Request{}, err
	}
	allowed, err := toolOptions(c)
	if err != nil {
		return runner.Request{}, err
	}
	assets, err := runner.ParseAssets(c.StringSlice("asset"))
	if err != nil {
		return runner.Request{}, err
	}
	inputs, err := p.inputOptions(c)
	return runner.Request{Inputs: inputs, Preferences: prefs, ToolsAllowed: allowed, Assets: assets}, err
}

// inputOptions returns the inputs of the flags, followed by the prompt argument: a
// question follows the image it refers to. Without text, standard input is the
// prompt.
func (p *program) inputOptions(c *cli.Context) ([]talk.Part, error) {
	inputs := p.inputs
	if c.NArg() > 1 {
		if c.IsSet("prompt") || c.IsSet("p") {
			return nil, diag.Usagef("%q and --prompt exclude each other", c.Args().Get(1))
		}
		inputs = append(slices.Clone(inputs), talk.Part{Type: abi.Text, Text: c.Args().Get(1)})
	}
	switch {
	case talk.HasText(inputs), len(inputs) > 0 && !p.input().Piped():
		return inputs, nil
	case len(inputs) == 0 && p.input().Terminal():
		return nil, diag.Usagef("missing prompt: add it after %s, or chat with mm chat %s", c.Args().First(), c.Args().First())
	}
	data, err := p.input().Read("-", schemas.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the prompt: %w", err)
	}
	words := strings.TrimRight(string(data), "\r\n")
	if len(inputs) > 0 && strings.TrimSpace(words) == "" {
		return inputs, nil
	}
	return append(slices.Clone(inputs), talk.Part{Type: abi.Text, Text: words}), nil
}

// runner opens a runner for the argument.
func (p *program) runner(ctx context.Context, w *workspace.Workspace, u use, opt runner.Options) (*runner.Runner, error) {
	b, err := w.Runnable(ctx, u.arg, u.runnable(opt))
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

// runnable returns how the argument becomes a build.
func (u use) runnable(opt runner.Options) workspace.RunOptions {
	engine, _, _ := strings.Cut(opt.Engine, "@")
	return workspace.RunOptions{
		Target: u.target, Resolve: u.resolve, Exporters: exporters(), Ignore: u.ignore, MMProj: u.mmproj,
		AnyArch: engine == native.LlamaCPP || slices.Contains(engines.LlamaCPP{}.Aliases(), engine),
	}
}

// start opens a runner for a build and reports the parts that --backend moves to
// another engine.
func (p *program) start(ctx context.Context, b *builds.Build, opt runner.Options) (*runner.Runner, error) {
	r, err := runner.Open(ctx, b, opt)
	if err != nil {
		return nil, err
	}
	for _, o := range r.Overrides() {
		p.Note("%s runs on %s (--backend) instead of %s (graph)", o.Part, o.Used, o.Graph)
	}
	return r, nil
}

func (p *program) printAnswer(r *runner.Runner, a *runner.Answer, o runner.Outputs) error {
	files, err := runner.WriteMade(o.Files(), a.Made)
	if err != nil {
		return err
	}
	steps, err := o.DrawTrace(r.Build().Assembly.Name, a.Trace)
	if err == nil && o.Trace && !p.JSON {
		err = diag.Table(p.Stderr, part.StepHeading, rowsOf(steps, part.StepReport.Row))
	}
	if err != nil {
		return err
	}
	if p.JSON {
		out := r.Report(a)
		out.Made, out.Trace = files, steps
		return p.PrintJSON(out)
	}
	if len(files) == 0 || o.Text {
		if _, err := fmt.Fprintln(p.Stdout); err != nil {
			return err
		}
	}
	for _, f := range files {
		p.Note("%s", f)
	}
	for _, line := range a.Doubts() {
		p.Note("warning: %s", line)
	}
	p.sayCalls(a)
	if len(a.Context) > 0 {
		if err := diag.Table(p.Stderr, part.PositionHeading, part.PositionRows(a.Context)); err != nil {
			return err
		}
	}
	for _, line := range a.Assumed {
		p.Note("assumed: %s", line)
	}
	p.Note("%s", a.Summary())
	return nil
}

// sayCalls describes the tool calls of an answer.
func (p *program) sayCalls(a *runner.Answer) {
	for _, line := range a.CallLines() {
		p.Note("%s", line)
	}
}

// smoke runs the golden prompts and reports the failed ones.
func (p *program) smoke(ctx context.Context, w *workspace.Workspace, r *runner.Runner, arg string) error {
	missed, n, err := r.Smoke(ctx)
	w.Record(ctx, audit.Entry{Action: "run", Ref: arg + " (smoke)", Digest: r.Build().Digest, Result: workspace.Outcome(err)})
	if err != nil {
		return err
	}
	if n == 0 {
		return diag.Hinted(errors.New("the build has no golden prompts"), "add golden: to the graph")
	}
	if err := r.GoldenFaults(missed).Err(); err != nil {
		return err
	}
	return p.PrintLine(map[string]int{"golden": n, "missed": 0}, "%d of %d golden prompts passed", n, n)
}
