//go:build amd64 || arm64

package process

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/skilltest"
)

// TestMain runs the tests, mm as the parent of a guest, or a guest, which acts
// by its name.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Command {
		Inner()
	}
	if len(os.Args) == 1 && skilltest.ActNative(os.Args[0]) {
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// needs holds the permissions that every native program needs.
var needs = modules.Allow{Clock: true, Random: true}

func program(act string, code []byte) sandbox.Program {
	// A Go program maps 64 MiB at its start, and more for its threads.
	return sandbox.Program{Name: act, Code: code, Limits: modules.Effective{MemBytes: 256 << 20, TimeoutMS: 60_000, OutputBytes: 64 << 10}, Allow: needs}
}

// open returns an executor, and skips the test on a machine that cannot run
// native programs.
func open(t testing.TB, code []byte) *Executor {
	t.Helper()
	e := New()
	g, err := e.Prepare(t.Context(), program(skilltest.Echo, code))
	if sandbox.KindOf(err) == sandbox.Refused {
		t.Skip("skipped: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	return e
}

func TestSuite(t *testing.T) {
	code := skilltest.NativeSelf(t)
	s := skilltest.Suite{Executor: open(t, code), Programs: map[string]sandbox.Program{}, Needs: needs}
	for _, act := range []string{skilltest.Echo, skilltest.Loop, skilltest.Hungry, skilltest.Flood, skilltest.Trap, skilltest.Exit, skilltest.World, skilltest.Read} {
		s.Programs[act] = program(act, code)
	}
	s.Run(t)
}

func TestCorpus(t *testing.T) {
	code := skilltest.NativeSelf(t)
	e := open(t, code)
	// A file that an escape could read, in a world-readable folder.
	dir, err := os.MkdirTemp("", "mm-corpus")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte(skilltest.Secret), 0o644)); err != nil {
		t.Fatal(err)
	}
	var list []skilltest.Hostile
	for _, h := range skilltest.Natives() {
		item := skilltest.Hostile{Name: h.Name, Program: program(h.Name, code), Ends: h.Ends}
		if h.Ends == nil {
			item.Ends, item.Answer = []sandbox.Kind{""}, `"no"`
		}
		list = append(list, item)
	}
	skilltest.Corpus(t, e, needs, list)
}

// TestNothingIsLeft checks that killed guests leave no process and no
// descriptor.
func TestNothingIsLeft(t *testing.T) {
	code := skilltest.NativeSelf(t)
	e := open(t, code)
	before := opened(t)
	p := program("threads", code)
	p.Limits.TimeoutMS = 300
	g, err := e.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)}); sandbox.KindOf(err) != sandbox.Time {
			t.Error(err)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if after := opened(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	out, err := exec.Command("ps", "--ppid", fmt.Sprint(os.Getpid()), "-o", "args=").Output()
	if err == nil && strings.Contains(string(out), "threads") {
		t.Errorf("children: %s", out)
	}
}

func opened(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

// TestGuestEndsWithMM checks that a guest ends with mm even if mm is killed.
func TestGuestEndsWithMM(t *testing.T) {
	if os.Getenv("MM_TEST_PARENT") != "" { // the parent that is killed
		e := New()
		g, err := e.Prepare(t.Context(), program(skilltest.Flood, skilltest.NativeSelf(t)))
		if err != nil {
			fmt.Println("prepare:", err)
			return
		}
		defer g.Close()
		p := program("holds", skilltest.NativeSelf(t))
		p.Limits.TimeoutMS = 60_000
		holds, err := e.Prepare(t.Context(), p)
		if err != nil {
			fmt.Println("prepare:", err)
			return
		}
		defer holds.Close()
		time.AfterFunc(2*time.Second, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		holds.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
		return
	}
	code := skilltest.NativeSelf(t)
	open(t, code)
	path := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(path, code, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestGuestEndsWithMM$")
	cmd.Env = append(os.Environ(), "MM_TEST_PARENT=1", skilltest.NativeSelfEnv+"="+path)
	pipe, err := cmd.StdoutPipe() // the guest does not inherit it, so EOF is the end of mm
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, pipe)
	cmd.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for running(t, "holds") {
		if time.Now().After(deadline) {
			t.Fatal("the guest is still running")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// running reports whether a process with argv[0] name exists.
func running(t *testing.T, name string) bool {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		if text, err := os.ReadFile(path); err == nil && string(text) == name+"\x00" {
			return true
		}
	}
	return false
}

// TestRefused covers code that is not a native program of this machine, a
// program without its loader, and permissions that cannot be kept.
func TestRefused(t *testing.T) {
	code := skilltest.NativeSelf(t)
	e := open(t, code)
	for name, change := range map[string]func(p *sandbox.Program){
		"no loader":     func(p *sandbox.Program) { p.Code = dynamic("/lib64/ld.so") },
		"other loader":  func(p *sandbox.Program) { p.Code, p.Allow.Read = dynamic("/usr2/ld.so"), []string{"/usr"} },
		"no clock":      func(p *sandbox.Program) { p.Allow.Clock = false },
		"no randomness": func(p *sandbox.Program) { p.Allow.Random = false },
		"a script":      func(p *sandbox.Program) { p.Code = []byte("#!/bin/sh\n") },
		"no program":    func(p *sandbox.Program) { p.Code = nil },
		"half":          func(p *sandbox.Program) { p.Code = code[:20] },
		"another":       func(p *sandbox.Program) { p.Code = append([]byte{}, code...); p.Code[18] = 0x08 },
		"all files":     func(p *sandbox.Program) { p.Allow.Read = []string{"/"} },
		"a relative":    func(p *sandbox.Program) { p.Allow.Read = []string{"etc"} },
		"an absent":     func(p *sandbox.Program) { p.Allow.Read = []string{"/none/such"} },
	} {
		p := program(skilltest.Echo, code)
		change(&p)
		if g, err := e.Prepare(t.Context(), p); sandbox.KindOf(err) != sandbox.Refused {
			t.Errorf("%s: %v", name, err)
			if g != nil {
				g.Close()
			}
		}
	}
	for loader, read := range map[string][]string{"/usr/ld.so": {"/usr"}, "/in/ld.so": nil} {
		if err := checkExecutable(dynamic(loader), read); err != nil {
			t.Errorf("loader %s, allow.read %v: %v", loader, read, err)
		}
	}
}

// dynamic returns the headers of a program of this machine with a loader.
func dynamic(loader string) []byte {
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	var b bytes.Buffer
	const start = 64 + 56
	for _, v := range []any{
		elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1},
		elf.Prog64{Type: uint32(elf.PT_INTERP), Off: start, Filesz: uint64(len(loader)) + 1}, append([]byte(loader), 0),
	} {
		binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

// TestAllow checks that a guest gets the permissions of allow and no others.
func TestAllow(t *testing.T) {
	code := skilltest.NativeSelf(t)
	e := open(t, code)
	dir, err := os.MkdirTemp("/tmp", "mm-allow")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte("allowed"), 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MM_DIR", dir)
	t.Setenv("MM_KEPT", "sesame")
	p := program("allowed", code)
	p.Allow = modules.Allow{Clock: true, Random: true, Env: []string{"MM_DIR"}, Read: []string{dir}}
	g, err := e.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
	if want := "allowed [MM_DIR=" + dir + "] open " + dir + "/new: read-only file system"; err != nil || string(reply.Output) != want {
		t.Errorf("got %q, %v, log %q, want %q", reply.Output, err, reply.Log, want)
	}
}

func TestWarm(t *testing.T) {
	code := skilltest.NativeSelf(t)
	skilltest.Warm(t, open(t, code), program(skilltest.Echo, code), "process")
}

// TestReadingLimit checks the limit of what Talk reads on either side.
func TestReadingLimit(t *testing.T) {
	for n, want := range map[int]int{5: 0, 6: 1} {
		from, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		fmt.Fprint(to, strings.Repeat("x", n))
		to.Close()
		full := 0
		_, err = io.ReadAll(&reading{File: from, left: 5, full: func() { full++ }, ended: new(atomic.Bool)})
		if full != want || (err == nil) != (want == 0) {
			t.Errorf("%d bytes: full %d times, %v", n, full, err)
		}
	}
}
