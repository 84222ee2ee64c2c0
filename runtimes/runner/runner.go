// Package runner answers requests with an assembled build.
//
// [Open] chooses the engine for the core; the first answer loads the model,
// and no later one does. [Runner.Answer] renders the request (runtimes/talk),
// takes a sequence that begins as the request does, so that only what is new
// is read, feeds the rest, generates, and reads the tokens: text, reasoning
// and tool calls. A [Conversation] is the turns so far, on a Runner that any
// number of conversations may share.
//
// An image or a sound goes through its encoder (runtimes/modality) and its
// projector, each on the engine that the graph or the options choose, and
// stands between the modality's markers as at most T_cap vectors. Inputs are
// encoded beside each other and beside what the core does meanwhile: it is
// loaded, and reads what stands before the next of them. The parts are opened
// when they are first needed, once (runtimes/part); the vectors of an input are
// remembered by its content (runtimes/media). A picture or a sound that is
// asked for is made by a decoder of the states in which the core has read the
// prompt ([Made]). What was done is told ([Answer].Trace). [Runner.Compute] runs
// the functions of a build by themselves: of a build without a core there is
// nothing else to run.
package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
)

// Options is how a build is run.
type Options struct {
	Engines []runtimes.Engine // the preferred one first
	// Engine is for the core, or for every part of a build without one; ""
	// is what the graph asks for, and where it asks for none the first that can.
	Engine string
	// Backends are engines for parts by their names, before Engine and before
	// what the graph asks for.
	Backends map[string]string
	Limits   runtimes.Limits
	// Fallback allows parts to run on another engine than the one asked for; see
	// [part.Options]. nil: it is not allowed.
	Fallback func(part.Fallback)
	Raw      bool // without the model's chat template
	NoDraft  bool // without the build's draft core, or the text itself, proposing tokens

	// Sequences is how many conversations are kept ready to go on; 0: 4.
	Sequences int

	// Features keeps what inputs come to from one process to the next; nil: not
	// at all. Revision tells this program from others, when it is first asked: what
	// another one computed is not taken. nil: all are one.
	Features *media.VectorCache
	Revision func() (string, error)

	// Skills is how the skills of the build are called. Without executors they
	// are not: a call is then the caller's to run.
	Skills skills.Options
	// Called is told of each call, before the model reads what came of it; nil:
	// nobody.
	Called func(ctx context.Context, c CallRecord)
}

// Runner runs one build. It is safe for concurrent use.
type Runner struct {
	build  *builds.Build
	opt    Options
	engine runtimes.Engine // of the core; nil: the build has none

	parts  *part.Set
	senses *media.Senses

	loading sync.Mutex // held while the model is loaded
	model   runtimes.Language
	talk    *talk.Talk
	spoken  bool          // talk was read
	load    time.Duration // of an answer that has not told it yet

	reading sync.Once // of the vocabulary, for grammars
	vocab   *grammar.Vocabulary

	equipping sync.Mutex // held while the skills are opened
	skills    *skills.Set
	tools     *ToolTable // nil: there are none, or they were not asked for

	mu     sync.Mutex
	idle   []*session // the one used last at the end
	closed bool
}

// Open chooses the engine of a build's core, and sees that the engines of
// Options.Backends are there. Nothing is loaded yet. A name in Options.Backends
// that is no part is a [part.NoPartError].
func Open(ctx context.Context, b *builds.Build, opt Options) (*Runner, error) {
	if opt.Sequences == 0 {
		opt.Sequences = 4
	}
	parts, err := part.Open(ctx, b, part.Options{Engines: opt.Engines, Engine: opt.Engine, Backends: opt.Backends, Limits: opt.Limits, Fallback: opt.Fallback})
	if err != nil {
		return nil, err
	}
	r := &Runner{build: b, opt: opt, parts: parts}
	if opt.Fallback != nil {
		opt.Features = nil // which are kept by the engine that was meant to compute them
	}
	r.senses = &media.Senses{Build: b, Parts: parts, Features: opt.Features, Revision: opt.Revision}
	if b.Assembly.HasCore() {
		r.engine, err = parts.Choose(ctx, b.Assembly.Core)
	}
	return r, err
}

// Build is what is run.
func (r *Runner) Build() *builds.Build { return r.build }

// Engine is what runs the core; nil where the build has none.
func (r *Runner) Engine() runtimes.Engine { return r.engine }

// Overrides lists the parts for which the options win over the graph.
func (r *Runner) Overrides() []part.Override { return r.parts.Overrides() }

// Computes reports whether the build has functions.
func (r *Runner) Computes() bool { return r.parts.Computes() }

// Compute runs functions of the build by themselves; see [part.Set.Compute].
func (r *Runner) Compute(ctx context.Context, given []part.Argument) ([]part.Computed, error) {
	return r.parts.Compute(ctx, given)
}

