package wasm

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/skilltest"
)

func open(t testing.TB, opt Options) *Executor {
	t.Helper()
	e, err := New(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func program(code []byte) sandbox.Program {
	return sandbox.Program{Name: "guest", Code: code, Limits: modules.Effective{MemBytes: 4 << 20, TimeoutMS: 60_000, OutputBytes: 64 << 10}}
}

func commands(code ...[]byte) []byte {
	a := &asm{}
	a.export("_start", a.fn(":", 4, code...))
	return a.bytes()
}

// grow allocates memory page by page and traps when there is none left.
func grow() []byte {
	return commands(loop(i32(1), op(0x40, 0), i32(-1), op(0x46), when(op(0x00))))
}

func flood(fd int64) []byte {
	a := &asm{}
	w := a.wasi("fd_write", "iiii:i")
	a.export("_start", a.fn(":", 0, loop(write(w, fd, [2]int64{1024, 1000}))))
	return a.bytes()
}

func exits(code int64) []byte {
	a := &asm{}
	x := a.wasi("proc_exit", "i:")
	a.export("_start", a.fn(":", 0, i32(code), call(x)))
	return a.bytes()
}

// world writes what it can read of clock, randomness and environment.
func world() []byte {
	a := &asm{}
	w := a.wasi("fd_write", "iiii:i")
	now, random, env := a.wasi("clock_time_get", "iIi:i"), a.wasi("random_get", "ii:i"), a.wasi("environ_sizes_get", "ii:i")
	vars := a.wasi("environ_get", "ii:i")
	a.export("_start", a.fn(":", 0,
		i32(0), i64(1), i32(1024), call(now), op(0x1a), i32(1), i64(1), i32(1032), call(now), op(0x1a),
		i32(1040), i32(32), call(random), op(0x1a), i32(1072), i32(1076), call(env), op(0x1a), i32(1080), i32(2048), call(vars), op(0x1a),
		write(w, 1, [2]int64{1024, 4096})))
	return a.bytes()
}

const pathOpen = "iiiiiIIii:i"

// reads returns the text of /in/img0.
func reads() []byte {
	a := &asm{}
	o, r, w := a.wasi("path_open", pathOpen), a.wasi("fd_read", "iiii:i"), a.wasi("fd_write", "iiii:i")
	a.put(512, "img0")
	a.put(520, `{"text":"`)
	a.put(540, `"}`)
	a.export("_start", a.fn(":", 0,
		i32(3), i32(0), i32(512), i32(4), i32(0), i64(2), i64(0), i32(0), i32(32), call(o), when(op(0x00)),
		store(16, i32(2048)), store(20, i32(4096)), load(32), i32(16), i32(1), i32(40), call(r), when(op(0x00)),
		store(64, i32(520)), store(68, i32(9)), store(72, i32(2048)), store(76, load(40)), store(80, i32(540)), store(84, i32(2)),
		i32(1), i32(64), i32(3), i32(48), call(w), op(0x1a)))
	return a.bytes()
}

func TestSuite(t *testing.T) {
	for name, form := range map[string][]byte{"command": echo(), "reactor": reacts()} {
		t.Run(name, func(t *testing.T) {
			skilltest.Suite{
				Executor: open(t, Options{}),
				Programs: map[string]sandbox.Program{
					skilltest.Echo: program(form), skilltest.Loop: program(commands(loop())), skilltest.Hungry: program(grow()), skilltest.Flood: program(flood(1)),
					skilltest.Trap: program(commands(op(0x00))), skilltest.Exit: program(exits(3)), skilltest.World: program(world()), skilltest.Read: program(reads()),
				},
			}.Run(t)
		})
	}
}

// TestCache checks that compiled code is kept in a private folder and found by
// another executor, and that other folders are refused.
func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "compiled")
	p := program(echo())
	for range 2 {
		e, err := New(t.Context(), Options{Cache: dir})
		if err != nil {
			t.Fatal(err)
		}
		g, err := e.Prepare(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)}); err != nil || string(reply.Output) != `{"echo":{}}` {
			t.Errorf("%q, %v", reply.Output, err)
		}
		if err := errors.Join(g.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if info, err := d.Info(); err == nil && !d.IsDir() {
			files++
		} else if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return err
	})
	if err != nil || files != 1 {
		t.Errorf("%d files, %v", files, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if e, err := New(t.Context(), Options{Cache: dir}); sandbox.KindOf(err) != sandbox.Refused {
		t.Errorf("a folder that others can read: %v", err)
		e.Close()
	}
}

// TestAllowRead checks that allow.read paths are readable, that links do not
// lead out of them, and that a pipe does not block.
func TestAllowRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"in/img0": "allowed", "out": "not allowed"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../out", filepath.Join(dir, "in", "link")); err != nil {
		t.Skip(err)
	}
	e := open(t, Options{})
	p := program(reads())
	p.Allow.Read = []string{filepath.Join(dir, "in")}
	shown := func(name string) (string, error) {
		p.Code = bytes.Replace(reads(), text("img0"), append(leb(4), (name + "\x00\x00\x00")[:4]...), 1)
		g, err := e.Prepare(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
		return string(reply.Output), err
	}
	if got, err := shown("img0"); err != nil || got != `{"text":"allowed"}` {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := shown("link"); sandbox.KindOf(err) != sandbox.Trap || strings.Contains(got, "allowed") {
		t.Errorf("a link out of the folder: %q, %v", got, err)
	}
	for _, path := range []string{"in", "/", filepath.Join(dir, "none"), dir + "/../" + filepath.Base(dir)} {
		p.Allow.Read = []string{path}
		if _, err := e.Prepare(t.Context(), p); sandbox.KindOf(err) != sandbox.Refused {
			t.Errorf("allow.read %s: %v", path, err)
		}
	}
}

// TestAllow checks variables, the clock and random bytes.
func TestAllow(t *testing.T) {
	t.Setenv("MM_GIVEN", "hello")
	t.Setenv("MM_KEPT", "sesame")
	e := open(t, Options{})
	p := program(world())
	p.Allow = modules.Allow{Clock: true, Random: true, Env: []string{"MM_GIVEN", "MM_ABSENT"}}
	g, err := e.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var got [2][]byte
	for i := range got {
		reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		got[i] = reply.Output
	}
	if bytes.Equal(got[0][:8], got[1][:8]) || bytes.Equal(got[0][16:48], got[1][16:48]) {
		t.Error("clock or random bytes repeat")
	}
	if !bytes.Contains(got[0], []byte("MM_GIVEN=hello")) || bytes.Contains(got[0], []byte("sesame")) {
		t.Errorf("variables: %q", got[0])
	}
}

// TestSleepEnds checks that a sleep ends with its call.
func TestSleepEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() { sleep(ctx, int64(time.Hour)); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("still sleeping")
	}
}

