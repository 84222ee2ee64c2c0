//go:build linux

package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
	"mm-abi.org/mm/runtimes/worker/wire"
)

func function(t *testing.T, opt worker.Options) runtimes.Function {
	t.Helper()
	m, err := worker.Open(t.Context(), opt, wire.Open{Name: "x", Type: abi.Encoder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m.(runtimes.Function)
}

func filled(with byte, size int) map[string]runtimes.Tensor {
	return map[string]runtimes.Tensor{
		"x": {Type: runtimes.Uint8, Shape: []int64{int64(size)}, Data: bytes.Repeat([]byte{with}, size)},
		"y": {Type: runtimes.Uint8, Shape: []int64{3}, Data: []byte{with, 1, with}},
		"z": {Type: runtimes.Float32, Shape: []int64{0, 7}},
	}
}

func sameTensors(got, want map[string]runtimes.Tensor) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d tensors of %d", len(got), len(want))
	}
	for name, w := range want {
		if !bytes.Equal(got[name].Data, w.Data) || got[name].Type != w.Type {
			return fmt.Errorf("%s is another", name)
		}
	}
	return nil
}

// Tensors of all sizes arrive unchanged, by pipe and by shared memory, concurrently, including those
// that do not fit.
func TestTensorsBothWays(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	for name, share := range map[string]int{"pipe": -1, "shared": 1, "as it pays": 0} {
		t.Run(name, func(t *testing.T) {
			opt := options("echo", "")
			opt.Share = share
			f := function(t, opt)
			var group sync.WaitGroup
			for i, size := range []int{0, 1, 63, 64, 4 << 10, 16 << 10, 1 << 20, 5 << 20, 70 << 20, 90 << 20} {
				for turn := range 2 { // the results of the second have a room
					group.Go(func() {
						in := filled(byte(10*i+turn), size)
						out, err := f.Run(t.Context(), in)
						if err == nil {
							err = sameTensors(out, in)
						}
						if err != nil {
							t.Errorf("%d bytes: %v", size, err)
						}
					})
				}
			}
			group.Wait()
		})
	}
}

// liar is a child that misuses the shared memory once.
func liar() error {
	first, err := wire.Read(os.Stdin, 0)
	var hello wire.Hello
	if err == nil {
		err = first.Decode(&hello)
	}
	if err != nil {
		return err
	}
	w := wire.NewWriter(os.Stdout)
	if err := w.Write(wire.KindHello, 0, wire.Hello{Version: wire.Version, Shared: hello.Shared}); err != nil {
		return err
	}
	mark, err := os.OpenFile(os.Getenv("MM_TEST_MARK"), os.O_CREATE|os.O_EXCL, 0o600)
	again := err != nil
	mark.Close()
	for {
		f, err := wire.Read(os.Stdin, 0)
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return err
		}
		kind, head := wire.KindReply, any(wire.Reply{Function: true})
		if f.Kind == wire.KindRun {
			var r wire.Call
			if err := f.Decode(&r); err != nil {
				return err
			}
			// Nothing of this may work; and mm must not depend on that.
			for _, size := range []int64{0, 4096, hello.Shared * 2} {
				if err := unix.Ftruncate(wire.SharedFile, size); err == nil {
					return errors.New("the memory changed its size")
				}
			}
			unix.Fallocate(wire.SharedFile, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, hello.Shared)
			if !again {
				r.Tensors[0].At = r.Room.Size - 1
			}
			kind, head = wire.KindRan, &r
		}
		if err := w.Write(kind, f.ID, head); err != nil {
			return err
		}
	}
}

// A child can neither shrink the memory nor make mm read beyond the request's room; it is killed, and
// the next request succeeds.
func TestHostileSharedMemory(t *testing.T) {
	f := function(t, options("liar", filepath.Join(t.TempDir(), "mark")))
	in := map[string]runtimes.Tensor{"x": {Type: runtimes.Uint8, Shape: []int64{1 << 20}, Data: bytes.Repeat([]byte{9}, 1<<20)}}
	if _, err := f.Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), "room") {
		t.Fatalf("a tensor beyond its room: %v", err)
	}
	out, err := f.Run(t.Context(), in)
	if err != nil || len(out["x"].Data) != 1<<20 {
		t.Fatalf("the next request: %v", err)
	}
	if b := out["x"].Data; bytes.Contains(b, []byte{9}) {
		t.Error("the hole that was punched into the memory still has numbers")
	}
}

// A function that ignores a cancellation delays its caller only for a moment; another child serves
// further callers.
func TestUnresponsiveFunction(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	opt := options("deaf once", mark)
	opt.Grace = 20 * time.Second // far more than a moment, on a busy machine as well
	f := function(t, opt)
	t.Cleanup(func() {
		for _, pid := range runtimetest.Children(t) { // the unresponsive one would use its grace
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var begin time.Time
	var going sync.WaitGroup
	going.Go(func() { // the caller leaves while the child computes
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, err := os.Stat(mark); err == nil {
				break
			}
		}
		begin = time.Now()
		cancel()
	})
	_, err := f.Run(ctx, filled(1, 1<<20))
	ended := time.Now()
	going.Wait()
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if took := ended.Sub(begin); took > 10*time.Second {
		t.Errorf("the caller waited for %v", took)
	}
	for i := range 3 {
		in := filled(byte(i), 1<<20)
		out, err := f.Run(t.Context(), in)
		if err == nil {
			err = sameTensors(out, in)
		}
		if err != nil {
			t.Errorf("request %d behind it: %v", i, err)
		}
	}
}
