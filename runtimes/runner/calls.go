package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
)

// equip opens the skills of the build once. Without a router there are none.
func (r *Runner) equip(ctx context.Context) (*ToolTable, error) {
	a := r.build.Assembly
	if a.Router == nil || len(a.Skills) == 0 || r.opt.Skills.Executors == nil {
		return nil, nil
	}
	if !r.talk.Calls() {
		return nil, nil
	}
	if err := r.equipping.enter(ctx); err != nil {
		return nil, err
	}
	defer r.equipping.leave()
	if r.tools != nil {
		return r.tools, nil
	}
	if r.ended() {
		return nil, fmt.Errorf("the runner is %w", runtimes.ErrClosed)
	}
	set, err := skills.Open(ctx, r.build, r.opt.Skills)
	if err != nil {
		return nil, err
	}
	r.skills, r.tools = set, NewToolTable(set, r.talk, r.vocabulary)
	return r.tools, nil
}

// Skills describes the skills of the build, or returns nil if they do not run here.
func (r *Runner) Skills(ctx context.Context) ([]skills.Info, error) {
	if err := r.loadTokenizer(ctx); err != nil || r.talk == nil {
		return nil, err
	}
	if table, err := r.equip(ctx); err != nil || table == nil {
		return nil, err
	}
	return r.skills.List(), nil
}

// loop starts the tool calls of an answer and adds the tools to the request. It returns nil
// if there are no tools, or if the answer is constrained otherwise.
func (r *Runner) loop(ctx context.Context, req *Request, assets []sandbox.Asset) (*ToolLoop, error) {
	p := req.Preferences
	if req.Plain || p.Grammar != nil || p.Allow != nil || !req.wantsText() || len(req.Tools) > 0 {
		return nil, nil
	}
	table, err := r.equip(ctx)
	if err != nil || table == nil || req.ToolsAllowed == nil && len(table.Ready()) == 0 {
		return nil, err
	}
	loop, err := table.Begin(ToolOptions{Only: req.ToolsAllowed, Rounds: r.build.Assembly.Router.MaxCalls, Assets: assets, Record: r.opt.Called})
	if err != nil {
		return nil, err
	}
	req.Tools = loop.Definitions()
	return loop, nil
}

// write generates and performs the tool calls of the model.
func (t *telling) write(ctx context.Context, r *Runner, s *session, gen runtimes.Generation, loop *ToolLoop, req Request, prev int) error {
	if loop == nil {
		from := len(t.answer.Tokens)
		err := t.generate(ctx, r, s, gen, prev)
		t.drew(r, nil, from)
		return err
	}
	messages, most := req.messages(), gen.MaxTokens
	for {
		held, from := len(s.held), len(t.answer.Tokens)
		t.further = r.further()
		gen.StopIDs = r.talk.Ends() // the next token decides whether another call follows
		err := t.held(ctx, r, s, gen, loop, prev)
		if err == nil {
			err = s.keep(held + len(t.answer.Tokens) - from)
		}
		if err != nil || len(t.answer.Calls) == 0 || t.answer.Stop != runtimes.StopEnd && !t.further.closed {
			return err
		}
		if most > 0 {
			if gen.MaxTokens = most - len(t.answer.Tokens); gen.MaxTokens <= 0 {
				t.answer.Stop = runtimes.StopLength // no token is left for the answer
				return nil
			}
		}
		t.answer.Stop = runtimes.StopEnd
		done, stop, err := t.calls(ctx, loop)
		if err != nil {
			return err
		}
		if len(done) > 0 {
			messages = append(messages[:len(messages):len(messages)], t.turns(done)...)
		}
		if stop != "" {
			t.answer.Stop = stop
			return nil
		}
		if full, err := t.feedResults(ctx, r, s, messages, req.Tools, len(done), held, from); full || err != nil {
			return err
		}
		if err := t.add(t.reader.End()); err != nil {
			return err
		}
		t.reader = r.talk.Reader(talk.ReadOptions{Stop: req.Preferences.Stop, Thinking: t.thinking, Tools: toolNames(req.Tools)})
		prev = len(t.answer.Trace) - 1
	}
}

// held generates under the grammar of the calls, if there is one and the engine supports
// it.
func (t *telling) held(ctx context.Context, r *Runner, s *session, gen runtimes.Generation, loop *ToolLoop, prev int) error {
	from := len(t.answer.Tokens)
	if err := loop.Unheld(); err != nil {
		t.answer.Unheld = err.Error()
	}
	constraint := loop.Follow(t.thinking)
	if constraint == nil || t.answer.Unheld != "" {
		err := t.generate(ctx, r, s, gen, prev)
		t.drew(r, nil, from)
		return err
	}
	gen.Follow = constraint
	err := t.generate(ctx, r, s, gen, prev)
	if gone := (*runtimes.Unavailable)(nil); errors.As(err, &gone) && len(t.answer.Tokens) == from {
		t.answer.Unheld, t.answer.Trace = gone.Why, t.answer.Trace[:len(t.answer.Trace)-1]
		gen.Follow = nil
		return t.held(ctx, r, s, gen, loop, prev)
	}
	t.drew(r, constraint, from)
	return err
}

