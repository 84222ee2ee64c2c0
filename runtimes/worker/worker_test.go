//go:build unix

package worker_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// The test binary is its own child: MM_TEST_CHILD selects its role.
func TestMain(m *testing.M) {
	if play := os.Getenv("MM_TEST_CHILD"); play != "" {
		if err := child(play); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child serves an engine with a fault.
func child(play string) error {
	var e runtimes.Engine = fake{play}
	switch play {
	case "core":
		e = engines.Core{}
	case "onnx":
		e = engines.ONNX{}
	}
	switch play {
	case "garbage first":
		fmt.Println("Welcome to the engine, version 5!")
		time.Sleep(time.Minute)
	case "silence first":
		time.Sleep(time.Minute)
	case "old version":
		return wire.NewWriter(os.Stdout).Write(wire.KindHello, 0, wire.Hello{Version: 99})
	case "no engine":
		e = absent{}
	case "parent":
		return parent()
	case "liar":
		return liar()
	case "greets":
		if err := greet(wire.Hello{Version: wire.Version}); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // until the parent has read it
		return nil
	case "forks":
		grandchild := exec.Command(os.Args[0])
		grandchild.Env = append(os.Environ(), "MM_TEST_CHILD=silence first")
		grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
		if err := grandchild.Start(); err != nil {
			return err
		}
		return greet(wire.Hello{Version: wire.Version, Info: runtimes.Info{Version: strconv.Itoa(grandchild.Process.Pid)}})
	case "leaves":
		return errors.New("the library could not be mapped")
	}
	return worker.Serve(context.Background(), e, os.Stdin, os.Stdout)
}

// greet reads the parent's greeting and answers it.
func greet(answer wire.Hello) error {
	if _, err := wire.Read(os.Stdin, 0); err != nil {
		return err
	}
	return wire.NewWriter(os.Stdout).Write(wire.KindHello, 0, answer)
}

// A child that declines shared memory and exits is no data race; only -race can
// report one.
func TestGreetsAndLeaves(t *testing.T) {
	for range 10 {
		if _, err := worker.Probe(t.Context(), options("greets", "")); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that the child started and that holds its outputs open is killed after
// Options.Grace; a start and a Probe do not wait for it.
func TestForks(t *testing.T) {
	opt := options("forks", "")
	opt.Grace = 100 * time.Millisecond
	start := time.Now()
	info, err := worker.Probe(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(info.Version)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("Probe took %v", took)
	}
	for begin := time.Now(); syscall.Kill(pid, 0) == nil && !zombie(pid); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the process that the child started is still running")
		}
	}
}

// zombie reports whether a process ended and was not reaped.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// parent starts a child that generates, and reports it.
func parent() error {
	m, err := worker.Open(context.Background(), options("deaf", ""), wire.Open{Type: abi.Core})
	if err != nil {
		return err
	}
	s, err := m.(runtimes.Language).NewSequence(context.Background(), runtimes.SequenceOptions{})
	if err != nil {
		return err
	}
	if err := s.Feed(context.Background(), runtimes.Positions{Tokens: []int32{1}}); err != nil {
		return err
	}
	_, err = s.Generate(context.Background(), runtimes.Generation{}, func(id int32) error {
		if id == 5 {
			fmt.Println("generating")
		}
		return nil
	})
	return err
}

// A child ends with its parent, however the parent ends and whatever the child computes.
func TestEndsWithItsParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MM_TEST_CHILD=parent")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 11)); err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
	if err != nil || len(list) == 0 {
		cmd.Process.Kill()
		t.Skip("skipped: this system does not list a process's children")
	}
	var pids []string
	for _, file := range list {
		text, err := os.ReadFile(file)
		if err == nil {
			pids = append(pids, strings.Fields(string(text))...)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if len(pids) != 1 {
		t.Fatalf("the parent has the children %v, want one", pids)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile("/proc/" + pids[0] + "/stat")
		if err != nil || strings.Contains(string(text), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %s lives on: %s", pids[0], text)
		}
	}
}

type absent struct{ runtimes.Engine }

func (absent) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{}, &runtimes.Unavailable{What: "libfake", Why: "it is not installed", Hint: "install it"}
}

// fake is a language model that generates 1 + the last token, and a function that returns its inputs.
type fake struct{ fault string }

func (fake) Name() string { return "fake" }
func (fake) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{Version: "1", Devices: []string{"cpu"}, Formats: []string{"gguf"}, License: "MIT"}, nil
}
func (fake) Can(builds.Part) error { return nil }
func (f fake) Open(_ context.Context, b runtimes.Bundle, _ runtimes.Limits) (runtimes.Model, error) {
	if f.fault == "deaf at first" {
		strike("deaf once")
	}
	if b.Part.Type == abi.Encoder {
		return echo(f), nil
	}
	return counter(f), nil
}

// Answer returns the question.
func (f fake) Answer(_ context.Context, _ string, args []byte) (any, error) {
	strike(f.fault)
	return json.RawMessage(args), nil
}

type echo struct{ fault string }

func (echo) Close() error { return nil }
func (e echo) Run(_ context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	strike(e.fault)
	return in, nil
}

type counter struct{ fault string }

func (counter) Close() error { return nil }
func (counter) Shape() runtimes.Shape {
	return runtimes.Shape{Vocab: 1 << 20, Width: 2, Context: 1 << 19}
}
func (c counter) NewSequence(context.Context, runtimes.SequenceOptions) (runtimes.Sequence, error) {
	return &count{fault: c.fault}, nil
}

type count struct {
	fault string
	ids   []int32
}

func (c *count) Len() int             { return len(c.ids) }
func (c *count) Close() error         { return nil }
func (c *count) Truncate(n int) error { c.ids = c.ids[:n]; return nil }
func (c *count) Feed(_ context.Context, in ...runtimes.Positions) error {
	for _, p := range in {
		c.ids = append(c.ids, p.Tokens...)
		for _, v := range p.Vectors {
			c.ids = append(c.ids, int32(v))
		}
		if len(p.Vectors) > 0 {
			c.ids = c.ids[:len(c.ids)-len(p.Vectors)/2]
		}
	}
	return nil
}
func (c *count) Generate(ctx context.Context, opt runtimes.Generation, emit func(int32) error) (runtimes.Stop, error) {
	for n := 0; opt.MaxTokens == 0 || n < opt.MaxTokens; n++ {
		if err := ctx.Err(); err != nil && c.fault != "deaf" {
			return "", err
		}
		if n == 3 {
			strike(c.fault)
		}
		next := c.ids[len(c.ids)-1] + 1
		if c.fault == "nonsense" {
			next = -7
		}
		if err := emit(next); err != nil {
			return "", err
		}
		c.ids = append(c.ids, next)
		if opt.MaxTokens == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return runtimes.StopLength, nil
}

// strike triggers the fault once; a file records that it happened.
func strike(fault string) {
	if mark := os.Getenv("MM_TEST_MARK"); mark != "" {
		f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return
		}
		f.Close()
	}
	switch fault {
	case "deaf once":
		time.Sleep(time.Minute)
	case "dies":
		for i := range 30 {
			fmt.Fprintln(os.Stderr, "assertion", i, "failed\x1b[31m")
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "aborts":
		fmt.Fprintln(os.Stderr, "GGML_ASSERT(n > 0) failed")
		syscall.Kill(os.Getpid(), syscall.SIGABRT)
		select {}
	case "hangs":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Minute)
	case "garbage":
		os.Stdout.WriteString("a library prints to stdout\n")
	case "half":
		os.Stdout.WriteString("MMW1\x03\x00\x00\x00")
		os.Exit(0)
	case "huge":
		b := binary.LittleEndian.AppendUint64([]byte("MMW1\x03\x00\x00\x00"), 1)
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, 2), 0xFFFF_FFF0)
		os.Stdout.Write(b)
	case "stranger":
		wire.NewWriter(os.Stdout).Write(wire.KindReply, 4711, wire.Reply{})
	}
}

