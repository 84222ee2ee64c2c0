package runtimes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
)

// Runner answers requests with one assembly.
type Runner struct {
	Assembly *builds.Assembly
	Path     func(file string) (string, error) // where a file of the assembly lies on disk, verified
	Backend  Backend                           // for the core
	Settings Settings
	Raw      bool // feed text as it stands, even to a model trained on conversations

	core Generator
	load time.Duration
	used bool // the session has a sequence in it
}

// Open opens the core's session. Answer calls it where it has not been called.
func (r *Runner) Open(ctx context.Context) error {
	if r.core != nil && !r.used {
		return nil
	}
	if err := r.Close(); err != nil {
		return err
	}
	start := time.Now()
	a := r.Assembly
	if len(a.Core.Files) == 0 {
		return &Unavailable{What: a.Core.ID(), Why: "target " + a.Target + " ships no weights of it", Hint: "assemble with --export gguf=int8"}
	}
	w, err := r.weights()
	if err != nil {
		return err
	}
	g, err := r.Backend.OpenGenerator(ctx, w, r.Settings)
	if err != nil {
		return fmt.Errorf("opening %s with backend %s: %w", a.Core.ID(), r.Backend.Name(), err)
	}
	r.core, r.load, r.used = g, time.Since(start), false
	return nil
}

// weights are the files of the core and of what works on it.
func (r *Runner) weights() (Weights, error) {
	a := r.Assembly
	w := Weights{Part: a.Core, Tokens: a.Tokens, KV: a.KV}
	var err error
	if w.Paths, err = r.paths(a.Core); err != nil {
		return w, err
	}
	if a.Draft != nil {
		w.Draft = &Draft{Part: *a.Draft, Tokens: a.DraftTokens}
		if w.Draft.Paths, err = r.paths(*a.Draft); err != nil {
			return w, err
		}
	}
	for _, ad := range a.Adapters {
		paths, err := r.paths(ad.Part)
		if err != nil {
			return w, err
		}
		w.Adapters = append(w.Adapters, Adapter{Part: ad.Part, Paths: paths, Scale: ad.Scale})
	}
	return w, nil
}

// paths tells where the files of a part lie, by format.
func (r *Runner) paths(p builds.Part) (map[string]string, error) {
	out := map[string]string{}
	for format := range p.Files {
		path, err := r.Path(p.Files.Entry(abi.Format(format)))
		if err != nil {
			return nil, err
		}
		out[format] = path
	}
	return out, nil
}

// Close frees the session.
func (r *Runner) Close() error {
	if r.core == nil {
		return nil
	}
	err := r.core.Close()
	r.core = nil
	return err
}

// Answer runs one request from an empty sequence and calls emit for each piece
// of text as it comes.
func (r *Runner) Answer(ctx context.Context, req Request, emit func(text string) error) (*Answer, error) {
	if err := r.able(req); err != nil {
		return nil, err
	}
	if err := r.Open(ctx); err != nil {
		return nil, err
	}
	r.used = true
	answer := &Answer{Timings: Timings{Load: r.load}}
	start := time.Now()
	segments, err := r.segments(req)
	if err != nil {
		return nil, err
	}
	bounded, cancel := budget(ctx, req.Preferences.BudgetMS)
	defer cancel()
	over := func(err error) bool { // the request's own time, not the caller's
		return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	}
	for _, s := range segments {
		n, err := r.core.Feed(bounded, s)
		if over(err) {
			answer.Stop = StopBudget
			return answer, nil
		}
		if err != nil {
			return nil, fmt.Errorf("feeding the text input: %w", err)
		}
		answer.Timings.Prompt += n
	}
	var text strings.Builder
	var first, last time.Time
	stop, err := r.core.Generate(bounded, generation(req.Preferences), func(t Token) error {
		last = time.Now()
		if first.IsZero() {
			first = last
		}
		if t.ID >= 0 {
			answer.Tokens = append(answer.Tokens, t.ID)
		}
		text.WriteString(t.Text)
		return emit(t.Text)
	})
	if over(err) {
		stop, err = StopBudget, nil
	}
	if err != nil {
		return nil, fmt.Errorf("generating: %w", err)
	}
	answer.Text, answer.Stop = text.String(), stop
	answer.Timings.Generated = len(answer.Tokens)
	if !first.IsZero() {
		answer.Timings.FirstToken, answer.Timings.Generate = first.Sub(start), last.Sub(first)
	}
	return answer, nil
}

