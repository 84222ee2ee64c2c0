package fsx_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/fsx/fsxtest"
)

func open(t *testing.T, dir string, hook fsx.Hook) *fsx.Dir {
	t.Helper()
	d, err := fsx.Open(dir, fsx.Options{Hook: hook})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestWriteFileFaults makes each call of an atomic replacement fail, fail after half of the
// data, or be the last of the process: the file is the old or the new one.
func TestWriteFileFaults(t *testing.T) {
	before, after := []byte("before"), bytes.Repeat([]byte("after"), 1000)
	kinds := map[string]*fsxtest.Fault{
		"error":  {},
		"enospc": {Err: syscall.ENOSPC, Short: true},
		"crash":  {Crash: true, Short: true},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			points := fsxtest.Sweep(t, kind, func(t *testing.T, f *fsxtest.Fault) {
				dir := t.TempDir()
				if err := fsx.WriteFile(filepath.Join(dir, "f"), before, 0o644); err != nil {
					t.Fatal(err)
				}
				err := open(t, dir, f.Hook).WriteFile("f", after, 0o644)
				_, fired := f.Fired()
				if fired && err == nil {
					t.Error("fault not reported")
				}
				if kind.Err != nil && fired && !errors.Is(err, kind.Err) {
					t.Errorf("error %v hides %v", err, kind.Err)
				}
				got, readErr := os.ReadFile(filepath.Join(dir, "f"))
				if readErr != nil || !bytes.Equal(got, before) && !bytes.Equal(got, after) {
					t.Errorf("file is neither old nor new: %d bytes, %v", len(got), readErr)
				}
				if list := names(t, dir); !kind.Crash && len(list) != 1 {
					t.Errorf("temporary files: %v", list)
				}
			})
			t.Logf("%d points", points)
			if points < 5 {
				t.Errorf("only %d points: create, write, sync, close, rename and syncdir expected", points)
			}
		})
	}
}

// TestWriteFilePower simulates a power failure after each call that loses any part of what
// was not synced.
func TestWriteFilePower(t *testing.T) {
	dir := t.TempDir()
	if err := fsx.WriteFile(filepath.Join(dir, "f"), []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	rec, err := fsxtest.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, rec.Hook).WriteFile("f", []byte("after"), 0o644); err != nil {
		t.Fatal(err)
	}
	states := 0
	for n := 0; n <= rec.Len(); n++ {
		for _, lose := range rec.Losses(n, true, 8, 1) {
			dst := t.TempDir()
			if err := rec.Replay(dst, n, lose); err != nil {
				t.Fatal(err)
			}
			states++
			got, err := os.ReadFile(filepath.Join(dst, "f"))
			if err != nil || string(got) != "before" && string(got) != "after" {
				t.Errorf("cut after call %d: %q, %v", n, got, err)
			}
			if n == rec.Len() && string(got) != "after" {
				t.Errorf("lost after WriteFile returned: %q", got)
			}
		}
	}
	t.Logf("%d calls, %d states", rec.Len(), states)
}

// TestRecorderFindsMissingSync checks that the model detects a missing sync of the file or
// the folder.
func TestRecorderFindsMissingSync(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	rec, err := fsxtest.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, rec.Hook).WriteCache("f", []byte("after"), 0o644); err != nil {
		t.Fatal(err)
	}
	torn, old := false, false
	for _, lose := range rec.Losses(rec.Len(), true, 8, 1) {
		dst := t.TempDir()
		if err := rec.Replay(dst, rec.Len(), lose); err != nil {
			t.Fatal(err)
		}
		switch got, _ := os.ReadFile(filepath.Join(dst, "f")); string(got) {
		case "":
			torn = true
		case "before":
			old = true
		}
	}
	if !torn || !old {
		t.Errorf("torn file found %v, lost rename found %v; want both", torn, old)
	}
}

func TestNamesStayInside(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "in")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(top, filepath.Join(dir, "up")); err != nil {
		t.Skip("skipped: no symlinks here")
	}
	d := open(t, dir, nil)
	for _, name := range []string{"../x", "/x", "up/x"} {
		if err := d.WriteFile(name, []byte("x"), 0o644); err == nil {
			t.Errorf("%q accepted", name)
		}
		if err := d.MkdirAll(name, 0o755); err == nil {
			t.Errorf("%q accepted", name)
		}
	}
	if err := d.LinkFrom(filepath.Join(dir, "up"), "up/y"); err == nil {
		t.Error("link through a symlink accepted")
	}
	if list := names(t, top); len(list) != 1 {
		t.Errorf("outside: %v", list)
	}
}

