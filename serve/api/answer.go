package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// The limits of a request.
const (
	maxMessages = 4096
	maxStops    = 16
	maxTools    = 128
)

// Ask is a request in no wire format.
type Ask struct {
	Model   *Model
	Request runner.Request
	// Force makes the answer a call of one of these tools.
	Force []talk.Definition
	// Single limits the answer to one call.
	Single bool
	// Foreign reports bytes of the client in the request that only the model's own
	// preprocessing can judge: pictures, sounds and schemas.
	Foreign bool

	think string // the field that asks for reasoning
}

// Finish is the reason why an answer ended, in no wire format.
type Finish int

// The reasons.
const (
	Stopped Finish = iota // the model or a stop string ended it
	Length                // a limit of tokens, of the context or of time
	Called                // calls for the client
)

// Result is an answer.
type Result struct {
	*runner.Answer
	Calls  []talk.Call // for the client, with ids
	Finish Finish
}

// Usage returns the counts of an answer: tokens of the prompt, those of it that were cached,
// and generated tokens.
func (r *Result) Usage() (prompt, cached, generated int) {
	t := r.Timings
	return t.Prompt, t.Reused, t.Generated
}

// Answer waits for a place among the concurrent answers and asks the model. Emit, if not
// nil, receives the text. The context of the request ends the work.
func (c *Call) Answer(ask *Ask, emit func(text string) error) (*Result, error) {
	if err := c.prepare(ask); err != nil {
		return nil, err
	}
	ctx, leave, err := c.server.enter(c)
	if err != nil {
		return nil, err
	}
	defer leave()
	ask.Model = c.server.present(ask.Model)
	c.span.reach(ask.Model)
	m := c.server.metrics
	first := true
	listen := func(text string) error {
		if first {
			first = false
			m.first(c.span.first(time.Since(c.begun)))
		}
		if emit == nil || ask.Force != nil {
			return nil
		}
		return emit(text)
	}
	a, err := ask.Model.Answerer.Answer(ctx, ask.Request, listen)
	if a != nil {
		m.tokens(a.Timings.Prompt, a.Timings.Reused, a.Timings.Generated)
		c.span.count(a.Timings.Prompt, a.Timings.Reused, a.Timings.Generated)
	}
	if err != nil {
		e := problem(ctx, ask.thought(err), a != nil && len(a.Tokens) > 0, ask.Foreign)
		if e == errGone {
			m.cancelled()
		}
		return nil, e
	}
	return c.result(ask, a)
}

// prepare checks a request and applies the limits of the server.
func (c *Call) prepare(ask *Ask) error {
	ask.Request.Owner = c.Key
	p := &ask.Request.Preferences
	if limit := c.server.opt.Tokens; p.MaxTokens == 0 || p.MaxTokens > limit {
		p.MaxTokens = limit
	}
	if limit := c.server.opt.Time.Milliseconds(); limit > 0 && (p.BudgetMS == 0 || p.BudgetMS > limit) {
		p.BudgetMS = limit
	}
	if err := p.Check(); err != nil {
		return Invalid("", "%v", err)
	}
	switch n, stops := len(ask.Request.Messages), len(p.Stop); {
	case n > maxMessages:
		return Invalid("messages", "messages: got %d, want at most %d", n, maxMessages)
	case stops > maxStops:
		return Invalid("stop", "stop: got %d strings, want at most %d", stops, maxStops)
	}
	if err := talk.Check(ask.Request.Messages); err != nil {
		return Invalid("messages", "%v", err)
	}
	if err := checkResults(ask.Request.Messages); err != nil {
		return err
	}
	if len(ask.Force) == 0 {
		p.OrCalls = p.Grammar != nil && len(ask.Request.Tools) > 0
		return nil
	}
	tools := make([]grammar.Tool, len(ask.Force))
	for i, t := range ask.Force {
		tools[i] = grammar.Tool{Name: t.Name, Arguments: t.Parameters}
	}
	g, err := grammar.NewCall(tools, grammar.Call{Name: "name", Arguments: "arguments"}, grammar.Options{})
	if err != nil {
		return Invalid("tools", "%v", err)
	}
	p.Grammar, ask.Foreign = g, true
	return nil
}

// result reads the answer of a model.
func (c *Call) result(ask *Ask, a *runner.Answer) (*Result, error) {
	r := &Result{Answer: a, Finish: Stopped}
	switch a.Stop {
	case runtimes.StopLength, runtimes.StopContext, runner.StopBudget:
		r.Finish = Length
	}
	if ask.Force != nil {
		text := a.Text
		a.Text = ""
		if r.Finish == Length {
			return r, nil
		}
		call, err := talk.ParseCall(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("reading the call: %w", err)
		}
		a.Calls = []talk.Call{call}
	}
	for _, call := range a.Calls {
		if call.Fault != "" { // a malformed call is text
			a.Text += call.Block
			continue
		}
		call.ID = c.server.ID("call_")
		r.Calls = append(r.Calls, call)
	}
	if ask.Single && len(r.Calls) > 1 {
		r.Calls = r.Calls[:1]
	}
	if len(r.Calls) > 0 && r.Finish == Stopped {
		r.Finish = Called
	}
	return r, nil
}

// enter waits for a place. Leave frees it. The context ends with the client, and with the
// server at the end of its drain.
func (s *Server) enter(c *Call) (ctx context.Context, leave func(), err error) {
	if err := s.wait(c); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(c.R.Context())
	s.mu.Lock()
	if s.drained {
		s.mu.Unlock()
		cancel(nil)
		<-s.slots
		return nil, nil, errShutdown
	}
	s.running[c] = cancel
	s.active.Add(1)
	s.mu.Unlock()
	return ctx, func() {
		s.mu.Lock()
		delete(s.running, c)
		s.mu.Unlock()
		cancel(nil)
		<-s.slots
		s.active.Done()
	}, nil
}

// wait takes a place among the concurrent answers, in the order of arrival.
func (s *Server) wait(c *Call) error {
	select {
	case <-s.draining:
		return errShutdown
	default:
	}
	select {
	case s.slots <- struct{}{}:
		s.metrics.queued(0)
		return nil
	default:
	}
	if n := s.waiting.Add(1); n > int64(s.opt.Queue) {
		s.waiting.Add(-1)
		return &Error{Status: http.StatusTooManyRequests, Kind: RateLimit, Code: "queue_full", Message: fmt.Sprintf("%d requests wait already", s.opt.Queue), Retry: time.Second}
	}
	defer s.waiting.Add(-1)
	at := time.Now()
	select {
	case s.slots <- struct{}{}:
		s.metrics.queued(c.span.queued(time.Since(at)))
		return nil
	case <-s.draining:
		return errShutdown
	case <-c.R.Context().Done():
		s.metrics.cancelled()
		return errGone
	}
}
