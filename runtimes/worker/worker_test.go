//go:build unix

package worker_test

import (
	"bytes"
	"context"
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
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
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