// drew records how the tokens from an index on were chosen.
func (t *telling) drew(r *Runner, c *CallConstraint, from int) {
	if !t.context {
		return
	}
	for i, id := range t.answer.Tokens[from:] {
		mark, how := c.Mark(i), part.FromModel
		if mark.Forced {
			how = part.FromGrammar
		}
		t.answer.Context = append(t.answer.Context, part.Position{ID: id, Piece: piece(r.talk.Tokenizer(), id), From: how, Allowed: mark.Allowed})
	}
}

// toolNames returns the names of tools.
func toolNames(tools []talk.Definition) []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

// calls performs the written calls in order, up to one that ends the answer.
func (t *telling) calls(ctx context.Context, loop *ToolLoop) (records []CallRecord, stop runtimes.Stop, err error) {
	for len(t.answer.Calls) > 0 {
		done, stop, err := t.call(ctx, loop)
		if err != nil || stop != "" {
			return records, stop, err
		}
		records = append(records, done)
	}
	t.answer.Calls = nil
	return records, "", nil
}

// call performs the first pending call, unless it ends the answer.
func (t *telling) call(ctx context.Context, loop *ToolLoop) (CallRecord, runtimes.Stop, error) {
	at := time.Since(t.start)
	done, stop, err := loop.Call(ctx, t.answer.Calls[0])
	t.away += time.Since(t.start) - at
	if err != nil || stop != "" {
		return done, stop, err
	}
	t.answer.Calls = t.answer.Calls[1:]
	t.answer.Called = append(t.answer.Called, done)
	t.answer.Trace = append(t.answer.Trace, part.Step{
		What: part.StepCall, Part: done.Call.Name, Backend: done.Skill.Engine, Note: done.Answer.Kind(), Start: at, Run: done.Took, After: []int{len(t.answer.Trace) - 1},
	})
	return done, "", nil
}

// turns returns the turns of the calls and their answers.
func (t *telling) turns(records []CallRecord) []talk.Message {
	a := t.answer
	turn := talk.Message{Role: talk.Assistant}
	for _, done := range records {
		turn.Calls = append(turn.Calls, done.Call)
	}
	if text := t.text.String()[a.textUsed:]; text != "" {
		turn.Parts = []talk.Part{{Type: abi.Text, Text: text}}
	}
	turn.Reasoning = t.reasoning.String()[a.thoughtUsed:]
	a.textUsed, a.thoughtUsed = t.text.Len(), t.reasoning.Len()
	turns := []talk.Message{turn}
	for _, done := range records {
		turns = append(turns, talk.Message{Role: talk.Tool, Name: done.Call.Name, Parts: []talk.Part{{Type: abi.Text, Text: done.Line}}})
	}
	a.turns = append(a.turns, turns...)
	return turns
}

// feedResults feeds the answers of the last n calls after the tokens that the core has
// written, which are not read again. Answers that do not fit are replaced, the last first,
// by a notice; full reports that these do not fit either.
func (t *telling) feedResults(ctx context.Context, r *Runner, s *session, messages []talk.Message, defs []talk.Definition, n, held, from int) (full bool, err error) {
	at, drawn := time.Now(), t.answer.Tokens[from:]
	defer func() { t.away += time.Since(at) }()
	room := r.model.Shape().Context - held - len(drawn) - 1 // one for the model's next token
	ids, thinking, err := t.talk.Between(messages, defs)
	for back := 1; err == nil && len(ids) > room && back <= n; back++ {
		t.replaceResult(messages, back, skills.Refused(nil, sandbox.Faultf(sandbox.Output, "the answer takes %d places, and %d are left", len(ids), max(room, 0))).Line)
		ids, thinking, err = t.talk.Between(messages, defs)
	}
	if err != nil {
		return false, err
	}
	if len(ids) > room {
		t.answer.Stop = runtimes.StopLength
		return true, nil
	}
	t.thinking = thinking
	if err := s.more(ctx, held, drawn, ids); err != nil {
		return false, err
	}
	done := r.step(part.StepPrompt, at.Sub(t.start), time.Since(at))
	done.Note, done.After = fmt.Sprintf("%d positions of the answer", len(ids)), []int{len(t.answer.Trace) - 1}
	t.answer.Trace = append(t.answer.Trace, done)
	for _, id := range ids {
		if t.context {
			t.answer.Context = append(t.answer.Context, part.Position{ID: id, Piece: piece(r.talk.Tokenizer(), id), From: part.FromTool})
		}
	}
	return false, nil
}

// replaceResult replaces the answer of a call that the model reads; the last call has back 1.
func (t *telling) replaceResult(messages []talk.Message, back int, line string) {
	parts := []talk.Part{{Type: abi.Text, Text: line}}
	messages[len(messages)-back].Parts = parts
	t.answer.turns[len(t.answer.turns)-back].Parts = parts
	t.answer.Called[len(t.answer.Called)-back].Line = line
}
