package models_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/api"
	"mm-abi.org/mm/serve/models"
)

// world counts the instances of a pool.
type world struct {
	t      *testing.T
	mu     sync.Mutex
	lines  []string
	open   atomic.Int64
	most   atomic.Int64
	opened atomic.Int64
	fail   atomic.Bool
	slow   chan struct{} // if not nil, loads wait for it
}

// fake answers with its name, after release if the request has a text.
type fake struct {
	w       *world
	build   *builds.Build
	closed  atomic.Bool
	users   atomic.Int64
	release chan struct{}
}

func (f *fake) Build() *builds.Build { return f.build }
func (f *fake) Load(ctx context.Context) error {
	if f.w.slow != nil {
		select {
		case <-f.w.slow:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.w.fail.Load() {
		return errors.New("no memory")
	}
	return nil
}

func (f *fake) Close() error {
	if f.closed.Swap(true) || f.users.Load() != 0 {
		f.w.t.Errorf("%s: closed twice, or with %d users", f.build.Assembly.Name, f.users.Load())
	}
	f.w.open.Add(-1)
	return nil
}

func (f *fake) Answer(ctx context.Context, req runner.Request, emit func(string) error) (*runner.Answer, error) {
	f.users.Add(1)
	defer f.users.Add(-1)
	if f.closed.Load() {
		f.w.t.Errorf("%s: an answer after the end", f.build.Assembly.Name)
	}
	if emit != nil {
		if err := emit("begun"); err != nil {
			return nil, err
		}
		<-f.release
	}
	if f.closed.Load() {
		f.w.t.Errorf("%s: closed during an answer", f.build.Assembly.Name)
	}
	return &runner.Answer{Text: f.build.Assembly.Name + ":" + f.build.Assembly.Version}, nil
}

// source returns a source; release ends the answers that have a listener.
func (w *world) source(name, version string, bytes int64, release chan struct{}) models.Source {
	b := &builds.Build{Assembly: &builds.Assembly{Name: name, Version: version}, Digest: name + version}
	return models.Source{Build: b, Bytes: bytes, Open: func(context.Context) (models.Instance, error) {
		w.opened.Add(1)
		n := w.open.Add(1)
		for m := w.most.Load(); n > m && !w.most.CompareAndSwap(m, n); m = w.most.Load() {
		}
		return &fake{w: w, build: b, release: release}, nil
	}}
}

func (w *world) log(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line)
}

// logged reports whether a line of the log has a text.
func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(strings.Join(w.lines, "\n"), text)
}

func add(t *testing.T, p *models.Pool, src models.Source) *models.Model {
	t.Helper()
	m, err := p.Add(src)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func answer(t *testing.T, m *models.Model, want string) {
	t.Helper()
	a, err := m.Answer(t.Context(), runner.Request{}, nil)
	if err != nil || a.Text != want {
		t.Errorf("got %v, %v, want %s", a, err, want)
	}
}

// begin starts an answer that lasts until its release, and returns its end.
func begin(t *testing.T, m *models.Model) <-chan string {
	t.Helper()
	begun, ended := make(chan struct{}), make(chan string, 1)
	go func() {
		a, err := m.Answer(t.Context(), runner.Request{}, func(string) error { close(begun); return nil })
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- a.Text
	}()
	<-begun
	return ended
}

func closed(t *testing.T, w *world, p *models.Pool) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if n := w.open.Load(); n != 0 {
		t.Errorf("%d instances are open at the end", n)
	}
}

// Requests for a model that is loading share the load.
func TestSharedLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, slow: make(chan struct{})}
		p := models.New(t.Context(), models.Options{})
		m := add(t, p, w.source("a", "1", 1, nil))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { answer(t, m, "a:1") })
		}
		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := m.Answer(ctx, runner.Request{}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		close(w.slow)
		all.Wait()
		if n := w.opened.Load(); n != 1 || p.Loads() != 1 || p.Loaded() != 1 {
			t.Errorf("opened %d times, %d loads, %d loaded", n, p.Loads(), p.Loaded())
		}
		closed(t, w, p)
		if _, err := m.Answer(t.Context(), runner.Request{}, nil); err == nil {
			t.Error("an answer after the end")
		}
	})
}

