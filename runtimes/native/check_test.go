package native_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/native"
)

// An installed engine is not started, tried or listed as sound after a change to its
// folder, and is again once the change is undone.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"nothing":      {func(string) error { return nil }, ""},
		"empty folder": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "x"), 0o700) }, ""},
		"a byte":       {func(dir string) error { return os.WriteFile(filepath.Join(dir, "libllama.so"), []byte("Llama"), 0o600) }, "libllama.so: digest: got"},
		"a file below": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "sub/libb.so"), nil, 0o600) }, "libb.so: digest: got"},
		"longer": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "libllama.so"), []byte("llama "), 0o600)
		}, "libllama.so: digest: got"},
		"license":       {func(dir string) error { return os.WriteFile(filepath.Join(dir, "LICENSE"), nil, 0o600) }, "LICENSE: digest: got"},
		"one more":      {func(dir string) error { return os.WriteFile(filepath.Join(dir, "libggml-cpu-x.so"), nil, 0o600) }, "libggml-cpu-x.so: not a file of this engine"},
		"one more sub":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "sub/libc.so"), nil, 0o600) }, "libc.so: not a file of this engine"},
		"hidden":        {func(dir string) error { return os.WriteFile(filepath.Join(dir, ".x"), nil, 0o600) }, ".x: not a file of this engine"},
		"unknown link":  {func(dir string) error { return os.Symlink("libllama.so", filepath.Join(dir, "libllama.so.1")) }, "libllama.so.1: not a file"},
		"linked folder": {func(dir string) error { return os.Symlink(".", filepath.Join(dir, "more")) }, "more: not a file of this engine"},
		"gone":          {func(dir string) error { return os.Remove(filepath.Join(dir, "libllama.so")) }, "libllama.so: missing"},
		"link": {func(dir string) error {
			path := filepath.Join(dir, "libllama.so")
			return errors.Join(os.Rename(path, filepath.Join(dir, "../away")), os.Symlink("../away", path))
		}, "libllama.so: not a regular file"},
	} {
		home := t.TempDir()
		dir := filepath.Join(home, "engines", "llamacpp", "9910.0.0")
		sum := func(text string) string { return digest.FromString(text).String() }
		record := `{"name":"llamacpp","version":"9910.0.0","files":{"libllama.so":"` + sum("llama") + `","LICENSE":"` + sum("MIT") + `","sub/libb.so":"` + sum("b") + `"}}`
		for file, text := range map[string]string{"engine.json": record, "libllama.so": "llama", "LICENSE": "MIT", "sub/libb.so": "b"} {
			path := filepath.Join(dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.change(dir); err != nil {
			t.Skip(err) // no links there
		}
		t.Setenv("MM_NATIVE", write(t, 0o700, home, "mm-native"))
		l := native.Libraries{Name: native.LlamaCPP, Home: func() (string, error) { return home, nil }}
		r, err := native.Installed(home, "llamacpp")
		if err != nil {
			t.Fatal(err)
		}
		_, started := l.Worker(t.Context(), 0)
		_, probed := l.Probe(t.Context())
		for what, err := range map[string]error{"check": r.Check(t.Context()), "start": started, "probe": probed, "try": native.Try(t.Context(), r)} {
			var changed *native.ChangedError
			switch ok := errors.As(err, &changed); {
			case ok != (c.want != ""):
				t.Errorf("%s, %s: %v, want %q", name, what, err, c.want)
			case ok && (!strings.Contains(err.Error(), c.want) || changed.Hint() == "" || errors.Is(err, runtimes.ErrUnavailable)):
				t.Errorf("%s, %s: %v, want %q", name, what, err, c.want)
			}
		}
	}
}