// Load loads the core, unless it is loaded. Answer calls it.
func (r *Runner) Load(ctx context.Context) error {
	if err := r.speak(); err != nil {
		return err
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	if r.ended() {
		return fmt.Errorf("the runner is %w", runtimes.ErrClosed)
	}
	if r.model != nil {
		return nil
	}
	start := time.Now()
	core := r.bundle()
	model, err := r.engine.Open(ctx, core, r.opt.Limits)
	if err != nil {
		return fmt.Errorf("opening %s with backend %s: %w", core.Part.ID(), r.engine.Name(), err)
	}
	language, ok := model.(runtimes.Language)
	if !ok {
		return errors.Join(fmt.Errorf("backend %s opens %s as no language model", r.engine.Name(), core.Part.ID()), model.Close())
	}
	r.model, r.load = language, r.load+time.Since(start)
	return nil
}

// speak reads the tokenizer, unless it was read.
func (r *Runner) speak() error {
	if r.engine == nil {
		return r.silent()
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	if r.ended() {
		return fmt.Errorf("the runner is %w", runtimes.ErrClosed)
	}
	if r.spoken {
		return nil
	}
	start := time.Now()
	core := r.bundle()
	t, err := conversant(core, r.opt.Raw, r.build.Assembly.Router)
	if err != nil {
		return fmt.Errorf("reading the tokenizer of %s: %w", core.Part.ID(), err)
	}
	r.talk, r.spoken, r.load = t, true, time.Since(start)
	return nil
}

// silent says that there is nobody to talk to.
func (r *Runner) silent() error {
	return &runtimes.Unavailable{What: "text", Why: r.build.Assembly.Name + " is a build of functions, without a core to talk to", Hint: "mm run --input, --image or --audio runs its functions"}
}

// bundle is the core with all that works on it.
func (r *Runner) bundle() runtimes.Bundle {
	a := r.build.Assembly
	part := func(p builds.Part) runtimes.Bundle {
		return runtimes.Bundle{Part: p, Manifest: r.build.Manifests[p.Name], Files: r.build.Files}
	}
	b := part(a.Core)
	b.Tokens, b.KV, b.NoDraft = a.Tokens, a.KV, r.opt.NoDraft
	if a.Draft != nil && !r.opt.NoDraft {
		d := part(*a.Draft)
		b.Draft, b.DraftTokens = &d, a.DraftTokens
	}
	for _, ad := range a.Adapters {
		b.Adapters = append(b.Adapters, runtimes.Adapter{Bundle: part(ad.Part), Scale: ad.Scale})
	}
	return b
}

// conversant reads tokenizer and chat template out of the core's GGUF file.
// It is nil for a model that has none and works on ids alone.
func conversant(core runtimes.Bundle, raw bool, router *builds.RouterPart) (*talk.Talk, error) {
	path, err := core.Entry(abi.GGUF)
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v, err := tokenizer.VocabularyFromGGUF(f)
	if errors.Is(err, tokenizer.ErrNoVocabulary) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		return nil, err
	}
	opt := talk.Options{Dialect: talk.MMABI()}
	if !raw {
		opt.Template = v.Template
	}
	if strings.Contains(v.Template, "<tool_response>") {
		opt.Dialect = talk.Hermes()
	}
	if router != nil && len(router.ToolCallTokens) == 2 {
		opt.Dialect.Open, opt.Dialect.Close = router.ToolCallTokens[0], router.ToolCallTokens[1]
	}
	return talk.New(tok, opt)
}

// Close frees the models. Answers under way end with an error; none may begin.
func (r *Runner) Close() error {
	r.loading.Lock()
	defer r.loading.Unlock()
	r.mu.Lock()
	r.closed = true
	idle := r.idle
	r.idle = nil
	r.mu.Unlock()
	var errs []error
	for _, s := range idle {
		errs = append(errs, s.Close())
	}
	if r.model != nil {
		errs = append(errs, r.model.Close())
	}
	r.equipping.Lock()
	defer r.equipping.Unlock()
	if r.skills != nil {
		errs = append(errs, r.skills.Close())
	}
	return errors.Join(append(errs, r.parts.Close())...)
}

func (r *Runner) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// errBudget is why a context ends whose request's time is over.
var errBudget = errors.New("the request's budget is over")

// Answer answers a request and calls emit for each piece of text as it comes;
// nil emit is told nothing. When ctx ends, or emit gives an error, what was
// said so far comes with the error. The request's own budget is no error: the
// answer then says [StopBudget], and may be empty.
func (r *Runner) Answer(ctx context.Context, req Request, emit func(text string) error) (a *Answer, err error) {
	if r.engine == nil {
		return nil, r.silent()
	}
	if err := r.able(req); err != nil {
		return nil, err
	}
	if err := req.Preferences.Check(); err != nil {
		return nil, err
	}
	if err := r.speak(); err != nil {
		return nil, err
	}
	if r.talk == nil {
		return nil, &runtimes.Unavailable{What: "text", Why: r.build.Assembly.Core.ID() + " has no tokenizer", Hint: "import the model with its tokenizer"}
	}
	assets, closed, err := r.assets(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closed()) }()
	loop, err := r.loop(ctx, &req, assets)
	if err != nil {
		return nil, err
	}
	var prompt talk.Prompt
	if req.Messages == nil && !r.talk.Chats() && onlyText(req.Inputs) {
		prompt = r.talk.Plain(joined(req.Inputs))
	} else if prompt, err = r.talk.Render(req.messages(), req.Tools); err != nil {
		return nil, err
	}
	return r.answer(ctx, prompt, req, loop, talk.ReadOptions{Stop: req.Preferences.Stop, Thinking: prompt.Thinking, Begins: prompt.Begins}, emit)
}