func options(play, mark string) worker.Options {
	return worker.Options{
		Program: os.Args[0], Env: []string{"MM_TEST_CHILD=" + play, "MM_TEST_MARK=" + mark},
		Silence: 10 * time.Second, Grace: 500 * time.Millisecond, Start: 30 * time.Second,
	}
}

func language(t *testing.T, play, mark string) runtimes.Language {
	t.Helper()
	opt := options(play, mark)
	if play == "hangs" {
		opt.Silence = 2 * time.Second
	}
	m, err := worker.Open(t.Context(), opt, wire.Open{Name: "x", Type: abi.Core})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m.(runtimes.Language)
}

func say(ctx context.Context, s runtimes.Sequence, n int) ([]int32, error) {
	var ids []int32
	_, err := s.Generate(ctx, runtimes.Generation{MaxTokens: n}, func(id int32) error { ids = append(ids, id); return nil })
	return ids, err
}

// A constraint, which is code, is refused instead of ignored.
func TestConstraintsStayHere(t *testing.T) {
	s, err := language(t, "count", "").NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), runtimes.Positions{Tokens: []int32{1}}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Generate(t.Context(), runtimes.Generation{MaxTokens: 3, Follow: anything{}}, func(int32) error { return nil })
	if !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if ids, err := say(t.Context(), s, 2); err != nil || len(ids) != 2 {
		t.Errorf("%v, %v", ids, err)
	}
}

