package farm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/lab/farm"
	"mm-abi.org/mm/lab/farm/broker"
)

// TestMain also runs as a server and as a worker, which the test of chaos kills.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case os.Getenv("MM_FARM_SERVER") != "":
		err = broker.Main(ctx, strings.Split(os.Getenv("MM_FARM_SERVER"), " "), os.Stdin, os.Stdout, os.Stderr)
	case os.Getenv("MM_FARM_WORKER") != "":
		err = chaosWorker(ctx, os.Getenv("MM_FARM_WORKER"), os.Getenv("MM_FARM_SERVERS"))
	default:
		os.Exit(testfiles.InMemory(m))
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// chaosWorker executes jobs that take two milliseconds.
func chaosWorker(ctx context.Context, name, servers string) error {
	q, err := farm.Open(ctx, farm.Options{Servers: servers})
	if err != nil {
		return err
	}
	defer q.Close()
	w := farm.Worker{Queue: q, Name: name, Capabilities: farm.Capabilities{}, Executor: executor(func(context.Context, string, farm.Job) (farm.Outcome, error) {
		time.Sleep(2 * time.Millisecond)
		return farm.Outcome{}, nil
	})}
	return w.Work(ctx)
}

// chaos is the size of the test: its default, or the values of MM_FARM_CHAOS.
type chaos struct {
	Jobs, ServerKills, WorkerKills, Workers int
	Partition                               time.Duration // of one server from the others
}

