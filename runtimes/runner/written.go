package runner

import (
	"context"
	"math"
	"slices"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
)

// written is a request as the core reads it.
type written struct {
	talk   *talk.Talk // with the reasoning of the request
	prompt talk.Prompt
	loop   *ToolLoop
	close  func() error // of the assets
}

// written checks a request and renders its prompt. The caller closes it.
func (r *Runner) written(ctx context.Context, req *Request) (out *written, err error) {
	if r.engine == nil {
		return nil, r.noCore()
	}
	if err := r.able(*req); err != nil {
		return nil, err
	}
	if err := req.Preferences.Check(); err != nil {
		return nil, err
	}
	if err := r.vocabularyLoaded(ctx); err != nil {
		return nil, err
	}
	assets, closed, err := r.assets(*req)
	if err != nil {
		return nil, err
	}
	out = &written{close: closed}
	defer func() {
		if err != nil {
			_ = closed() // files of a refused request, read only
		}
	}()
	if out.loop, err = r.loop(ctx, req, assets); err != nil {
		return nil, err
	}
	if out.talk, err = r.talk.With(req.Thought); err != nil {
		return nil, err
	}
	out.prompt, err = r.render(out.talk, req)
	return out, err
}

// render returns the prompt of a request.
func (r *Runner) render(t *talk.Talk, req *Request) (talk.Prompt, error) {
	if req.Plain && req.Tokens != nil {
		return r.tokenPrompt(req.Tokens)
	}
	described := t.Dialect().Guided && len(req.Tools) > 0 && !r.opt.Raw
	if req.GoesOn {
		t = t.GoesOn()
	}
	if req.Messages != nil || !req.Plain && t.Chats() || !onlyText(req.Inputs) || described {
		return t.Render(req.messages(), req.Tools)
	}
	if req.Continue != nil && !r.opt.Raw {
		req.Continue(&req.Preferences)
	}
	return t.Plain(joined(req.Inputs)), nil
}

// Count returns the positions of the prompt of a request, as its answer would count them.
// Inputs that are not text are encoded, and cached for the answer.
func (r *Runner) Count(ctx context.Context, req Request) (n int, err error) {
	in, err := r.written(ctx, &req)
	if err != nil {
		return 0, err
	}
	if err := in.close(); err != nil {
		return 0, err
	}
	for _, p := range in.prompt.Pieces {
		n += len(p.Tokens)
	}
	if !slices.ContainsFunc(in.prompt.Pieces, func(p talk.Piece) bool { return p.Part != nil }) {
		return n, nil
	}
	c, err := r.prepare(ctx, in.prompt)
	defer c.End()
	if err != nil {
		return 0, err
	}
	p := &positions{width: r.model.Shape().Width, deep: r.model.Shape().Deep}
	at := -1
	for _, piece := range in.prompt.Pieces {
		if piece.Part == nil {
			continue
		}
		if piece.Run == 0 {
			at++
		}
		if err := c.Inputs[at].Wait(ctx); err != nil {
			return 0, err
		}
		if err := p.show(c.Inputs[at], piece.Run, false); err != nil {
			return 0, err
		}
	}
	return n + p.len(), nil
}

// CanReason returns how the chat template turns on reasoning.
func (r *Runner) CanReason(ctx context.Context) (talk.Reasoning, error) {
	if err := r.vocabularyLoaded(ctx); err != nil {
		return talk.Reasoning{}, err
	}
	return r.talk.CanReason(), nil
}

// afterThought restricts what follows the reasoning that a template has opened.
type afterThought struct {
	inner runtimes.Constraint
	end   int32   // the token that closes it
	ends  []int32 // that would end the answer before
}

// Mask implements runtimes.Constraint.
func (a *afterThought) Mask(written []int32, logits []float32) error {
	if at := slices.Index(written, a.end); at >= 0 {
		return a.inner.Mask(written[at+1:], logits)
	}
	for _, id := range a.ends {
		if int(id) < len(logits) {
			logits[id] = float32(math.Inf(-1))
		}
	}
	return nil
}

// Forced implements runtimes.Constraint.
func (a *afterThought) Forced(written []int32) []int32 {
	if at := slices.Index(written, a.end); at >= 0 {
		return a.inner.Forced(written[at+1:])
	}
	return nil
}