// anything is a constraint that allows every token.
type anything struct{}

func (anything) Mask([]int32, []float32) error { return nil }
func (anything) Forced([]int32) []int32        { return nil }

// A child that fails during a generation ends it with an error; the next call uses another child with
// the same sequence.
func TestFaultsInTheMiddle(t *testing.T) {
	for play, want := range map[string]string{
		"dies": "signal: killed", "aborts": "GGML_ASSERT", "hangs": "no sign of life", "garbage": "bad frame magic",
		"half": "frame truncated", "huge": "limits", "stranger": "unexpected frame",
	} {
		t.Run(play, func(t *testing.T) {
			t.Parallel()
			m := language(t, play, filepath.Join(t.TempDir(), "mark"))
			s, err := m.NewSequence(t.Context(), runtimes.SequenceOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Feed(t.Context(), runtimes.Positions{Tokens: []int32{9, 10}}); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			ids, err := say(t.Context(), s, 100)
			if !errors.Is(err, worker.ErrDied) || !strings.Contains(err.Error(), want) || len(ids) > 100 {
				t.Fatalf("%d tokens, %v; want %q", len(ids), err, want)
			}
			if play != "garbage" && play != "huge" && play != "stranger" && !slices.Equal(ids, []int32{11, 12, 13}[:len(ids)]) {
				t.Errorf("it said %v before it failed", ids)
			}
			if d := time.Since(begin); d > 20*time.Second {
				t.Errorf("it took %v to notice", d)
			}
			if play == "dies" && (!strings.Contains(err.Error(), "assertion 29 failed[31m") || strings.Contains(err.Error(), "assertion 9 failed") || strings.Contains(err.Error(), "\x1b")) {
				t.Errorf("the last lines: %v", err)
			}
			if want := 2 + len(ids); s.Len() != want {
				t.Errorf("%d positions, want %d", s.Len(), want)
			}
			last := int32(10 + len(ids))
			if ids, err := say(t.Context(), s, 3); err != nil || !slices.Equal(ids, []int32{last + 1, last + 2, last + 3}) {
				t.Errorf("another child goes on with %v, %v", ids, err)
			}
		})
	}
}

func TestFaultsAtTheBeginning(t *testing.T) {
	for play, want := range map[string]string{
		"garbage first": "bad frame magic", "silence first": "no greeting", "old version": "got 99",
		"no engine": "not installed", "leaves": "could not be mapped",
	} {
		t.Run(play, func(t *testing.T) {
			t.Parallel()
			opt := options(play, "")
			if play == "silence first" {
				opt.Start = 300 * time.Millisecond
			}
			_, err := worker.Probe(t.Context(), opt)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if play == "no engine" && !errors.Is(err, runtimes.ErrUnavailable) {
				t.Errorf("%v is not unavailable", err)
			}
		})
	}
	opt := options("x", "")
	opt.Program = filepath.Join(t.TempDir(), "none")
	if _, err := worker.Probe(t.Context(), opt); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("no program: %v", err)
	}
}