// maxBudget is the longest time in ms that a duration holds.
const maxBudget = math.MaxInt64 / int64(time.Millisecond)

func budget(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	if ms <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(min(ms, maxBudget))*time.Millisecond)
}

// segments is the request as the core is fed it.
func (r *Runner) segments(req Request) ([]Segment, error) {
	var texts []string
	for _, in := range req.Inputs {
		texts = append(texts, in.Text)
	}
	if talk, ok := r.core.(Conversant); ok && !r.Raw {
		if s, err := talk.Conversation(strings.Join(texts, "\n")); s != nil || err != nil {
			return s, err
		}
	}
	var out []Segment
	for _, t := range texts {
		out = append(out, Segment{Marked: t})
	}
	return out, nil
}

func generation(p Preferences) Generation {
	return Generation{
		MaxTokens: p.MaxTokens, Temperature: p.Temperature, TopK: p.TopK, TopP: p.TopP, MinP: p.MinP,
		RepetitionPenalty: p.RepetitionPenalty, Seed: p.Seed, Stop: p.Stop,
	}
}

// able says what the request needs that this build or this mm cannot give.
func (r *Runner) able(req Request) error {
	for _, in := range req.Inputs {
		if in.Type == abi.Text {
			continue
		}
		return r.missing(in)
	}
	for _, out := range req.Outputs {
		if abi.Modality(out) != abi.Text {
			return &Unavailable{What: out + " output", Why: "decoders need the onnx backend, which this build of mm does not have", Hint: "ask for outputs: [text]"}
		}
	}
	if len(req.ToolsAllowed) == 0 {
		return nil
	}
	tool := "tool " + req.ToolsAllowed[0]
	if r.Assembly.Router == nil {
		return &Unavailable{What: tool, Why: r.Assembly.Name + " has no router", Hint: "add runtime.router to the graph"}
	}
	return &Unavailable{What: tool, Why: "this build of mm cannot run skills yet", Hint: "leave tools_allowed out"}
}

// missing explains why an input that is no text cannot be taken.
func (r *Runner) missing(in Input) error {
	what := string(in.Type) + " input"
	if in.Path != "" {
		what += " " + filepath.Base(in.Path)
	}
	for _, m := range r.Assembly.Modalities {
		if m.Modality != in.Type {
			continue
		}
		for _, p := range []builds.Part{m.Encoder, m.Projector} {
			if p.Files.Entry(abi.ONNX) == "" {
				return &Unavailable{What: what, Why: fmt.Sprintf("target %s ships no file of %s", r.Assembly.Target, p.ID()), Hint: "add it to the target's onnx list"}
			}
		}
		return &Unavailable{What: what, Why: fmt.Sprintf("%s needs the onnx backend, which this build of mm does not have", m.Encoder.ID()), Hint: "ask with text alone"}
	}
	return &Unavailable{What: what, Why: fmt.Sprintf("%s has no encoder for %s", r.Assembly.Name, in.Type), Hint: "add one to modalities"}
}

// Missed is a golden prompt whose continuation was another.
type Missed struct {
	Prompt, Want, Got string
}

// Smoke runs the assembly's golden prompts greedily and returns those whose
// continuation does not begin as it should, with the number that were run.
func (r *Runner) Smoke(ctx context.Context) (missed []Missed, run int, err error) {
	defer func(raw bool) { r.Raw = raw }(r.Raw)
	r.Raw = true // golden prompts are text to continue
	for _, g := range r.Assembly.Golden {
		req := Request{Inputs: []Input{{Type: abi.Text, Text: g.Prompt}}, Preferences: Preferences{MaxTokens: g.MaxTokens}}
		if req.Preferences.MaxTokens == 0 {
			req.Preferences.MaxTokens = len(g.Expect) // a token gives at least a byte
		}
		var got strings.Builder
		enough := errors.New("enough")
		_, err := r.Answer(ctx, req, func(text string) error {
			got.WriteString(text)
			if got.Len() >= len(g.Expect) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			return missed, run, err
		}
		run++
		if !strings.HasPrefix(got.String(), g.Expect) {
			missed = append(missed, Missed{g.Prompt, g.Expect, got.String()})
		}
	}
	return missed, run, nil
}
