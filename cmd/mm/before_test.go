package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
)

// unpack lays out testdata/before.tar.gz, which an earlier mm made (before
// the grammar of names, the journal and aliases): a home with trust file, log
// and store, and a project with mm.yaml, lock, output folder and a pushed
// layout. The private key is left out.
func unpack(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "before.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			path := filepath.Join(dir, filepath.FromSlash(h.Name))
			switch h.Typeflag {
			case tar.TypeDir:
				err = os.MkdirAll(path, 0o755)
			case tar.TypeLink:
				err = os.Link(filepath.Join(dir, filepath.FromSlash(h.Linkname)), path)
			default:
				var data []byte
				if data, err = io.ReadAll(r); err == nil {
					err = os.WriteFile(path, data, os.FileMode(h.Mode).Perm())
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What an older mm left is used as it lies, or refused with a way out that
// leads out; the lock stays as it is.
func TestBefore(t *testing.T) {
	dir := t.TempDir()
	unpack(t, dir)
	t.Chdir(filepath.Join(dir, "work"))
	t.Setenv("MM_HOME", filepath.Join(dir, "home"))
	t.Setenv("MM_KEY_PASSWORD", "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	lock, err := os.ReadFile("builds/tiny.lock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args string
		code int
		says string
	}{
		{"ls", exitOK, "mine/other:1.0.0"},
		{"fsck", exitOK, "6 tags"},
		{"audit verify", diag.ExitInvalid, "older versions wrote none"},
		{"trust ls", exitOK, "**"},
		{"verify tiny:0.1.0", exitOK, "released by key mm"},
		{"verify tiny:kept", exitOK, "released by key mm"},
		{"verify core-llm:3.1.0", exitOK, "released by key mm"},
		{"verify dist", exitOK, "released by key mm"},
		{"verify dist/laptop", exitOK, "released by key mm"},
		{"verify mirror", exitOK, "released by key mm"},
		{"run tiny:0.1.0 --target laptop --prompt a --max-tokens 2", exitOK, "2 generated"},
		{"run dist/phone --prompt a --max-tokens 2", exitOK, "2 generated"},
		{"inspect dist", exitOK, "target phone"},
		{"validate .", exitOK, "0 errors"},
		{"lock builds/tiny.graph.yaml --check", exitOK, ""},
		{"push tiny:0.1.0 oci:again", exitOK, "oci:again"},
		{"pull oci:mirror:0.1.0 --layout here", exitOK, "tiny:0.1.0@"},
		{"pull oci:mirror", exitOK, "tiny:0.1.0@"},

		// A name that nothing vouches for, from before aliases.
		{"run mine/other:1.0.0 --prompt a", diag.ExitRefused, "mm tag mine/other:1.0.0 mine/other:1.0.0 --alias"},
		{"tag mine/other:1.0.0 mine/other:1.0.0 --alias", exitOK, ""},
		{"verify mine/other:1.0.0", exitOK, "released by key mm"},

		// Built anew the version has other bytes, and does not move by itself.
		{"keys generate --name second", exitOK, "second.pub"},
		{"assemble builds/tiny.graph.yaml --out dist --locked --sign ../home/keys/second.key", diag.ExitInvalid, "MM0704"},
		{"verify dist/laptop", exitOK, "released by key mm"},
		{"assemble builds/tiny.graph.yaml --out dist --locked --sign ../home/keys/second.key --force", exitOK, "tiny:0.1.0 sha256:"},
		{"verify dist", exitOK, "released by key second"},
		{"verify dist/laptop", exitOK, "released by key second"},
		{"verify tiny:kept", exitOK, "released by key mm"},
		{"tag tiny:kept tiny:0.1.0", diag.ExitInvalid, "MM0704"},
		{"gc --grace 0s", exitOK, "removed"},
		{"fsck", exitOK, "6 tags"},
		{"verify tiny:kept", exitOK, "released by key mm"},
		{"rm tiny:kept mine/other:1.0.0", exitOK, ""},
		{"gc --grace 0s", exitOK, "removed"},
		{"verify tiny:0.1.0", exitOK, "released by key second"},
	} {
		stdout, stderr, code := mm(t, strings.Fields(step.args)...)
		if code != step.code || !strings.Contains(stdout+stderr, step.says) {
			t.Errorf("mm %s: exit %d, want %d with %q:\n%s%s", step.args, code, step.code, step.says, stdout, stderr)
		}
	}
	if now, err := os.ReadFile("builds/tiny.lock.yaml"); err != nil || string(now) != string(lock) {
		t.Errorf("the lock changed: %v\n%s", err, now)
	}
}