// An engine that ignores a cancellation is killed, and the caller waits no longer.
func TestUnresponsive(t *testing.T) {
	m := language(t, "deaf", "")
	s, err := m.NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), runtimes.Positions{Tokens: []int32{1}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	ids, err := say(ctx, s, 0)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 5*time.Second || s.Len() != 1+len(ids) {
		t.Errorf("%v behind %d tokens and %v, %d positions", err, len(ids), time.Since(begin), s.Len())
	}
}

// Invalid tokens end the child, not mm.
func TestNonsense(t *testing.T) {
	s, err := language(t, "nonsense", "").NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), runtimes.Positions{Tokens: []int32{1}}); err != nil {
		t.Fatal(err)
	}
	if ids, err := say(t.Context(), s, 4); err == nil || len(ids) != 0 || s.Len() != 1 {
		t.Errorf("%v, %v, %d positions", ids, err, s.Len())
	}
}

// Vectors are also fed to another child.
func TestVectorsAreFedAgain(t *testing.T) {
	m := language(t, "dies", filepath.Join(t.TempDir(), "mark"))
	s, err := m.NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	in := []runtimes.Positions{{Tokens: []int32{5}}, {Vectors: []float32{70, 0, 80, 0}}, {Tokens: []int32{6, 7}}, {Vectors: []float32{20, 0}}}
	if err := s.Feed(t.Context(), in...); err != nil {
		t.Fatal(err)
	}
	if _, err := say(t.Context(), s, 9); !errors.Is(err, worker.ErrDied) {
		t.Fatal(err)
	}
	if err := s.Truncate(6); err != nil || s.Len() != 6 {
		t.Fatalf("%v, %d positions", err, s.Len())
	}
	if ids, err := say(t.Context(), s, 1); err != nil || !slices.Equal(ids, []int32{21}) {
		t.Errorf("%v, %v", ids, err)
	}
}

// Tensors of every type arrive unchanged, large ones too.
func TestTensors(t *testing.T) {
	m, err := worker.Open(t.Context(), options("x", ""), wire.Open{Type: abi.Encoder})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	in := map[string]runtimes.Tensor{"empty": {Type: runtimes.Int8, Shape: []int64{0, 3}}}
	for i, typ := range []runtimes.Elem{
		runtimes.Float64, runtimes.Float32, runtimes.Float16, runtimes.BFloat16, runtimes.Int64, runtimes.Int32, runtimes.Int16,
		runtimes.Int8, runtimes.Uint64, runtimes.Uint32, runtimes.Uint16, runtimes.Uint8, runtimes.Bool,
	} {
		data := make([]byte, typ.Size()*(1<<(2*i/3*2)))
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		in[string(typ)] = runtimes.Tensor{Type: typ, Shape: []int64{int64(len(data) / typ.Size())}, Data: data}
	}
	out, err := m.(runtimes.Function).Run(t.Context(), in)
	if err != nil || len(out) != len(in) {
		t.Fatal(len(out), err)
	}
	for name, want := range in {
		if got := out[name]; got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s came back as %s %v", name, got.Type, got.Shape)
		}
	}
}

// piped is the core engine in a child.
type piped struct{ engines.Core }

func (p piped) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(ctx.Err(), l.Check(), p.Can(b.Part)); err != nil {
		return nil, err
	}
	path, err := b.Entry(abi.GGUF)
	if err != nil {
		return nil, err
	}
	return worker.Open(ctx, options("core", ""), wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.GGUF, Path: path, Tokens: b.Tokens, KV: b.KV, Limits: l})
}

// folder contains the files of a build.
type folder string

func (f folder) Path(name string) (string, error)               { return filepath.Join(string(f), name), nil }
func (f folder) Open(name string) (*os.File, error)             { return os.Open(filepath.Join(string(f), name)) }
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

func coreModule(t testing.TB) runtimes.Bundle {
	return runtimes.Bundle{
		Part:   builds.Part{Name: "core-llm", Version: "1.0.0", Type: abi.Core, Files: builds.Formats{"gguf": {"core-llm.gguf"}}},
		Files:  folder(filepath.Join(testfiles.Root(t), "catalog", "core-llm")),
		Tokens: abi.TokenContract{MaxSeq: 200},
	}
}

