//go:build !purego

package panel

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"mm-abi.org/mm/core/pool"
)

// TestAMX runs the AMX kernels: on the processor if it has AMX and MM_CPU allows
// it, otherwise in a child process whose AMX instructions trap and are emulated
// by this process (amxUnit).
func TestAMX(t *testing.T) {
	if hasAMX || os.Getenv("MM_EMULATED_AMX") != "" {
		levels := []*bool{&hasAVX2, &hasAVX512, &hasVNNI, &hasAMX}
		for _, l := range levels {
			defer func(before bool) { *l = before }(*l)
			*l = true
		}
		t.Run("Mul", TestMul)
		t.Run("Scratch", TestScratch)
		t.Run("BatchInvariance", TestBatchInvariance)
		t.Run("Extremes", TestExtremes)
		t.Run("NaN", TestNaNScale)
		t.Run("SameAsVNNI", testSameAsVNNI)
		return
	}
	if testing.Short() {
		t.Skip("skipped: each emulated AMX instruction stops a process")
	}
	if !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512BW || !cpu.X86.HasAVX512DQ || !cpu.X86.HasAVX512VL || !cpu.X86.HasAVX512VNNI {
		t.Skip("skipped: no AVX-512 VNNI, which scales the results of the tiles")
	}
	unit := &amxUnit{code: make(map[uint64][16]byte), threads: make(map[int]*amxState), counts: make(map[string]int)}
	out, status, err := unit.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if !status.Exited() || status.ExitStatus() != 0 || !strings.Contains(out, "--- PASS: TestAMX") {
		t.Errorf("child process: %v (%d):\n%s", status, status.ExitStatus(), out)
	}
	if cpu.X86.HasAMXInt8 {
		return // the child, whose level MM_CPU does not lower, had nothing to emulate
	}
	for _, name := range []string{"LDTILECFG", "TILEZERO", "TILELOADD", "TDPBSSD", "TILESTORED", "TILERELEASE"} {
		if unit.counts[name] == 0 {
			t.Errorf("%s was never executed: %v", name, unit.counts)
		}
	}
	for tid, s := range unit.threads {
		if s.configured {
			t.Errorf("thread %d ended with tiles in use", tid)
		}
	}
	t.Log("emulated:", unit.counts)
}

// Products are bit-equal to those of AVX-512 VNNI, for any number of groups and
// tiles.
func testSameAsVNNI(t *testing.T) {
	threads := pool.New(1)
	defer threads.Close()
	for _, typ := range allTypes {
		for _, shape := range [][3]int{{13, 64, 768}, {2, 20, 96}, {40, 32, 32}, {16, 16, 96}, {51, 32, 256}} {
			T, n, k := shape[0], shape[1], shape[2]
			if k%typ.BlockSize() != 0 {
				continue
			}
			var results [2][]float32
			for i := range results {
				hasAMX = i == 0
				r := rand.New(rand.NewPCG(uint64(typ), 11))
				m, err := New(typ, n, k, randomRows(r, typ, n, k), threads, nil)
				if err != nil {
					t.Fatal(err)
				}
				ldy := (n + Unit - 1) / Unit * Unit
				results[i] = make([]float32, (T+7)/8*8*ldy)
				m.Mul(results[i], ldy, randomBatch(r, T, k), 0, n, &Scratch{})
			}
			hasAMX = true
			if !slices.Equal(results[0], results[1]) {
				t.Errorf("%v %v: products differ from those without tiles", typ, shape)
			}
		}
	}
}

// run starts this test again as a tracee and emulates the instructions that
// trap. One thread makes all ptrace calls.
func (u *amxUnit) run(t *testing.T) (out string, status syscall.WaitStatus, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	env := append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "MM_CPU=") }), "MM_EMULATED_AMX=1")
	child, err := syscall.ForkExec(os.Args[0], []string{os.Args[0], "-test.run=^TestAMX$", "-test.count=1", "-test.v"}, &syscall.ProcAttr{
		Env: env, Files: []uintptr{file.Fd(), file.Fd(), file.Fd()},
		Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		t.Skip("skipped: ptrace:", err)
	}
	defer syscall.Kill(child, syscall.SIGKILL) // if it is still running
	if _, err := syscall.Wait4(child, &status, 0, nil); err != nil {
		return "", status, err
	}
	if err := unix.PtraceSetOptions(child, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		t.Skip("skipped: ptrace:", err)
	}
	if u.mem, err = os.OpenFile("/proc/"+strconv.Itoa(child)+"/mem", os.O_RDWR, 0); err != nil {
		t.Skip("skipped:", err)
	}
	defer u.mem.Close()
	if err := unix.PtraceCont(child, 0); err != nil {
		return "", status, err
	}
	for {
		tid, err := syscall.Wait4(-1, &status, unix.WALL, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return "", status, err
		}
		if tid == child && !status.Stopped() {
			break
		}
		if !status.Stopped() {
			continue // a thread ended
		}
		signal := int(status.StopSignal())
		switch {
		case signal == int(unix.SIGILL):
			done, err := u.step(tid)
			if err != nil {
				return "", status, err
			}
			if done {
				signal = 0
			}
		case signal == int(unix.SIGTRAP), signal == int(unix.SIGSTOP): // a thread started
			signal = 0
		}
		if err := unix.PtraceCont(tid, signal); err != nil && err != unix.ESRCH {
			return "", status, err
		}
	}
	b, err := os.ReadFile(file.Name())
	return string(b), status, err
}
