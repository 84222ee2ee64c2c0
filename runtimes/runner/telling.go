package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// errStopped ends a generation at a stop string.
var errStopped = errors.New("stop string")

// errRepeats ends a generation that repeats itself.
var errRepeats = errors.New("repetition")

const (
	maxPeriod  = 32 // tokens of a repetition that is detected
	minRepeats = 4  // of them at the end of a text
	minRepeat  = 64 // tokens that all repetitions have together
)

// repeats reports whether a text ends with repetitions of at most maxPeriod tokens.
func repeats(ids []int32) bool {
	for period := 1; period <= maxPeriod; period++ {
		n := max(minRepeat, minRepeats*period)
		if len(ids) < n {
			return false
		}
		tail := ids[len(ids)-n:]
		if slices.Equal(tail[period:], tail[:n-period]) {
			return true
		}
	}
	return false
}

// telling is an answer under construction.
type telling struct {
	answer  *Answer
	talk    *talk.Talk
	reader  *talk.Reader
	emit    func(text string) error
	reason  func(text string) error // may be nil
	scores  *scores                 // nil: none are recorded
	weigher *weigher                // nil: the answer has no confidence

	further  *further      // calls of this turn; nil: calls are not detected
	context  bool          // record Answer.Context
	guided   bool          // calls are those of a guided dialect
	endLoops bool          // end a text that repeats itself
	thoughts int           // tokens of reasoning; 0: no limit
	thinking bool          // the template opened the reasoning after a tool's answer
	away     time.Duration // time spent in tools and in reading their answers

	begun, start    time.Time // reading the prompt; the request
	first, last     time.Time // tokens
	text, reasoning strings.Builder
}

// read makes a sequence hold the prompt and records the inputs.
func (t *telling) read(ctx context.Context, r *Runner, prompt talk.Prompt, c *media.Encoding, req Request) (*session, error) {
	at := time.Since(t.start)
	s, p, reused, err := r.read(ctx, prompt, c, len(req.shows()) > 0 || t.weigher != nil, req.Owner)
	done := r.step(part.StepPrompt, at, time.Since(t.start)-at)
	done.Load, done.Note = t.answer.Timings.Load, fmt.Sprintf("%d positions, %d cached", p.len(), reused)
	if err != nil {
		t.cut(c)
		if s != nil {
			done.Note = fmt.Sprintf("%d positions, incomplete", len(s.held))
			t.answer.Trace = append(t.answer.Trace, done)
		}
		return s, err
	}
	t.answer.Timings.Prompt, t.answer.Timings.Reused, t.answer.Assumed = p.len(), reused, p.assumed
	if !req.Plain && !r.opt.Raw && !r.talk.Heads() {
		t.answer.Assumed = append(slices.Clip(p.assumed), "the chat template does not begin a turn of the model: the answer may start with its heading")
	}
	if req.Prompted != nil {
		req.Prompted(p.len(), reused)
	}
	done.After = t.encoded(c)
	t.answer.Trace = append(t.answer.Trace, done)
	if t.context {
		t.answer.Context = p.context(r.talk.Tokenizer())
	}
	all, err := r.backends(ctx, c)
	if err == nil {
		t.answer.Backends = all
	}
	return s, err
}

// encoded records the steps of the inputs and returns the last step of each.
func (t *telling) encoded(c *media.Encoding) (ends []int) {
	seen := map[*media.Encoded]bool{}
	for _, e := range c.Inputs {
		if seen[e] || len(e.Steps) == 0 {
			continue
		}
		seen[e] = true
		var last int
		t.answer.Trace, last = part.JoinSteps(t.answer.Trace, e.Steps)
		ends = append(ends, last)
	}
	return ends
}

// cut cancels the inputs and records their progress.
func (t *telling) cut(c *media.Encoding) {
	c.End()
	t.encoded(c)
}

// backends returns the engines of the used parts, the core first.
func (r *Runner) backends(ctx context.Context, c *media.Encoding) ([]Backend, error) {
	core := backendOf(r.build.Assembly.Core.Name, r.engine)
	core.Facts = r.facts()
	out := []Backend{core}
	for _, e := range c.Inputs {
		for _, name := range e.Parts() {
			engine, err := r.parts.Function(name).Engine(ctx)
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(out, func(b Backend) bool { return b.Part == name }) {
				out = append(out, backendOf(name, engine))
			}
		}
	}
	return out, nil
}

