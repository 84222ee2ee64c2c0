package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/serve/api"
	"mm-abi.org/mm/serve/openai"
)

// mute is a model without a core.
type mute struct{}

func (mute) Answer(context.Context, runner.Request, func(string) error) (*runner.Answer, error) {
	return nil, errors.New("mute")
}
func (mute) Load(context.Context) error { return nil }
func (mute) Build() *builds.Build       { return &builds.Build{Assembly: &builds.Assembly{Name: "m"}} }

// world is a server whose assemblies wait for the test.
type world struct {
	*api.Server
	t       *testing.T
	jobs    *Jobs
	begun   chan string
	release chan error
	ended   []string
}

// keys are those of two clients.
const keys = "ann 0123456789abcdef\nbob fedcba9876543210\n"

func newWorld(t *testing.T, change func(*Options)) *world {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.graph.yaml": "x", "b/c.graph.yaml": "x", "bad.yaml": "task: x\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "away")); err != nil {
		t.Log(err) // a platform without links
	}
	list, err := api.ParseKeys("keys", keys)
	if err != nil {
		t.Fatal(err)
	}
	s, err := api.New(api.Options{Models: []api.Model{{Names: []string{"m"}, Answerer: mute{}}}, Keys: list, Body: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	openai.Mount(s)
	w := &world{Server: s, t: t, begun: make(chan string, 100), release: make(chan error, 100)}
	opt := Options{Dir: dir, Ended: func(kind, ref, digest string, err error) {
		w.ended = append(w.ended, fmt.Sprint(kind, " ", ref, " ", digest, " ", err == nil))
	}}
	opt.Assemble = func(ctx context.Context, q assemble.Options, locked bool) (*assemble.Result, error) {
		q.Progress("validate", "")
		w.begun <- q.Graph
		select {
		case err := <-w.release:
			if err != nil {
				return nil, err
			}
			return &assemble.Result{Name: "a", Ref: "a:1", Digest: "sha256:1", Targets: []assemble.TargetResult{}}, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("exporting: %w", ctx.Err())
		}
	}
	if change != nil {
		change(&opt)
	}
	j, err := Mount(s, opt)
	if err != nil {
		t.Fatal(err)
	}
	w.jobs = j
	t.Cleanup(func() {
		s.Drain(0)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// send sends a request of ann, or of bob, and checks the answer against the document.
func (w *world) send(who, method, path, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+map[string]string{"ann": "0123456789abcdef", "bob": "fedcba9876543210"}[who])
	got := httptest.NewRecorder()
	w.ServeHTTP(got, r)
	if schema := map[int]string{200: "Job", 202: "Job"}[got.Code]; schema != "" && path != "/jobs" && !strings.HasSuffix(path, "/events") {
		conforms(w.t, schema, got.Body.Bytes())
	} else if got.Code >= 400 {
		conforms(w.t, "Error", got.Body.Bytes())
	}
	return got
}

func conforms(t *testing.T, schema string, data []byte) {
	t.Helper()
	doc, err := schemas.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	if err := c.MustCompile("openapi.json#/components/schemas/" + schema).Validate(v); err != nil {
		t.Errorf("%#v\n%s", err, data)
	}
}

// start starts an assembly and returns its id.
func (w *world) start(who, graph string) string {
	w.t.Helper()
	got := w.send(who, "POST", "/assemble", fmt.Sprintf(`{"graph":%q}`, graph))
	var v view
	if err := json.Unmarshal(got.Body.Bytes(), &v); err != nil || got.Code != http.StatusAccepted || got.Header().Get("Location") != "/jobs/"+v.ID {
		w.t.Fatalf("%d %v %s", got.Code, got.Header(), got.Body)
	}
	return v.ID
}

// events returns the text of a job's events, which it waits for.
func (w *world) events(id, after string) (int, string) {
	w.t.Helper()
	r := httptest.NewRequest("GET", "http://127.0.0.1/jobs/"+id+"/events", nil)
	r.Header.Set("X-Api-Key", "0123456789abcdef")
	r.Header.Set("Last-Event-ID", after)
	got := httptest.NewRecorder()
	w.ServeHTTP(got, r)
	return got.Code, got.Body.String()
}

func (w *world) state(id string) (v view) {
	w.t.Helper()
	if err := json.Unmarshal(w.send("ann", "GET", "/jobs/"+id, "").Body.Bytes(), &v); err != nil {
		w.t.Fatal(err)
	}
	return v
}

func TestJob(t *testing.T) {
	w := newWorld(t, nil)
	id := w.start("ann", "b/c.graph.yaml")
	if graph := <-w.begun; !filepath.IsAbs(graph) || !strings.HasSuffix(filepath.ToSlash(graph), "b/c.graph.yaml") {
		t.Errorf("got graph %s", graph)
	}
	if v := w.state(id); v.State != running || v.Started == nil || v.Ended != nil {
		t.Errorf("got %+v", v)
	}
	w.release <- nil
	code, text := w.events(id, "1")
	if code != 200 || !strings.HasPrefix(text, "event: state\nid: 2\ndata: {\"state\":\"running\"}\n\nevent: step\nid: 3\n") || !strings.Contains(text, "event: done\nid: 4\n") || !strings.Contains(text, `"digest":"sha256:1"`) {
		t.Errorf("%d %s", code, text)
	}
	if code, text := w.events(id, "4"); code != http.StatusNoContent || text != "" {
		t.Errorf("after the last event: %d %s", code, text)
	}
	if code, _ := w.events(id, "x"); code != http.StatusBadRequest {
		t.Errorf("malformed Last-Event-ID: %d", code)
	}
	if v := w.state(id); v.State != succeeded || v.Fault != nil {
		t.Errorf("got %+v", v)
	}
	if len(w.ended) != 1 || w.ended[0] != "assemble b/c.graph.yaml sha256:1 true" {
		t.Errorf("recorded %v", w.ended)
	}
}

// A job is that of its key: another one neither sees nor ends it.
func TestOwner(t *testing.T) {
	w := newWorld(t, nil)
	id := w.start("ann", "a.graph.yaml")
	for _, one := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"GET", "/events"}} {
		if got := w.send("bob", one[0], "/jobs/"+id+one[1], ""); got.Code != http.StatusNotFound {
			t.Errorf("%v: got %d", one, got.Code)
		}
	}
	if got := w.send("bob", "GET", "/jobs", ""); strings.Contains(got.Body.String(), id) {
		t.Errorf("bob sees %s", got.Body)
	}
	if got := w.send("ann", "GET", "/jobs", ""); !strings.Contains(got.Body.String(), id) {
		t.Errorf("ann sees %s", got.Body)
	}
	if got := w.send("eve", "GET", "/jobs", ""); got.Code != http.StatusUnauthorized {
		t.Errorf("without a key: %d", got.Code)
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t, nil)
	for body, want := range map[string]int{
		`{"graph":"../a.graph.yaml"}`:                    403,
		`{"graph":"/etc/passwd"}`:                        403,
		`{"graph":"away/x"}`:                             403,
		`{"graph":"none.yaml"}`:                          404,
		`{"graph":""}`:                                   400,
		`{"graph":"a\u0000"}`:                            400,
		`{"graph":"a.graph.yaml","timeout_s":0}`:         400,
		`{"graph":"a.graph.yaml","grph":1}`:              400,
		`{}`:                                             400,
		`{"graph":"` + strings.Repeat("x", 1<<16) + `"}`: 413,
		`{"graph":"a.graph.yaml","exports":[""` + comma(maxExports) + `]}`: 400,
	} {
		if got := w.send("ann", "POST", "/assemble", body); got.Code != want {
			t.Errorf("%.60s: got %d, want %d: %s", body, got.Code, want, got.Body)
		}
	}
	if got := w.send("ann", "POST", "/assemble", `{"graph":"a.graph.yaml","exports":["x"`+comma(maxExports-1)+`]}`); got.Code != 202 {
		t.Errorf("maxExports: %d", got.Code)
	}
	for body, want := range map[string]int{
		`{"tasks":[]}`:                            400,
		`{"tasks":["bad.yaml"],"limit":-1}`:       400,
		`{"tasks":["bad.yaml"],"num_fewshot":-1}`: 400,
		`{"tasks":["bad.yaml"],"build":"other"}`:  404,
		`{"tasks":["../x"]}`:                      403,
		`{"tasks":["bad.yaml"` + strings.Repeat(`,"bad.yaml"`, maxTasks) + `]}`:   400,
		`{"tasks":["bad.yaml"` + strings.Repeat(`,"bad.yaml"`, maxTasks-1) + `]}`: 202,
	} {
		if got := w.send("ann", "POST", "/evaluate", body); got.Code != want {
			t.Errorf("%.60s: got %d, want %d: %s", body, got.Code, want, got.Body)
		}
	}
	off := newWorld(t, func(o *Options) { o.Dir = "" })
	if got := off.send("ann", "POST", "/assemble", `{"graph":"a.graph.yaml"}`); got.Code != 404 || !strings.Contains(got.Body.String(), "jobs_off") {
		t.Errorf("without --jobs: %d %s", got.Code, got.Body)
	}
}

func comma(n int) string { return strings.Repeat(`,""`, n) }

// The queue is bounded, a key has half of it, and the oldest finished jobs are dropped.
func TestQueue(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Queue, o.Kept = 4, 2 })
	first := w.start("ann", "a.graph.yaml")
	<-w.begun
	second, third := w.start("ann", "a.graph.yaml"), w.start("ann", "a.graph.yaml")
	got := w.send("ann", "POST", "/assemble", `{"graph":"a.graph.yaml"}`)
	if got.Code != 429 || got.Header().Get("Retry-After") != "5" {
		t.Fatalf("a key beyond half of the queue: %d %v", got.Code, got.Header())
	}
	w.start("bob", "a.graph.yaml")
	w.start("bob", "a.graph.yaml")
	if got := w.send("bob", "POST", "/assemble", `{"graph":"a.graph.yaml"}`); got.Code != 429 {
		t.Fatalf("beyond the queue: %d", got.Code)
	}
	if got := w.send("ann", "DELETE", "/jobs/"+second, ""); !strings.Contains(got.Body.String(), `"state":"cancelled"`) {
		t.Errorf("a waiting job: %s", got.Body)
	}
	w.release <- nil
	w.release <- nil
	w.events(third, "")
	if got := w.send("ann", "GET", "/jobs/"+first, ""); got.Code != 200 && got.Code != 404 {
		t.Errorf("first: %d", got.Code)
	}
	kept := 0
	for _, id := range []string{first, second, third} {
		if w.send("ann", "GET", "/jobs/"+id, "").Code == 200 {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("kept %d finished jobs, want 2", kept)
	}
	if got := w.send("ann", "DELETE", "/jobs/"+third, ""); got.Code != 200 {
		t.Errorf("dropping: %d", got.Code)
	}
	if got := w.send("ann", "GET", "/jobs/"+third, ""); got.Code != 404 {
		t.Errorf("dropped: %d", got.Code)
	}
}

