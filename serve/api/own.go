package api

import (
	"fmt"
	"net/http"
	"strconv"

	"mm-abi.org/mm/schemas"
)

// own adds the routes of no wire format.
func (s *Server) own() {
	s.Handle(
		Route{Method: "GET", Pattern: "/health", Serve: health, Open: true},
		Route{Method: "GET", Pattern: "/ready", Serve: s.isReady, Open: true},
		Route{Method: "GET", Pattern: "/metrics", Serve: s.showMetrics},
		Route{Method: "GET", Pattern: "/openapi.json", Serve: describe, Open: true},
	)
}

func health(c *Call) error { return c.Reply(map[string]string{"status": "ok"}) }

// isReady answers 200 if all models are loaded and the server does not drain.
func (s *Server) isReady(c *Call) error {
	select {
	case <-s.draining:
		return errShutdown
	default:
	}
	if !s.ready.Load() {
		return &Error{Status: http.StatusServiceUnavailable, Kind: Internal, Code: "loading", Message: "the models are loading", Retry: errShutdown.Retry}
	}
	return c.Reply(map[string]string{"status": "ready"})
}

func (s *Server) showMetrics(c *Call) error {
	s.mu.Lock()
	running := len(s.running)
	s.mu.Unlock()
	c.status = http.StatusOK
	patient(c.W)
	c.W.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, g := range []struct {
		name, help string
		value      int64
	}{
		{"mm_requests_running", "Answers in progress.", int64(running)},
		{"mm_requests_waiting", "Requests that wait for a place.", s.waiting.Load()},
		{"mm_requests_parallel", "Most answers in progress.", int64(s.opt.Parallel)},
	} {
		fmt.Fprintf(c.W, "# HELP %s %s\n# TYPE %s gauge\n%s %d\n", g.name, g.help, g.name, g.name, g.value)
	}
	for _, m := range s.opt.Metrics {
		fmt.Fprintf(c.W, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.Name, m.Help, m.Name, m.Type, m.Name, m.Value())
	}
	fmt.Fprintf(c.W, "# HELP mm_info The version of mm.\n# TYPE mm_info gauge\nmm_info{version=%s} 1\n", strconv.Quote(s.opt.Version))
	s.metrics.write(c.W)
	return nil
}

// describe returns the OpenAPI document.
func describe(c *Call) error {
	doc, err := schemas.OpenAPI()
	if err != nil {
		return err
	}
	return c.Reply(doc)
}
