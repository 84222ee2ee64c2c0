package part

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// The first caller opens a function, once, and its set closes it for good.
func TestOpenedOnce(t *testing.T) {
	e := &runtimetest.Engine{Called: "first"}
	s := set(t, runtimetest.Build(t, false, "image-enc", "image-proj"), Options{Engines: []runtimes.Engine{e}})
	f := s.Function("image-enc")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := f.Open(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took, err := f.Open(t.Context()); took != 0 || err != nil || e.Opens.Load() != 1 {
		t.Errorf("opened %d times; again in %v, %v", e.Opens.Load(), took, err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil || e.Closes.Load() != 1 {
		t.Errorf("closed %d times, %v", e.Closes.Load(), err)
	}
	for _, name := range []string{"image-enc", "image-proj"} {
		if _, err := s.Function(name).Open(t.Context()); !errors.Is(err, runtimes.ErrClosed) {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
	if s.Function("image-decoder") != nil {
		t.Error("there is a function that the build has not")
	}
}

// A failed opening has a reason and a hint; a caller that waits for another's opening respects its
// context.
func TestNotOpened(t *testing.T) {
	broken := errors.New("the file is broken")
	for name, c := range map[string]struct {
		change func(*builds.Build)
		opt    Options
		want   string
		hint   string
	}{
		"no manifest":       {func(b *builds.Build) { b.Manifests["image-enc"] = nil }, Options{}, "missing module.yaml in the build", ""},
		"no file":           {func(b *builds.Build) { b.Assembly.Modalities[0].Encoder.Files = nil }, Options{}, "target laptop ships no file of it", "add it to the target's onnx list"},
		"broken":            {func(*builds.Build) {}, Options{}, "opening image-enc@1.0.0 with backend first: the file is broken", "--backend image-enc=second selects another"},
		"requested, broken": {func(*builds.Build) {}, Options{Backends: map[string]string{"image-enc": "first"}}, "the file is broken", ""},
		"broken, as the graph asks": {func(b *builds.Build) { b.Assembly.Modalities[0].Encoder.Backend = "first" }, Options{},
			"the file is broken", ""},
	} {
		b := runtimetest.Build(t, false, "image-enc")
		c.change(b)
		c.opt.Engines = []runtimes.Engine{&runtimetest.Engine{Called: "first", Broken: broken}, &runtimetest.Engine{Called: "none", Cannot: []string{"image-enc"}}, &runtimetest.Engine{Called: "second"}}
		_, err := set(t, b, c.opt).Function("image-enc").Open(t.Context())
		hint := ""
		switch h, u := interface{ Hint() string }(nil), (*runtimes.Unavailable)(nil); {
		case errors.As(err, &u):
			hint = u.Hint
		case errors.As(err, &h):
			hint = h.Hint()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || hint != c.hint {
			t.Errorf("%s: %v (%s), want %q (%s)", name, err, hint, c.want, c.hint)
		}
	}
	f := set(t, runtimetest.Build(t, false, "image-enc"), Options{}).Function("image-enc")
	if err := f.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err1 := f.Open(ctx)
	_, err2 := f.Backend(ctx)
	_, err3 := f.Identity(ctx)
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("behind one that opens: %v", err)
		}
	}
	f.leave()
	if name, err := f.Backend(t.Context()); name != "first" || err != nil {
		t.Errorf("runs on %s, %v", name, err)
	}
}

// The identity of a function changes with its file, manifest, engine and threads, and with nothing
// else.
func TestIdentity(t *testing.T) {
	identity := func(change func(*builds.Build), opt Options) []byte {
		b := runtimetest.Build(t, false, "image-enc")
		if change != nil {
			change(b)
		}
		f := set(t, b, opt).Function("image-enc")
		sum, err := f.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if again, err := f.Identity(t.Context()); err != nil || !bytes.Equal(again, sum) {
			t.Errorf("a second time it is another, %v", err)
		}
		return sum
	}
	one := identity(nil, Options{})
	if !bytes.Equal(one, identity(nil, Options{})) {
		t.Error("the same function is two")
	}
	for name, other := range map[string][]byte{
		"engine":   identity(nil, Options{Backends: map[string]string{"image-enc": "second"}}),
		"threads":  identity(nil, Options{Limits: runtimes.Limits{Threads: 1}}),
		"manifest": identity(func(b *builds.Build) { b.Manifests["image-enc"].Caps["window_ms"] = 4.0 }, Options{}),
		"file": identity(func(b *builds.Build) {
			path, err := b.Files.Path("image-enc.known")
			if err == nil {
				err = os.WriteFile(path, []byte("another"), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, Options{}),
	} {
		if bytes.Equal(one, other) {
			t.Errorf("another %s, the same function", name)
		}
	}
	b := runtimetest.Build(t, false, "image-enc")
	b.Assembly.Modalities[0].Encoder.Files["known"] = []string{"gone"}
	if _, err := set(t, b, Options{}).Function("image-enc").Identity(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