func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		end   func(w *world, id string)
		state state
		code  string
		want  string
	}{
		"cancelled": {"", func(w *world, id string) { w.send("ann", "DELETE", "/jobs/"+id, "") }, cancelled, "cancelled", "cancelled the job"},
		"timeout":   {`,"timeout_s":0.01`, func(*world, string) {}, failed, "timeout", "time limit"},
		"failed":    {"", func(w *world, _ string) { w.release <- errors.New("no space") }, failed, "failed", "no space"},
		"shutdown":  {"", func(w *world, _ string) { w.Drain(time.Millisecond) }, cancelled, "shutting_down", "shuts down"},
		"faults": {"", func(w *world, _ string) {
			var list diag.List
			list.Add(diag.KeyNone, diag.Pos{File: "/x"}, "", "")
			w.release <- list.Err()
		}, failed, "invalid_input", "1 faults"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			got := w.send("ann", "POST", "/assemble", `{"graph":"a.graph.yaml"`+c.body+`}`)
			var v view
			if err := json.Unmarshal(got.Body.Bytes(), &v); err != nil || got.Code != 202 {
				t.Fatalf("%d %s", got.Code, got.Body)
			}
			<-w.begun
			c.end(w, v.ID)
			w.events(v.ID, "")
			if v = w.state(v.ID); v.State != c.state || v.Fault == nil || v.Fault.Code != c.code || !strings.Contains(v.Fault.Message, c.want) {
				t.Errorf("got %+v %+v, want %s %s", v, v.Fault, c.state, c.code)
			}
		})
	}
}