// A load makes room: an idle model is closed at once, one in use after its answers, which
// finish, while further requests for it wait.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := models.New(t.Context(), models.Options{Loaded: 2, Log: w.log})
		release := make(chan struct{})
		a, b, c := add(t, p, w.source("a", "1", 1, release)), add(t, p, w.source("b", "1", 1, release)), add(t, p, w.source("c", "1", 1, release))
		for _, m := range []*models.Model{a, b, c} { // the third has no room yet
			if err := m.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.opened.Load(); n != 2 {
			t.Errorf("%d opened, want 2", n)
		}
		long := begin(t, a)
		answer(t, c, "c:1") // instead of b, which is idle
		if w.logged("closed b:1") != 1 || w.logged("closed a:1") != 0 {
			t.Errorf("got %q", w.lines)
		}
		other := begin(t, c)
		waits := make(chan string, 1)
		go func() {
			one, err := b.Answer(t.Context(), runner.Request{}, nil)
			if err != nil {
				t.Error(err)
			}
			waits <- one.Text
		}()
		synctest.Wait()
		select {
		case <-waits:
			t.Error("a third model was loaded")
		default:
		}
		close(release)
		for _, end := range []<-chan string{long, other, waits} {
			if got := <-end; !strings.HasSuffix(got, ":1") {
				t.Error(got)
			}
		}
		answer(t, a, "a:1")
		if most := w.most.Load(); most != 2 {
			t.Errorf("%d models at a time, want 2", most)
		}
		closed(t, w, p)
	})
}

// The bytes of the models are limited, too.
func TestMemory(t *testing.T) {
	w := &world{t: t}
	p := models.New(t.Context(), models.Options{Memory: 100, Log: w.log})
	if _, err := p.Add(w.source("big", "1", 101, nil)); err == nil || !strings.Contains(err.Error(), "big:1 has 101 B") {
		t.Errorf("got %v", err)
	}
	a, b, c := add(t, p, w.source("a", "1", 40, nil)), add(t, p, w.source("b", "1", 60, nil)), add(t, p, w.source("c", "1", 100, nil))
	answer(t, a, "a:1")
	answer(t, b, "b:1")
	if w.logged("closed") != 0 {
		t.Errorf("got %q", w.lines)
	}
	answer(t, c, "c:1")
	if w.logged("closed a:1") != 1 || w.logged("closed b:1") != 1 {
		t.Errorf("got %q", w.lines)
	}
	closed(t, w, p)
}

// A failed load is reported with its reason, and the next request tries again.
func TestFailedLoad(t *testing.T) {
	w := &world{t: t}
	p := models.New(t.Context(), models.Options{Loaded: 1})
	m := add(t, p, w.source("a", "1", 1, nil))
	w.fail.Store(true)
	_, err := m.Answer(t.Context(), runner.Request{}, nil)
	var typed *api.Error
	if !errors.As(err, &typed) || typed.Status != 503 || typed.Code != "model_not_loaded" || !strings.Contains(typed.Message, "a:1: no memory") {
		t.Errorf("got %#v", err)
	}
	w.fail.Store(false)
	answer(t, m, "a:1")
	closed(t, w, p)
}

