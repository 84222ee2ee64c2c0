package api

import (
	"encoding/hex"
	"net/http"
	"sync"
	"time"
)

// Span describes an answered request for traces.
type Span struct {
	Method, Route string
	Status        int
	Model         string // listed name; "" if the request did not reach one
	RequestID     string
	Parent        Parent

	Begin, End time.Time
	Queued     time.Duration // waiting for a place
	First      time.Duration // from Begin to the first text; 0: none

	Prompt, Cached, Generated int // tokens
}

// traced collects a span. Several choices of a request share one.
type traced struct {
	mu sync.Mutex
	Span
}

func (t *traced) reach(m *Model) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Model = m.Name()
}

// queued records the longest wait of the choices and returns d.
func (t *traced) queued(d time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Queued = max(t.Queued, d)
	return d
}

// first records the earliest text of the choices and returns d.
func (t *traced) first(d time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.First == 0 || d < t.First {
		t.First = d
	}
	return d
}

// count adds the tokens of an answer.
func (t *traced) count(prompt, cached, generated int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Prompt, t.Cached, t.Generated = t.Prompt+prompt, t.Cached+cached, t.Generated+generated
}

// Parent is the trace context of a client, W3C's traceparent. The zero value is none.
type Parent struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool
}

// Known reports whether a client sent a trace context.
func (p Parent) Known() bool { return p.Trace != [16]byte{} }

// parentOf parses the traceparent of a request; one that is malformed counts as none.
func parentOf(h http.Header) (p Parent) {
	text := h.Get("Traceparent")
	if len(text) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-' || text[:2] == "ff" || len(text) > 55 && (text[:2] == "00" || text[55] != '-') {
		return Parent{}
	}
	var version, flags [1]byte
	for _, f := range []struct {
		to   []byte
		text string
	}{{version[:], text[:2]}, {p.Trace[:], text[3:35]}, {p.Span[:], text[36:52]}, {flags[:], text[53:55]}} {
		for _, c := range f.text {
			if c >= 'A' && c <= 'F' {
				return Parent{}
			}
		}
		if _, err := hex.Decode(f.to, []byte(f.text)); err != nil {
			return Parent{}
		}
	}
	if p.Span == [8]byte{} {
		return Parent{}
	}
	p.Sampled = flags[0]&1 == 1
	return p
}

// trace reports an answered request.
func (s *Server) trace(c *Call, pattern string) {
	if s.opt.Trace == nil {
		return
	}
	c.span.mu.Lock()
	span := c.span.Span
	c.span.mu.Unlock()
	span.Method, span.Route, span.Status, span.RequestID = c.R.Method, pattern, c.status, c.ID
	span.Parent, span.Begin, span.End = parentOf(c.R.Header), c.begun, time.Now()
	s.opt.Trace(span)
}