// Three servers hold a queue while servers and workers are killed and one server is cut off:
// every job has one result, which was written once. `make jobs` does it with 20,000 jobs.
func TestChaos(t *testing.T) {
	c := chaos{Jobs: 300, ServerKills: 2, WorkerKills: 1, Workers: 2, Partition: 2 * time.Second}
	if text := os.Getenv("MM_FARM_CHAOS"); text != "" {
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
	} else if testing.Short() {
		t.Skip("skipped: half a minute; TestEachJobOnce is the short form")
	}
	begin := time.Now()
	cl := newCluster(t)
	q := open(t, farm.Options{Servers: cl.urls(), Replicas: 3, Wait: 3 * time.Second})
	t.Logf("ready after %.1f s", time.Since(begin).Seconds())
	workers := make([]*process, c.Workers)
	for i := range workers {
		workers[i] = spawn(t, "MM_FARM_WORKER=w"+strconv.Itoa(i), "MM_FARM_SERVERS="+cl.urls())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	begin = time.Now()
	ids := publish(t, ctx, q, c.Jobs)
	published := time.Since(begin)
	done := make(chan struct{})
	var plague sync.WaitGroup
	progress := make(chan int, c.Jobs)
	plague.Go(func() { harm(t, c, cl, workers, progress, done) })
	got := map[string]int{}
	err := q.Wait(ctx, ids, func(r farm.Result) error {
		got[r.Job]++
		progress <- len(got)
		return r.Err()
	})
	took := time.Since(begin)
	close(done)
	plague.Wait()
	if err != nil {
		t.Fatalf("after %d results: %v", len(got), err)
	}
	once(t, q, c.Jobs)
	for id, n := range got {
		if n != 1 {
			t.Errorf("job %s: %d results", id, n)
		}
	}
	t.Logf("%d jobs, %d server kills, %d worker kills, a partition of %v: %d results, each once; published in %.1f s (%.0f/s), complete after %.1f s",
		c.Jobs, cl.kills, c.WorkerKills, c.Partition, len(got), published.Seconds(), float64(c.Jobs)/published.Seconds(), took.Seconds())
	if cl.kills != c.ServerKills {
		t.Errorf("%d servers were killed, want %d: more jobs are needed", cl.kills, c.ServerKills)
	}
}

// publish submits jobs from several goroutines.
func publish(t *testing.T, ctx context.Context, q *farm.Queue, n int) []string {
	t.Helper()
	ids := make([]string, n)
	errs := make(chan error, n)
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			for i := w; i < n; i += 16 {
				var err error
				if ids[i], err = q.Submit(ctx, numbered(i)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	return ids
}

// harm kills servers and workers and cuts one server off, spread over the jobs.
func harm(t *testing.T, c chaos, cl *cluster, workers []*process, progress <-chan int, done <-chan struct{}) {
	total := c.ServerKills + c.WorkerKills + 1
	seen := 0
	for i := range total {
		for seen < (i+1)*c.Jobs/(total+2) {
			select {
			case seen = <-progress:
			case <-done:
				return
			}
		}
		switch {
		case i == total/2:
			cl.proxy.cut(true)
			time.Sleep(c.Partition)
			cl.proxy.cut(false)
		case i%3 == 2 && c.WorkerKills > 0 || cl.kills == c.ServerKills:
			c.WorkerKills--
			w := rand.IntN(len(workers))
			workers[w].kill()
			workers[w] = workers[w].again(t)
		default:
			cl.kill(t, rand.IntN(3))
		}
	}
}

// cluster is three servers. The routes of the third one go through a proxy.
type cluster struct {
	servers [3]*process
	ports   [3]int
	proxy   *proxy
	kills   int
}

func (cl *cluster) urls() string {
	var all []string
	for _, p := range cl.ports {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	return strings.Join(all, ",")
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	cl := &cluster{}
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("shared"), 0o600); err != nil {
		t.Fatal(err)
	}
	var routes [3]int
	for i := range 3 {
		cl.ports[i], routes[i] = freePort(t), freePort(t)
	}
	// The third server reaches the others through proxies, and they do not dial it.
	cl.proxy = newProxy(t, routes[0], routes[1])
	for i := range 3 {
		to := []string{fmt.Sprintf("127.0.0.1:%d", routes[0]), fmt.Sprintf("127.0.0.1:%d", routes[1])}
		if i == 2 {
			to = cl.proxy.addresses
		}
		args := []string{"-attached", "-dir", filepath.Join(dir, strconv.Itoa(i)), "-listen", fmt.Sprintf("127.0.0.1:%d", cl.ports[i]), "-name", fmt.Sprint("n", i), "-cluster", "c",
			"-cluster-listen", fmt.Sprintf("127.0.0.1:%d", routes[i]), "-cluster-secret", secret, "-routes", strings.Join(to, ",")}
		cl.servers[i] = spawn(t, "MM_FARM_SERVER="+strings.Join(args, " "))
	}
	return cl
}

// kill kills a server, waits for a moment and starts it again.
func (cl *cluster) kill(t *testing.T, i int) {
	cl.servers[i].kill()
	cl.kills++
	time.Sleep(300 * time.Millisecond)
	cl.servers[i] = cl.servers[i].again(t)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// process is a child that the test kills.
type process struct {
	cmd   *exec.Cmd
	env   []string
	stdin io.Closer
}

func spawn(t *testing.T, env ...string) *process {
	t.Helper()
	p := &process{env: env, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return p
	}
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	if p.cmd.Process != nil && p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

func (p *process) again(t *testing.T) *process { return spawn(t, p.env...) }

// proxy passes connections on until it is cut: then it closes them and passes none on.
type proxy struct {
	addresses []string
	mu        sync.Mutex
	off       bool
	open      map[net.Conn]bool
}

func newProxy(t *testing.T, ports ...int) *proxy {
	t.Helper()
	p := &proxy{open: map[net.Conn]bool{}}
	for _, port := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		p.addresses = append(p.addresses, l.Addr().String())
		go func() {
			for {
				c, err := l.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil {
					go p.pass(c, port)
				}
			}
		}()
	}
	return p
}

func (p *proxy) pass(c net.Conn, port int) {
	defer c.Close()
	to, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return
	}
	defer to.Close()
	p.mu.Lock()
	off := p.off
	p.open[c], p.open[to] = true, true
	p.mu.Unlock()
	if off {
		return
	}
	go func() {
		_, _ = io.Copy(to, c)
		to.Close()
	}()
	_, _ = io.Copy(c, to)
}

// cut cuts the connections, or ends the cut.
func (p *proxy) cut(off bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = off
	for c := range p.open {
		c.Close()
	}
	clear(p.open)
}
