package qnn_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
)

// wide returns a model of square products, x [rows,width] → y [rows,width], which keeps an emulation busy.
func wide(rows, width int64, products int) *onnx.Model {
	m := onnx.New("wide", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, rows, width)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, rows, width)}
	w := make([]float32, width*width)
	for i := range w {
		w[i] = float32((i*37)%23-11) / float32(width)
	}
	m.Graph.Initializers = []onnx.Tensor{onnx.Floats("w", []int64{width, width}, w)}
	from := "x"
	for i := range products {
		to := "y"
		if i+1 < products {
			to = "h" + strconv.Itoa(i)
		}
		from = m.Graph.Add("MatMul", []string{from, "w"}, to)
	}
	return m
}

// opened compiles and opens a model until the test ends.
func opened(t *testing.T, e *qnn.Engine, m *onnx.Model) runtimes.Function {
	t.Helper()
	model, err := e.Open(t.Context(), bundle(abi.QNN, compiled(t, e, m, 69).Context), runtimes.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	return model.(runtimes.Function)
}

// Eight concurrent requests return the same as successive ones, with a fast model and with a slow one.
func TestAtOnce(t *testing.T) {
	e := engine(t)
	for name, c := range map[string]struct {
		model       *onnx.Model
		rows, width int64
		times       int
	}{"quick": {mlp(2), 2, 8, 20}, "slow": {wide(8, 512, 3), 8, 512, 2}} {
		t.Run(name, func(t *testing.T) {
			f := opened(t, e, c.model)
			var want [8]map[string]runtimes.Tensor
			var alone, together time.Duration
			for i := range want {
				began := time.Now()
				out, err := f.Run(t.Context(), map[string]runtimes.Tensor{"x": wave(i, c.rows, c.width)})
				if err != nil {
					t.Fatal(err)
				}
				want[i], alone = out, alone+time.Since(began)
				if i > 0 && reflect.DeepEqual(want[i], want[0]) {
					t.Fatal("other inputs give the same: nothing could be confused")
				}
			}
			began := time.Now()
			var wg sync.WaitGroup
			for i := range want {
				wg.Go(func() {
					for range c.times {
						got, err := f.Run(t.Context(), map[string]runtimes.Tensor{"x": wave(i, c.rows, c.width)})
						if err != nil || !reflect.DeepEqual(got, want[i]) {
							t.Errorf("request %d: other numbers than alone (%v)", i, err)
							return
						}
					}
				})
			}
			wg.Wait()
			together = time.Since(began)
			t.Logf("8 requests one after the other %v, %d at once %v, all the same", alone.Round(time.Millisecond), 8*c.times, together.Round(time.Millisecond))
		})
	}
}

// A child killed during a computation ends it with an error; the next request to the same model starts
// another child and returns the same numbers.
func TestKilledAtWork(t *testing.T) {
	e := engine(t)
	f := opened(t, e, wide(16, 1024, 6))
	in := map[string]runtimes.Tensor{"x": wave(1, 16, 1024)}
	began := time.Now()
	want, err := f.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	for turn := 0; turn < 3; turn++ {
		before := runtimetest.Children(t)
		if len(before) != 1 {
			t.Fatalf("children %v, one was expected", before)
		}
		errs := make(chan error, 1)
		go func() {
			_, err := f.Run(t.Context(), in)
			errs <- err
		}()
		after := took / 4
		time.Sleep(after)
		if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		err := <-errs
		if err == nil && took > time.Millisecond { // it had ended: the first one was slowed down by a busy machine
			took /= 2
			turn--
		} else if !errors.Is(err, worker.ErrDied) {
			t.Fatalf("turn %d: killed %v into a computation of %v, it gives %v", turn, after, took, err)
		}
		got, err := f.Run(t.Context(), in)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("turn %d: the next request gives other numbers (%v)", turn, err)
		}
		if after := runtimetest.Children(t); len(after) != 1 || after[0] == before[0] {
			t.Errorf("turn %d: children %v, before %v", turn, after, before)
		}
	}
	t.Logf("a computation takes %v; three children were killed in it", took.Round(time.Millisecond))
}

// The number of openings in TestOpenedOften, and the number before the first measurement.
const (
	openings = 50
	warm     = 20
	mostMore = 5 << 20 // bytes
)

// A context that is opened, run and closed repeatedly leaves nothing in mm: no memory, child, open file or
// temporary file; and no child is larger than the first ones. cmd/mm-native/qnnlib measures what the
// libraries leave in one process.
func TestOpenedOften(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it takes minutes")
	}
	e := engine(t)
	c := compiled(t, e, mlp(2), 69)
	t.Setenv("TMPDIR", t.TempDir())
	in := map[string]runtimes.Tensor{"x": wave(1, 2, 8)}
	want := run(t, e, bundle(abi.QNN, c.Wrapper, c.Context), in)
	var own, child, files int64
	began := time.Now()
	for i := range warm + openings {
		m, err := e.Open(t.Context(), bundle(abi.QNN, c.Wrapper, c.Context), runtimes.Limits{})
		if err != nil {
			t.Fatalf("opening %d: %v", i+1, err)
		}
		got, err := m.(runtimes.Function).Run(t.Context(), in)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("run %d: other numbers (%v)", i+1, err)
		}
		pids := runtimetest.Children(t)
		if len(pids) != 1 {
			t.Fatalf("run %d: the children are %v", i+1, pids)
		}
		size := resident(t, pids[0])
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if i < warm {
			child = max(child, size)
		} else if size > child+mostMore {
			t.Fatalf("run %d: the child has %d bytes, the first ones at most %d", i+1, size, child)
		}
		if i == warm-1 {
			own, files = settled(t), descriptors(t)
		}
	}
	more := settled(t) - own
	t.Logf("opened %d times in %v: mm grew by %d KiB, children have up to %d MiB", openings, time.Since(began).Round(time.Second), more>>10, child>>20)
	if more > mostMore {
		t.Errorf("mm grew by %d bytes", more)
	}
	if now := descriptors(t); now > files {
		t.Errorf("%d open files, after %d openings there were %d", now, warm, files)
	}
	if pids := runtimetest.Children(t); len(pids) > 0 {
		t.Errorf("children that are left: %v", pids)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files that are left: %v, %v", left, err)
	}
}

// settled returns the memory of this process after a garbage collection.
func settled(t *testing.T) int64 {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	return resident(t, os.Getpid())
}

// resident returns the resident memory of a process in bytes (Linux).
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		t.Skipf("skipped: this system does not tell the memory of a process: %v", err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// descriptors returns the number of open files of this process.
func descriptors(t *testing.T) int64 {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(list))
}