// fetcher answers for example.org.
type fetcher struct{ requests []string }

func (f *fetcher) Fetch(_ context.Context, hosts []string, url string, limit int64) ([]byte, error) {
	f.requests = append(f.requests, strings.Join(hosts, ",")+" "+url)
	if !slices.Contains(hosts, "example.org") {
		return nil, errors.New("no")
	}
	return []byte(strings.Repeat("x", int(min(limit, 20)))), nil
}

func fetches(capacity int64) []byte {
	a := &asm{}
	w, f := a.wasi("fd_write", "iiii:i"), a.imp("mm", "fetch", "iiii:i")
	a.put(512, "https://example.org/a")
	a.export("_start", a.fn(":", 0, store(32, cat(i32(512), i32(21), i32(1024), i32(capacity), call(f))), write(w, 1, [2]int64{32, 4}, [2]int64{1024, 20})))
	return a.bytes()
}

// TestFetch checks that a guest reaches only the hosts of its skill.
func TestFetch(t *testing.T) {
	f := &fetcher{}
	e := open(t, Options{Fetcher: f})
	p := program(fetches(100))
	if _, err := e.Prepare(t.Context(), p); sandbox.KindOf(err) != sandbox.Refused {
		t.Errorf("without a host: %v", err)
	}
	p.Allow.Network = []string{"example.org"}
	for capacity, want := range map[int64]string{100: "\x14\x00\x00\x00xxxx", 10: "\xfe\xff\xff\xff\x00\x00\x00\x00", 1 << 20: "\xff\xff\xff\xff\x00\x00\x00\x00"} {
		p.Code = fetches(capacity)
		g, err := e.Prepare(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
		if err != nil || !strings.HasPrefix(string(reply.Output), want) {
			t.Errorf("room for %d: %q, %v", capacity, reply.Output, err)
		}
		g.Close()
	}
	if len(f.requests) != 2 || f.requests[0] != "example.org https://example.org/a" {
		t.Errorf("requested %q", f.requests)
	}
}