// A newer version gets the requests; answers in progress finish on the old one.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := models.New(t.Context(), models.Options{Loaded: 1, Log: w.log})
		release := make(chan struct{})
		m := add(t, p, w.source("a", "1", 1, release))
		long := begin(t, m)
		w.fail.Store(true)
		if _, err := p.Replace(m, w.source("a", "2", 1, release)); err == nil {
			t.Error("replaced by a version that cannot be loaded")
		}
		answer(t, m, "a:1")
		w.fail.Store(false)
		next, err := p.Replace(m, w.source("a", "2", 1, release))
		if err != nil {
			t.Fatal(err)
		}
		answer(t, m, "a:2")
		answer(t, next, "a:2")
		if next.Build().Assembly.Version != "2" || w.logged("closed a:1") != 0 {
			t.Errorf("got %q", w.lines)
		}
		close(release)
		if got := <-long; got != "a:1" {
			t.Errorf("the answer in progress: got %s", got)
		}
		synctest.Wait()
		if w.logged("closed a:1") != 1 || p.Loaded() != 1 {
			t.Errorf("got %q", w.lines)
		}
		closed(t, w, p)
	})
}

// A watched reference is replaced by newer versions. One that is not usable is refused once,
// and again after a signal.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		p := models.New(t.Context(), models.Options{Log: w.log})
		m := add(t, p, w.source("a", "1", 1, nil))
		digest, fault := "d1", error(nil)
		changed := 0
		one := &models.Watched{Ref: "a@^1", Model: m, Seen: "d1", Changed: func(*models.Model) { changed++ }}
		var mu sync.Mutex
		one.Renew = func(_ context.Context, seen ...string) (*models.Source, string, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range seen {
				if s == digest {
					return nil, digest, nil
				}
			}
			src := w.source("a", strings.TrimPrefix(digest, "d"), 1, nil)
			return &src, digest, fault
		}
		ctx, stop := context.WithCancel(t.Context())
		now := make(chan os.Signal, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.Watch(ctx, []*models.Watched{one}, time.Minute, now)
		}()
		step := func(name, d string, err error, want string, lines map[string]int) {
			t.Helper()
			mu.Lock()
			digest, fault = d, err
			mu.Unlock()
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			answer(t, m, want)
			for text, n := range lines {
				if got := w.logged(text); got != n {
					t.Errorf("%s: %q: got %d lines, want %d: %q", name, text, got, n, w.lines)
				}
			}
		}
		step("same", "d1", nil, "a:1", map[string]int{"replaced": 0})
		step("unsigned", "d2", errors.New("no signature"), "a:1", map[string]int{"refused d2 of a@^1: no signature; a:1 remains": 1})
		step("no registry", "", errors.New("no route"), "a:1", map[string]int{"watching a@^1: no route; a:1 remains": 1})
		step("still unsigned", "d2", nil, "a:1", map[string]int{"refused": 1, "replaced": 0})
		now <- os.Interrupt
		synctest.Wait()
		answer(t, m, "a:2")
		step("newer", "d3", nil, "a:3", map[string]int{"replaced a:2 by a:3 (d3)": 1})
		if changed != 2 || one.Seen != "d3" {
			t.Errorf("changed %d times, seen %s", changed, one.Seen)
		}
		stop()
		<-ended
		closed(t, w, p)
	})
}

// Requests for more models than fit are all answered, while versions change.
func TestCrowd(t *testing.T) {
	w := &world{t: t}
	p := models.New(t.Context(), models.Options{Loaded: 2})
	var list []*models.Model
	for i := range 5 {
		list = append(list, add(t, p, w.source(fmt.Sprint("m", i), "1", 1, nil)))
	}
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			for n := range 50 {
				which := (i*7 + n*n) % len(list)
				a, err := list[which].Answer(t.Context(), runner.Request{}, nil)
				if err != nil || !strings.HasPrefix(a.Text, fmt.Sprint("m", which, ":")) {
					t.Errorf("got %v, %v", a, err)
				}
			}
		})
	}
	all.Go(func() {
		last := list[0]
		for v := range 20 {
			next, err := p.Replace(last, w.source("m0", fmt.Sprint(v+2), 1, nil))
			if err != nil {
				t.Error(err)
				return
			}
			last = next
		}
	})
	all.Wait()
	closed(t, w, p)
}
