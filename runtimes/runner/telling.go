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

// errStopped ends a generation at a stop text.
var errStopped = errors.New("a stop text")

// telling is an answer in the course of being read.
type telling struct {
	answer *Answer
	reader *talk.Reader
	emit   func(text string) error

	further  *further      // calls of this turn; nil: they are not waited for
	context  bool          // Answer.Context is told
	thinking bool          // the template has begun the reasoning behind a tool's answer
	away     time.Duration // calling tools and reading their answers

	begun, start    time.Time // reading the prompt; the request
	first, last     time.Time // tokens
	text, reasoning strings.Builder
}

// read makes a sequence hold the prompt and tells of the inputs that it took.
func (t *telling) read(ctx context.Context, r *Runner, prompt talk.Prompt, c *media.Encoding, hidden bool) (*session, error) {
	at := time.Since(t.start)
	s, p, reused, err := r.read(ctx, prompt, c, hidden)
	done := r.step(part.StepPrompt, at, time.Since(t.start)-at)
	done.Load, done.Note = t.answer.Timings.Load, fmt.Sprintf("%d positions, %d of them known", p.len(), reused)
	if err != nil {
		t.cut(c)
		if s != nil {
			done.Note = fmt.Sprintf("%d positions, and no further", len(s.held))
			t.answer.Trace = append(t.answer.Trace, done)
		}
		return s, err
	}
	t.answer.Timings.Prompt, t.answer.Timings.Reused, t.answer.Assumed = p.len(), reused, p.assumed
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

// encoded tells of the inputs, and gives the last step of each.
func (t *telling) encoded(c *media.Encoding) (ends []int) {
	told := map[*media.Encoded]bool{}
	for _, e := range c.Inputs {
		if told[e] || len(e.Steps) == 0 {
			continue
		}
		told[e] = true
		var last int
		t.answer.Trace, last = part.JoinSteps(t.answer.Trace, e.Steps)
		ends = append(ends, last)
	}
	return ends
}

// cut ends the inputs, and tells how far they came.
func (t *telling) cut(c *media.Encoding) {
	c.End()
	t.encoded(c)
}

// backends are the engines of the parts that an answer took, the core first.
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

// generate has the core go on.
func (t *telling) generate(ctx context.Context, r *Runner, s *session, gen runtimes.Generation, behind int) (err error) {
	at, said := time.Since(t.start), len(t.answer.Tokens)
	t.answer.Stop, err = s.generate(ctx, gen, t.token)
	if errors.Is(err, errStopped) {
		t.answer.Stop, err = StopWord, nil
	}
	if errors.Is(err, errCalled) {
		t.answer.Stop, err = runtimes.StopEnd, nil
	}
	done := r.step(part.StepGenerate, at, time.Since(t.start)-at)
	done.Note, done.After = fmt.Sprintf("%d tokens", len(t.answer.Tokens)-said), []int{behind}
	t.answer.Trace = append(t.answer.Trace, done)
	return err
}

// step is one of the core's, as its engine is shown.
func (r *Runner) step(what string, start, run time.Duration) part.Step {
	return part.Step{
		What: what, Part: r.build.Assembly.Core.Name, Backend: runtimes.Shown(r.engine), Simulated: runtimes.Simulates(r.engine), Facts: r.facts(),
		Start: start, Run: run,
	}
}

// facts are what the loaded core says of what it runs.
func (r *Runner) facts() map[string]string {
	if d, ok := r.model.(runtimes.Documented); ok {
		return d.Facts()
	}
	return nil
}

// token takes the next token.
func (t *telling) token(id int32) error {
	t.last = time.Now()
	if t.first.IsZero() {
		t.first = t.last
	}
	spaces, belongs, err := t.further.next(id)
	if !belongs {
		return err
	}
	t.answer.Tokens = append(append(t.answer.Tokens, spaces...), id)
	if err := t.add(t.reader.Next(id)); err != nil {
		return err
	}
	if t.reader.Stopped() {
		return errStopped
	}
	return nil
}

func (t *telling) add(d talk.Delta) error {
	t.text.WriteString(d.Text)
	t.reasoning.WriteString(d.Reasoning)
	if d.Call != nil {
		t.answer.Calls = append(t.answer.Calls, *d.Call)
	}
	if d.Text == "" || t.emit == nil {
		return nil
	}
	if err := t.emit(d.Text); err != nil {
		t.emit = nil // whoever listened has gone
		return err
	}
	return nil
}

// end fills the answer with what was read.
func (t *telling) end() error {
	err := t.add(t.reader.End())
	a := t.answer
	a.Text, a.Reasoning = t.text.String(), t.reasoning.String()
	a.Timings.Generated = len(a.Tokens)
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

// joined is texts, a line for each.
func joined(parts []talk.Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}