// generate generates until the turn ends.
func (t *telling) generate(ctx context.Context, r *Runner, s *session, gen runtimes.Generation, prev int) (err error) {
	at, before := time.Since(t.start), len(t.answer.Tokens)
	inner := gen.Follow
	gen.Follow = t.scores.over(t.limited(r, inner))
	t.answer.Stop, err = s.generate(ctx, gen, func(id int32) error {
		if err := t.token(id); err != nil {
			return err
		}
		if t.endLoops && repeats(t.answer.Tokens) {
			return errRepeats
		}
		return nil
	})
	if gone := (*runtimes.Unavailable)(nil); errors.As(err, &gone) && (t.weigher != nil || t.thoughts > 0) && inner == nil && len(t.answer.Tokens) == before {
		// The engine has no constraints, and therefore no probabilities.
		if t.weigher != nil {
			t.emit, t.weigher, t.scores = t.weigher.emit, nil, nil
		}
		t.thoughts, gen.Follow = 0, nil
		return t.generate(ctx, r, s, gen, prev)
	}
	switch {
	case errors.Is(err, errStopped):
		t.answer.Stop, err = StopWord, nil
	case errors.Is(err, errRepeats):
		t.answer.Stop, err = StopRepetition, nil
	}
	if errors.Is(err, errCalled) {
		t.answer.Stop, err = runtimes.StopEnd, nil
	}
	done := r.step(part.StepGenerate, at, time.Since(t.start)-at)
	done.Note, done.After = fmt.Sprintf("%d tokens", len(t.answer.Tokens)-before), []int{prev}
	t.answer.Trace = append(t.answer.Trace, done)
	return err
}

// step returns a step of the core.
func (r *Runner) step(what string, start, run time.Duration) part.Step {
	return part.Step{
		What: what, Part: r.build.Assembly.Core.Name, Backend: runtimes.Shown(r.engine), Simulated: runtimes.Simulates(r.engine), Facts: r.facts(),
		Start: start, Run: run,
	}
}

// facts returns the facts of the loaded core.
func (r *Runner) facts() map[string]string {
	if d, ok := r.model.(runtimes.Documented); ok {
		return d.Facts()
	}
	return nil
}

// token processes a generated token.
func (t *telling) token(id int32) error {
	t.last = time.Now()
	if t.first.IsZero() {
		t.first = t.last
	}
	t.scores.chose(id)
	spaces, belongs, err := t.further.next(id)
	if !belongs {
		return err
	}
	t.answer.Tokens = append(append(t.answer.Tokens, spaces...), id)
	for _, held := range spaces {
		if !t.guided {
			break // white space between two calls
		}
		if err := t.add(t.reader.Next(held)); err != nil {
			return err
		}
	}
	called := len(t.answer.Calls)
	if t.reader.Reasons() {
		t.answer.Timings.Reasoned++
	}
	if err := t.add(t.reader.Next(id)); err != nil {
		return err
	}
	if t.reader.Stopped() {
		return errStopped
	}
	if t.guided && len(t.answer.Calls) > called {
		if t.further == nil {
			return errCalled
		}
		return t.further.ended(t.reader.Pending())
	}
	return nil
}

func (t *telling) add(d talk.Delta) error {
	t.text.WriteString(d.Text)
	t.reasoning.WriteString(d.Reasoning)
	t.answer.Calls = append(t.answer.Calls, d.Calls...)
	if d.Reasoning != "" && t.reason != nil {
		if err := t.reason(d.Reasoning); err != nil {
			t.emit, t.reason = nil, nil // the caller stopped listening
			return err
		}
	}
	if d.Text == "" || t.emit == nil {
		return nil
	}
	if err := t.emit(d.Text); err != nil {
		t.emit, t.reason = nil, nil // the caller stopped listening
		return err
	}
	return nil
}

// end completes the answer.
func (t *telling) end() error {
	err := t.add(t.reader.End())
	a := t.answer
	a.Text, a.Reasoning = t.text.String(), t.reasoning.String()
	a.Timings.Generated, a.StopText = len(a.Tokens), t.reader.StopWord()
	if !t.first.IsZero() {
		a.Timings.FirstToken, a.Timings.Generate = t.first.Sub(t.begun), t.last.Sub(t.first)-t.away
	}
	return err
}

func onlyText(parts []talk.Part) bool {
	for _, p := range parts {
		if p.Type != abi.Text && p.Type != "" {
			return false
		}
	}
	return true
}

// joined joins texts, one line each.
func joined(parts []talk.Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}