// prepare reads the inputs of a prompt, begins to encode them, and loads the core.
// What it gives is to be ended.
func (r *Runner) prepare(ctx context.Context, prompt talk.Prompt) (*media.Encoding, error) {
	in, err := r.inputs(ctx, prompt)
	if err != nil {
		return &media.Encoding{}, err
	}
	return r.senses.Encode(ctx, in), r.Load(ctx)
}

// answer feeds a prompt, reads what follows, and makes what else is asked for.
func (r *Runner) answer(ctx context.Context, prompt talk.Prompt, req Request, loop *ToolLoop, read talk.ReadOptions, emit func(string) error) (*Answer, error) {
	p := req.Preferences
	bounded, cancel := budget(ctx, p.BudgetMS)
	defer cancel()
	over := func(err error) bool {
		return errors.Is(context.Cause(bounded), errBudget) && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
	}
	c, err := r.prepare(bounded, prompt)
	defer c.End()
	t := &telling{
		answer: &Answer{Backends: []Backend{backendOf(r.build.Assembly.Core.Name, r.engine)}}, reader: r.talk.Reader(read), emit: emit, begun: time.Now(), start: c.Start,
		context: req.Context,
	}
	if over(err) {
		t.answer.Stop = StopBudget
		t.cut(c)
		return t.answer, nil
	}
	if err != nil {
		return nil, err
	}
	t.answer.Timings.Load = r.told()
	s, err := t.read(bounded, r, prompt, c, len(req.shows()) > 0)
	if s != nil {
		defer r.put(s)
	}
	var states []float32
	behind := len(t.answer.Trace) - 1 // the prompt's
	if err == nil && len(req.shows()) > 0 {
		states, err = s.states(r.engine.Name(), len(s.held))
	}
	t.answer.Stop = runtimes.StopEnd
	if err == nil && req.says() {
		gen := runtimes.Generation{Options: p.Options, MaxTokens: p.MaxTokens, StopIDs: r.talk.StopIDs(), Allow: p.Allow}
		if read.Plain {
			gen.StopIDs = r.talk.Ends()
		}
		if p.Grammar != nil {
			gen.StopIDs = r.talk.Ends()
			gen.Follow, err = r.follow(p.Grammar, gen.StopIDs, read)
		}
		if err == nil {
			err = t.write(bounded, r, s, gen, loop, req, behind)
		}
	}
	if err == nil {
		err = t.make(bounded, r, req, states, behind)
	}
	if ended := t.end(); err == nil {
		err = ended
	}
	if over(err) {
		t.answer.Stop, err = StopBudget, nil
	}
	if err != nil {
		return t.answer, fmt.Errorf("answering: %w", err)
	}
	if len(t.answer.Calls) > 0 && t.answer.Stop == runtimes.StopEnd {
		t.answer.Stop = StopCall
	}
	return t.answer, nil
}

// follow looks at a grammar through the model's vocabulary.
func (r *Runner) follow(g *grammar.Grammar, ends []int32, read talk.ReadOptions) (runtimes.Constraint, error) {
	if read.Thinking {
		return nil, &runtimes.Unavailable{What: "an answer that follows a schema", Why: "the model's template begins with its reasoning", Hint: "--raw leaves the template out"}
	}
	m, err := g.Over(r.vocabulary(), ends...)
	if err != nil {
		return nil, fmt.Errorf("following the schema: %w", err)
	}
	return m.Follow(), nil
}

// vocabulary is what grammars know of the tokenizer.
func (r *Runner) vocabulary() *grammar.Vocabulary {
	r.reading.Do(func() { r.vocab = grammar.Read(r.talk.Tokenizer()) })
	return r.vocab
}

// told is how long loading took, to the first answer that asks.
func (r *Runner) told() time.Duration {
	r.loading.Lock()
	defer r.loading.Unlock()
	d := r.load
	r.load = 0
	return d
}

// maxBudget is the longest time in ms that a duration holds.
const maxBudget = math.MaxInt64 / int64(time.Millisecond)

func budget(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	if ms <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, time.Duration(min(ms, maxBudget))*time.Millisecond, errBudget)
}
