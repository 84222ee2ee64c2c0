package api_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/serve/api"
)

// metric returns the line of a metric.
func metric(t *testing.T, s *api.Server, name string) string {
	t.Helper()
	for line := range strings.SplitSeq(do(t, s, request("GET", "/metrics", "")).Body.String(), "\n") {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return rest
		}
	}
	return ""
}

// until waits for a metric.
func until(t *testing.T, s *api.Server, name, want string) {
	t.Helper()
	for range 1000 {
		if metric(t, s, name) == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s: got %s, want %s", name, metric(t, s, name), want)
}

// Requests beyond the places and the queue are refused at once; the others are answered.
func TestQueue(t *testing.T) {
	s, m := world(t, func(o *api.Options) { o.Parallel, o.Queue = 2, 3 })
	h := serve(t, s)
	var wait sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	ask := func() {
		status, _, header, err := post(t.Context(), h.URL+"/v1/chat/completions", chatBody("block", ""))
		if err != nil {
			t.Error(err)
		}
		if status == 429 && header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After: got %q", header.Get("Retry-After"))
		}
		mu.Lock()
		got[status]++
		mu.Unlock()
	}
	for range 5 {
		wait.Go(ask)
	}
	<-m.blocked
	<-m.blocked
	until(t, s, "mm_requests_waiting", "3")
	for range 4 {
		ask()
	}
	if got[429] != 4 {
		t.Errorf("got %v, want 4 of 429", got)
	}
	close(m.release)
	wait.Wait()
	if got[200] != 5 {
		t.Errorf("got %v, want 5 of 200", got)
	}
	until(t, s, "mm_requests_running", "0")
}

// A client that disconnects ends its work, while it runs and while it waits.
func TestDisconnect(t *testing.T) {
	s, m := world(t, func(o *api.Options) { o.Parallel = 1 })
	h := serve(t, s)
	for _, more := range []string{"", `,"stream":true`} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _, _, _ = post(ctx, h.URL+"/v1/chat/completions", chatBody("block", more))
		}()
		<-m.blocked
		second, leave := context.WithCancel(t.Context())
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			_, _, _, _ = post(second, h.URL+"/v1/chat/completions", chatBody("block", ""))
		}()
		until(t, s, "mm_requests_waiting", "1")
		leave()
		<-waited
		until(t, s, "mm_requests_waiting", "0")
		stop()
		<-ended
		until(t, s, "mm_requests_running", "0")
	}
	if n := m.ended.Load(); n != 2 {
		t.Errorf("%d answers ended with their client, want 2", n)
	}
	if got := metric(t, s, "mm_cancelled_total"); got != "4" {
		t.Errorf("mm_cancelled_total: got %s, want 4", got)
	}
}

// At the end, waiting requests are refused, running ones may finish, and what remains ends
// with an error.
func TestDrain(t *testing.T) {
	for _, finishes := range []bool{true, false} {
		s, m := world(t, func(o *api.Options) { o.Parallel = 2 })
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + l.Addr().String()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		drain := 50 * time.Millisecond
		if finishes {
			drain = time.Minute
		}
		go func() { served <- s.Serve(ctx, l, drain) }()
		type result struct {
			status int
			text   string
		}
		running, waiting := make(chan result, 2), make(chan result, 2)
		ask := func(to chan result) {
			status, text, _, err := post(t.Context(), url+"/v1/chat/completions", chatBody("block", `,"stream":true`))
			if err != nil {
				t.Error(err)
			}
			to <- result{status, text}
		}
		for range 2 {
			go ask(running)
		}
		<-m.blocked
		<-m.blocked
		for range 2 {
			go ask(waiting)
		}
		until(t, s, "mm_requests_waiting", "2")
		stop()
		for range 2 {
			if r := <-waiting; r.status != 503 || !strings.Contains(r.text, "shutting_down") {
				t.Errorf("waiting: got %v", r)
			}
		}
		if finishes {
			if w := do(t, s, request("POST", "/v1/chat/completions", chatBody("hi", ""))); w.Code != http.StatusServiceUnavailable {
				t.Errorf("new: got %d", w.Code)
			}
			close(m.release)
		}
		for range 2 {
			r := <-running
			if done := strings.HasSuffix(r.text, "data: [DONE]\n\n"); r.status != 200 || done != finishes || strings.Contains(r.text, "shutting_down") == finishes {
				t.Errorf("finishes %v: got %v", finishes, r)
			}
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// The limits of the server bound those of requests.
func TestLimits(t *testing.T) {
	s, m := world(t, func(o *api.Options) { o.Tokens, o.Time = 100, 2*time.Second })
	for more, want := range map[string]int{"": 100, `,"max_tokens":100`: 100, `,"max_tokens":101`: 100, `,"max_tokens":99`: 99, `,"max_completion_tokens":7`: 7} {
		do(t, s, request("POST", "/v1/chat/completions", chatBody("hi", more)))
		if p := lastRequest(m).Preferences; p.MaxTokens != want || p.BudgetMS != 2000 {
			t.Errorf("%s: got %d tokens, %d ms, want %d", more, p.MaxTokens, p.BudgetMS, want)
		}
	}
}