// A draining server takes no job, and ends those that wait.
func TestDrain(t *testing.T) {
	w := newWorld(t, nil)
	w.start("ann", "a.graph.yaml")
	waits := w.start("ann", "a.graph.yaml")
	<-w.begun
	w.Drain(time.Millisecond)
	if v := w.state(waits); v.State != cancelled || v.Fault.Code != "shutting_down" {
		t.Errorf("got %+v", v)
	}
	if got := w.send("ann", "POST", "/assemble", `{"graph":"a.graph.yaml"}`); got.Code != 503 {
		t.Errorf("got %d, want 503", got.Code)
	}
}

// A panic of the work ends the job, not the server.
func TestPanic(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Assemble = func(context.Context, assemble.Options, bool) (*assemble.Result, error) { panic("boom") }
	})
	id := w.start("ann", "a.graph.yaml")
	w.events(id, "")
	if v := w.state(id); v.State != failed || !strings.Contains(v.Fault.Message, "boom") {
		t.Errorf("got %+v", v)
	}
}

// A model without a core fails by name.
func TestEvaluateWithoutCore(t *testing.T) {
	w := newWorld(t, nil)
	got := w.send("ann", "POST", "/evaluate", `{"tasks":["bad.yaml"]}`)
	var v view
	if err := json.Unmarshal(got.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	w.events(v.ID, "")
	if v = w.state(v.ID); v.State != failed || v.Fault.Code != "invalid_input" || len(v.Fault.Diagnostics) == 0 || v.Fault.Diagnostics[0].Pos.File != "bad.yaml" {
		t.Errorf("got %+v", v.Fault)
	}
	if _, _, err := measure(t.Context(), mustBegin(t, w.Server), w.Models()[0], nil, 0, nil); err == nil || !strings.Contains(err.Error(), "no core") {
		t.Errorf("got %v", err)
	}
}

func mustBegin(t *testing.T, s *api.Server) *api.Task {
	t.Helper()
	task, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(task.End)
	return task
}

// Of more than maxEvents events the first are lost; the numbers of the others remain. Messages
// beyond maxMessage are cut, faults beyond maxFaults omitted, watchers beyond maxWatchers and, of a key, keyWatchers refused.
func TestLimits(t *testing.T) {
	one := &job{changed: make(chan struct{})}
	for range maxEvents {
		one.add("step", nil)
	}
	if list, first := one.since(0); len(list) != maxEvents || first != 1 {
		t.Errorf("got %d from %d", len(list), first)
	}
	one.add("step", nil)
	if list, first := one.since(0); len(list) != maxEvents || first != 2 {
		t.Errorf("got %d from %d", len(list), first)
	}
	if list, first := one.since(maxEvents); len(list) != 1 || first != maxEvents+1 {
		t.Errorf("got %d from %d", len(list), first)
	}
	j := &Jobs{dir: "/d"}
	for n, want := range map[int]int{maxMessage: maxMessage, maxMessage + 1: maxMessage + len("…")} {
		if got := len(j.explain(errors.New(strings.Repeat("x", n))).Message); got != want {
			t.Errorf("%d bytes: got %d, want %d", n, got, want)
		}
	}
	if got := j.explain(errors.New("/d/x: bad")).Message; got != "x: bad" {
		t.Errorf("got %q", got)
	}
	for n, want := range map[int]int{maxFaults: maxFaults, maxFaults + 1: maxFaults} {
		if got := len(j.faults(make(diag.List, n))); got != want {
			t.Errorf("%d faults: got %d, want %d", n, got, want)
		}
	}
	w := newWorld(t, nil)
	id := w.start("ann", "a.graph.yaml")
	<-w.begun
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan int, keyWatchers)
	watch := func() {
		r := httptest.NewRequest("GET", "http://127.0.0.1/jobs/"+id+"/events", nil).WithContext(ctx)
		r.Header.Set("X-Api-Key", "0123456789abcdef")
		got := httptest.NewRecorder()
		w.ServeHTTP(got, r)
		done <- got.Code
	}
	for range keyWatchers {
		go watch()
	}
	for full := false; !full; time.Sleep(time.Millisecond) {
		w.jobs.mu.Lock()
		full = w.jobs.watchers["ann"] == keyWatchers
		w.jobs.mu.Unlock()
	}
	if code, _ := w.events(id, ""); code != 429 {
		t.Errorf("a watcher beyond keyWatchers: got %d", code)
	}
	for key, want := range map[string]bool{"ann": false, "bob": true, "": true} {
		w.jobs.mu.Lock()
		got := w.jobs.watchable(key)
		w.jobs.mu.Unlock()
		if got != want {
			t.Errorf("a watcher of %q and those of ann: got %v", key, got)
		}
	}
	for n, want := range map[int]bool{maxWatchers - 1: true, maxWatchers: false} {
		all := &Jobs{watchers: map[string]int{"": n}}
		if all.watchable("") != want || all.watchable("ann") != want {
			t.Errorf("a watcher and %d more: want %v", n, want)
		}
	}
	leave()
	for range keyWatchers {
		if code := <-done; code != 200 {
			t.Errorf("watcher: got %d", code)
		}
	}
}
