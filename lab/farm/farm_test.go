package farm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"mm-abi.org/mm/lab/farm"
	"mm-abi.org/mm/lab/farm/broker"
)

// start starts a server alone.
func start(t testing.TB, dir, listen string) *broker.Broker {
	t.Helper()
	b, err := broker.Start(broker.Options{Dir: dir, Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t testing.TB, opt farm.Options) *farm.Queue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q, err := farm.Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// executor is a function that executes jobs.
type executor func(ctx context.Context, id string, j farm.Job) (farm.Outcome, error)

func (e executor) Execute(ctx context.Context, id string, j farm.Job) (farm.Outcome, error) {
	return e(ctx, id, j)
}

// work runs a worker until the test ends or stop is called.
func work(t testing.TB, q *farm.Queue, name string, e executor, can ...string) (stop func()) {
	t.Helper()
	c := farm.Capabilities{}
	for _, one := range can {
		if err := c.Add(one); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := farm.Worker{Queue: q, Name: name, Capabilities: c, Executor: e}
		if err := w.Work(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

func numbered(i int, needs ...string) farm.Job {
	return farm.Job{Args: []string{"version", fmt.Sprintf("--job=%d", i)}, Needs: needs}
}

// Jobs that are submitted twice have one result each, although the server restarts and a
// worker dies in the middle of a job.
func TestEachJobOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir, "127.0.0.1:0")
	opt := farm.Options{Servers: b.URL(), Wait: 500 * time.Millisecond}
	q := open(t, opt)
	var ids []string
	const n = 60
	for i := range 2 * n {
		id, err := q.Submit(t.Context(), numbered(i%n))
		if err != nil {
			t.Fatal(err)
		}
		if i < n {
			ids = append(ids, id)
		}
	}
	dead := open(t, opt)
	held := make(chan string, 1)
	work(t, dead, "dead", func(ctx context.Context, id string, _ farm.Job) (farm.Outcome, error) {
		dead.Close() // as a killed process: nothing is returned
		held <- id
		<-ctx.Done()
		return farm.Outcome{}, ctx.Err()
	})
	lost := <-held
	quick := func(context.Context, string, farm.Job) (farm.Outcome, error) {
		time.Sleep(5 * time.Millisecond)
		return farm.Outcome{}, nil
	}
	for i := range 2 {
		work(t, open(t, opt), fmt.Sprint("w", i), quick)
	}
	got := map[string]int{}
	restarted := false
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := q.Wait(ctx, ids, func(r farm.Result) error {
		got[r.Job]++
		if r.Job == lost && r.Attempt < 2 {
			t.Errorf("job of the dead worker: attempt %d", r.Attempt)
		}
		if len(got) == n/3 && !restarted {
			restarted = true
			address := strings.TrimPrefix(b.URL(), "nats://")
			if err := b.Close(); err != nil {
				return err
			}
			b = start(t, dir, address)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	once(t, q, n)
	if len(got) != n {
		t.Errorf("got %d results, want %d", len(got), n)
	}
	if id, err := q.Submit(t.Context(), numbered(1)); err != nil || id != ids[1] {
		t.Errorf("submission of a job with a result: %q, %v", id, err)
	}
	if s, err := q.Status(t.Context()); err != nil || s.Waiting+s.Running != 0 || s.Results != n {
		t.Errorf("got %+v, %v", s, err)
	}
}

// once checks that n results were written, each once, and that no job is left.
func once(t testing.TB, q *farm.Queue, n int) {
	t.Helper()
	for range 100 {
		s, err := q.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Results > n || s.Written > n {
			t.Fatalf("got %d results, %d writings, want %d", s.Results, s.Written, n)
		}
		if s.Results == n && s.Written == n && s.Waiting+s.Running == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s, err := q.Status(t.Context())
	t.Fatalf("the queue does not empty: %+v, %v", s, err)
}

// A job that fails ends after its attempts, with their errors; it can be submitted again.
func TestPoison(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(func() { b.Close() })
	q := open(t, farm.Options{Servers: b.URL(), Wait: 400 * time.Millisecond})
	var mu sync.Mutex
	runs, broken := 0, true
	stop := work(t, open(t, farm.Options{Servers: b.URL()}), "w", func(context.Context, string, farm.Job) (farm.Outcome, error) {
		mu.Lock()
		defer mu.Unlock()
		if runs++; broken {
			return farm.Outcome{Tail: "tail"}, fmt.Errorf("reason %d", runs)
		}
		return farm.Outcome{Tail: "well"}, nil
	})
	j := numbered(0)
	j.Attempts = 2
	var r farm.Result
	await := func(id string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := q.Wait(ctx, []string{id}, func(got farm.Result) error { r = got; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	id, err := q.Submit(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	await(id)
	if want := []string{"reason 1", "reason 2"}; !cmp.Equal(r.Errors, want) || r.Err() == nil || r.Tail != "tail" {
		t.Errorf("got %+v, want errors %q", r, want)
	}
	if err := q.Forget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	if _, err := q.Submit(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	await(id)
	if r.Err() != nil || r.Tail != "well" {
		t.Errorf("after another submission: %+v", r)
	}
	if err := q.Forget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if again, err := q.Result(t.Context(), id); err != nil || again == nil {
		t.Errorf("a result without an error was forgotten: %v", err)
	}
	stop()

	// A job that kills its workers ends, too.
	j = numbered(1)
	j.Attempts = 2
	if id, err = q.Submit(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		own := open(t, farm.Options{Servers: b.URL()})
		killed := make(chan bool)
		stop := work(t, own, fmt.Sprint("victim", i), func(ctx context.Context, _ string, _ farm.Job) (farm.Outcome, error) {
			own.Close()
			close(killed)
			<-ctx.Done()
			return farm.Outcome{}, ctx.Err()
		})
		<-killed
		stop()
	}
	work(t, open(t, farm.Options{Servers: b.URL()}), "last", func(context.Context, string, farm.Job) (farm.Outcome, error) {
		t.Error("executed once more")
		return farm.Outcome{}, nil
	})
	await(id)
	if len(r.Errors) != 2 || !strings.Contains(r.Errors[0], "worker victim1 died") {
		t.Errorf("got %q", r.Errors)
	}
}

// A job goes to a worker that meets its needs, and to no other.
func TestNeeds(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(func() { b.Close() })
	q := open(t, farm.Options{Servers: b.URL()})
	var mu sync.Mutex
	by := map[string]string{}
	of := func(name string) executor {
		return func(_ context.Context, id string, _ farm.Job) (farm.Outcome, error) {
			mu.Lock()
			defer mu.Unlock()
			by[id] = name
			return farm.Outcome{}, nil
		}
	}
	work(t, open(t, farm.Options{Servers: b.URL()}), "small", of("small"), "ram=4G")
	work(t, open(t, farm.Options{Servers: b.URL()}), "large", of("large"), "ram=64G,engine=llamacpp")
	want := map[string]string{}
	var ids []string
	for i, needs := range [][]string{{"ram=16G"}, {"engine=llamacpp"}, {"ram=16G", "engine=llamacpp"}, {"ram=32G"}} {
		id, err := q.Submit(t.Context(), numbered(i, needs...))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		want[id] = "large"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := q.Wait(ctx, ids, func(farm.Result) error { return nil }); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(want, by); diff != "" {
		t.Error(diff)
	}
	s, err := q.Status(t.Context())
	if err != nil || len(s.Workers) != 2 || s.Workers[0].Name != "large" || s.Workers[0].Capabilities != "engine=llamacpp,ram=64G" {
		t.Errorf("got %+v, %v", s, err)
	}
}

// A worker reports progress as often as the shortest wait of its jobs wants: a job that takes
// longer stays with its worker.
func TestProgress(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(func() { b.Close() })
	long, short := open(t, farm.Options{Servers: b.URL()}), open(t, farm.Options{Servers: b.URL(), Wait: 600 * time.Millisecond})
	var ids []string
	for i, q := range []*farm.Queue{long, long, short, long, long} {
		id, err := q.Submit(t.Context(), numbered(i, fmt.Sprint("n", i)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	var runs atomic.Int32
	for _, name := range []string{"w", "v"} {
		work(t, open(t, farm.Options{Servers: b.URL()}), name, func(_ context.Context, id string, _ farm.Job) (farm.Outcome, error) {
			if id == ids[2] {
				runs.Add(1)
				time.Sleep(2 * time.Second)
			}
			return farm.Outcome{}, nil
		}, "n0", "n1", "n2", "n3", "n4")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := short.Wait(ctx, ids, func(farm.Result) error { return nil }); err != nil || runs.Load() != 1 {
		t.Errorf("got %d executions, %v, want 1", runs.Load(), err)
	}
}

// A job whose result exceeds the limit fails, and one whose result is not readable is an
// error of who waits for it; neither is waited for without end.
func TestFaultyResults(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(func() { b.Close() })
	q := open(t, farm.Options{Servers: b.URL()})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	id, err := q.Submit(ctx, numbered(0))
	if err != nil {
		t.Fatal(err)
	}
	work(t, open(t, farm.Options{Servers: b.URL()}), "w", func(context.Context, string, farm.Job) (farm.Outcome, error) {
		out := farm.Outcome{Outputs: map[string]string{}}
		for i := range 8192 {
			out.Outputs[fmt.Sprint(i)] = strings.Repeat("a", 64)
		}
		return out, nil
	})
	if err := q.Wait(ctx, []string{id}, farm.Result.Err); err == nil || !strings.Contains(err.Error(), "limit 524288") {
		t.Errorf("got %v, want the limit", err)
	}
	conn, err := nats.Connect(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := numbered(1).Encode()
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() { got <- q.Wait(ctx, []string{other}, farm.Result.Err) }()
	time.Sleep(200 * time.Millisecond) // the result comes while it waits
	if _, err := js.Publish(ctx, "$KV.mm_results."+other, []byte("{")); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err == nil || !strings.Contains(err.Error(), "result of") {
		t.Errorf("got %v, want a fault of the result", err)
	}
}

// Files are stored once under their digests, and verified.
func TestFiles(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(func() { b.Close() })
	q := open(t, farm.Options{Servers: b.URL()})
	dir := t.TempDir()
	data := []byte(strings.Repeat("0123456789abcdef", 1<<15))
	if err := os.WriteFile(filepath.Join(dir, "a"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := q.PutFile(t.Context(), filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := q.PutBytes(t.Context(), data); err != nil || again != sum {
		t.Errorf("got %s, %v, want %s", again, err, sum)
	}
	for range 2 {
		if err := q.GetFile(t.Context(), sum, dir, "sub/b"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "sub", "b")); err != nil || string(got) != string(data) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if got, err := q.GetBytes(t.Context(), sum, int64(len(data))); err != nil || string(got) != string(data) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := q.GetBytes(t.Context(), sum, int64(len(data))-1); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
	// Other content of the same size under the digest is replaced.
	conn, err := nats.Connect(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	store, err := js.ObjectStore(t.Context(), "mm_blobs")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutString(t.Context(), sum, strings.Repeat("x", len(data))); err != nil {
		t.Fatal(err)
	}
	if _, err := q.GetBytes(t.Context(), sum, int64(len(data))); err == nil || !strings.Contains(err.Error(), "digest mismatch") {
		t.Errorf("got %v", err)
	}
	if _, err := q.PutFile(t.Context(), filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if got, err := q.GetBytes(t.Context(), sum, int64(len(data))); err != nil || string(got) != string(data) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := q.GetBytes(t.Context(), "", 10); err == nil || !strings.Contains(err.Error(), "invalid digest") {
		t.Errorf("got %v", err)
	}
	if _, err := q.GetBytes(t.Context(), strings.Repeat("0", 64), 10); err == nil || !strings.Contains(err.Error(), "not in the queue") {
		t.Errorf("got %v", err)
	}
}