func TestLinkOrCopy(t *testing.T) {
	top := t.TempDir()
	src := filepath.Join(top, "src")
	if err := os.WriteFile(src, []byte("bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	refuse := func(op *fsx.Op, do func() error) error {
		if op.Kind == fsx.OpLink {
			return syscall.EXDEV
		}
		return do()
	}
	for _, tc := range []struct {
		name string
		hook fsx.Hook
		want bool
	}{{"link", nil, true}, {"copy", refuse, false}} {
		d := open(t, top, tc.hook)
		linked, err := d.LinkOrCopy(src, tc.name, 0o444)
		if err != nil || linked != tc.want {
			t.Errorf("%s: linked %v, %v", tc.name, linked, err)
		}
		if got, err := os.ReadFile(filepath.Join(top, tc.name)); err != nil || string(got) != "bytes" {
			t.Errorf("%s: %q, %v", tc.name, got, err)
		}
		if _, err := d.LinkOrCopy(src, tc.name, 0o444); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s again: %v, want ErrExist", tc.name, err)
		}
	}
	if fi, _ := os.Stat(filepath.Join(top, "copy")); fi.Mode().Perm() != 0o444 {
		t.Errorf("copy has mode %v", fi.Mode())
	}
}

func TestLock(t *testing.T) {
	ctx := context.Background()
	d := open(t, t.TempDir(), nil)
	lock, err := d.Lock(ctx, "l")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.TryLock(ctx, "l"); !errors.Is(err, fsx.ErrLocked) {
		t.Errorf("second lock: %v, want ErrLocked", err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := d.Lock(short, "l"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting lock: %v", err)
	}
	lock.Unlock()
	a, err := d.RLock(ctx, "l")
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.RLock(ctx, "l")
	if err != nil {
		t.Fatal(err)
	}
	a.Unlock()
	if _, err := d.TryLock(ctx, "l"); !errors.Is(err, fsx.ErrLocked) {
		t.Errorf("exclusive beside shared: %v", err)
	}
	b.Unlock()
}

// TestLockRemoved has many goroutines take a lock whose file each holder removes: it has at
// most one holder.
func TestLockRemoved(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	var wg sync.WaitGroup
	var inside, total atomic.Int32
	for range 8 {
		wg.Go(func() {
			for range 50 {
				lock, err := d.Lock(context.Background(), "l")
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d holders", n)
				}
				total.Add(1)
				inside.Add(-1)
				lock.RemoveUnlock()
			}
		})
	}
	wg.Wait()
	if total.Load() != 400 {
		t.Errorf("%d turns of 400", total.Load())
	}
}

func TestCreateMakesParents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.MkdirAll("c/d", 0o755); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "c", "d")); err != nil || !fi.IsDir() {
		t.Error(err)
	}
}

func BenchmarkWriteThrough(b *testing.B) {
	d, err := fsx.Open(b.TempDir(), fsx.Options{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := d.Create("f", 0o644)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if _, err := f.Write(nil); err != nil {
			b.Fatal(err)
		}
	}
}

// Of concurrent Place calls one succeeds and writes the complete file; the others fail.
func TestPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "f")
	var placed, taken atomic.Int32
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			err := fsx.Place(path, 0o644, func(w io.Writer) error { _, err := w.Write(bytes.Repeat([]byte{byte('a' + i)}, 100)); return err })
			switch {
			case err == nil:
				placed.Add(1)
			case errors.Is(err, fs.ErrExist):
				taken.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if placed.Load() != 1 || taken.Load() != 7 {
		t.Errorf("%d succeeded, %d failed with ErrExist", placed.Load(), taken.Load())
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) != 100 || !bytes.Equal(b, bytes.Repeat(b[:1], 100)) {
		t.Errorf("%q, %v", b, err)
	}
	if err := fsx.Place(path, 0o644, func(io.Writer) error { return io.ErrShortWrite }); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
	if _, err := fsx.OpenPlain(filepath.Dir(path), "f"); err != nil {
		t.Errorf("a file with another name: %v", err)
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("%d files are left", len(list))
	}
}

// A failing write keeps the old file and leaves no other.
func TestReplaceKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := fsx.Replace(path, 0o644, func(w io.Writer) error { _, err := w.Write([]byte("old")); return err }); err != nil {
		t.Fatal(err)
	}
	if err := fsx.Replace(path, 0o644, func(w io.Writer) error { w.Write([]byte("half")); return io.ErrShortWrite }); err == nil {
		t.Error("no error")
	}
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("the file holds %q", b)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("%d files are left", len(list))
	}
}