// A real engine in a child passes the conformance suite.
func TestConformance(t *testing.T) {
	runtimetest.Run(t, runtimetest.Language{Engine: piped{}, Bundle: coreModule(t), Prompt: []int32{1, 40, 41, 42, 43, 44, 45}}.Cases())
}

// pipedFunction is the onnx engine in a child.
type pipedFunction struct{ engines.ONNX }

func (p pipedFunction) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(ctx.Err(), l.Check(), p.Can(b.Part)); err != nil {
		return nil, err
	}
	path, err := b.Entry(abi.ONNX)
	if err != nil {
		return nil, err
	}
	return worker.Open(ctx, options("onnx", ""), wire.Open{Name: b.Part.Name, Version: b.Part.Version, Type: b.Part.Type, Format: abi.ONNX, Path: path, Limits: l})
}

// So does a function: Close during a Run is reported, and cancellation works through the pipe.
func TestFunctionConformance(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "deep.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	m, in, long := runtimetest.Deep()
	_, err = onnx.Write(f, m)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	runtimetest.Run(t, runtimetest.Function{
		Engine: pipedFunction{}, In: in, Long: long,
		Bundle: runtimes.Bundle{Part: builds.Part{Name: "deep", Version: "1.0.0", Type: abi.Encoder, Files: builds.Formats{"onnx": {"deep.onnx"}}}, Files: folder(dir)},
	}.Cases())
}

// The cost of the pipe: the same tokens with and without it.
func BenchmarkPipe(b *testing.B) {
	for name, e := range map[string]runtimes.Engine{"direct": engines.Core{}, "piped": piped{}} {
		b.Run(name, func(b *testing.B) {
			m, err := e.Open(b.Context(), coreModule(b), runtimes.Limits{Threads: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			s, err := m.(runtimes.Language).NewSequence(b.Context(), runtimes.SequenceOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := errors.Join(s.Truncate(0), s.Feed(b.Context(), runtimes.Positions{Tokens: []int32{1, 40}})); err != nil {
					b.Fatal(err)
				}
				if ids, err := say(b.Context(), s, 100); err != nil || len(ids) != 100 {
					b.Fatal(len(ids), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(100*b.N), "µs/token")
		})
	}
}

// The cost of the pipe with an engine of no cost.
func BenchmarkToken(b *testing.B) {
	m, err := worker.Open(b.Context(), options("x", ""), wire.Open{Type: abi.Core})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	s, err := m.(runtimes.Language).NewSequence(b.Context(), runtimes.SequenceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := errors.Join(s.Truncate(0), s.Feed(b.Context(), runtimes.Positions{Tokens: []int32{1}})); err != nil {
			b.Fatal(err)
		}
		if ids, err := say(b.Context(), s, 1000); err != nil || len(ids) != 1000 {
			b.Fatal(len(ids), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(1000*b.N), "µs/token")
}

// The cost of a tensor there and back.
func BenchmarkTensor(b *testing.B) {
	m, err := worker.Open(b.Context(), options("x", ""), wire.Open{Type: abi.Encoder})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for _, n := range []int{4 << 10, 184 << 10, 600 << 10, 16 << 20} {
		b.Run(fmt.Sprint(n>>10, "KiB"), func(b *testing.B) {
			in := map[string]runtimes.Tensor{"x": {Type: runtimes.Uint8, Shape: []int64{int64(n)}, Data: make([]byte, n)}}
			for b.Loop() {
				if _, err := m.(runtimes.Function).Run(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(2 * int64(n))
		})
	}
}

// A child that is ahead of the emitted tokens is realigned.
func TestAhead(t *testing.T) {
	s, err := language(t, "deaf", "").NewSequence(t.Context(), runtimes.SequenceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), runtimes.Positions{Tokens: []int32{1}}); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	if _, err := s.Generate(t.Context(), runtimes.Generation{MaxTokens: 5000}, func(id int32) error {
		if id == 4 {
			return enough
		}
		return nil
	}); !errors.Is(err, enough) || s.Len() != 4 {
		t.Fatalf("%v, %d positions", err, s.Len())
	}
	if ids, err := say(t.Context(), s, 2); err != nil || !slices.Equal(ids, []int32{5, 6}) {
		t.Errorf("it goes on with %v, %v", ids, err)
	}
}
