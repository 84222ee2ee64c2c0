package api

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// pingTime is the time without events after which a stream sends a comment.
const pingTime = 15 * time.Second

// Format is how events are separated.
type Format int

// The formats.
const (
	SSE   Format = iota // server-sent events
	Lines               // a JSON value a line
)

// Stream is an answer in events. It begins with the first event, so that an error before is
// an ordinary response. It is safe for concurrent use.
type Stream struct {
	call   *Call
	format Format
	ping   string // sent while nothing else is; "": nothing

	mu      sync.Mutex
	control *http.ResponseController
	last    time.Time
	ended   chan struct{}
	pinging sync.WaitGroup
}

// Stream starts a stream. The caller must end it. Ping is sent while the model is silent.
func (c *Call) Stream(f Format, ping string) *Stream {
	s := &Stream{call: c, format: f, ping: ping, control: http.NewResponseController(c.W), last: time.Now(), ended: make(chan struct{})}
	endless(c.W)
	if ping != "" {
		s.pinging.Go(s.keep)
	}
	return s
}

// keep sends pings.
func (s *Stream) keep() {
	t := time.NewTicker(pingTime)
	defer t.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-s.call.R.Context().Done():
			return
		case <-t.C:
		}
		s.mu.Lock()
		if time.Since(s.last) >= pingTime {
			_ = s.write([]byte(s.ping)) // the context ends with the connection
		}
		s.mu.Unlock()
	}
}

// End ends the pings.
func (s *Stream) End() {
	close(s.ended)
	s.pinging.Wait()
}

// Started reports whether an event was sent.
func (s *Stream) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call.status != 0
}

// Send sends an event; name may be empty.
func (s *Stream) Send(name string, v any) error {
	data, err := Encode(v)
	if err != nil {
		return err
	}
	return s.Raw(name, string(data))
}

// Numbered sends an event with a number, after which a client may ask to resume.
func (s *Stream) Numbered(n int, name string, v any) error {
	data, err := Encode(v)
	if err != nil {
		return err
	}
	return s.send("id: "+strconv.Itoa(n)+"\n", name, string(data))
}

// Raw sends an event of ready data, which has no line breaks.
func (s *Stream) Raw(name, data string) error { return s.send("", name, data) }

func (s *Stream) send(id, name, data string) error {
	text := data + "\n"
	if s.format == SSE {
		text = id + "data: " + data + "\n\n"
		if name != "" {
			text = "event: " + name + "\n" + text
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write([]byte(text))
}

// write writes and flushes. A client that takes nothing for long ends the stream.
func (s *Stream) write(data []byte) error {
	if s.call.status == 0 {
		s.call.status = http.StatusOK
		h := s.call.W.Header()
		h.Set("Content-Type", "text/event-stream")
		if s.format == Lines {
			h.Set("Content-Type", "application/x-ndjson")
		}
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		s.call.W.WriteHeader(http.StatusOK)
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime)) // not supported by recorders
	s.last = time.Now()
	if _, err := s.call.W.Write(data); err != nil {
		return errGone
	}
	if err := s.control.Flush(); err != nil {
		return errGone
	}
	return nil
}

// Fail sends an error as an event in the shape of the path, if the stream has begun, and
// returns it otherwise.
func (s *Stream) Fail(name string, err error) error {
	e := s.call.problem(err)
	if !s.Started() {
		return e
	}
	s.call.server.metrics.failed()
	return s.Send(name, s.call.server.shape(s.call.R.URL.Path)(e))
}
