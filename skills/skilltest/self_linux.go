//go:build amd64 || arm64

package skilltest

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// NativeSelf returns the calling test's program, statically linked so that it
// runs as a guest in an empty root. If the test program is dynamically linked,
// which is Go's default with a C compiler installed, NativeSelf builds it
// again without cgo, once a test run, and skips the test if there is no go
// command.
func NativeSelf(t testing.TB) []byte {
	t.Helper()
	if path := os.Getenv(NativeSelfEnv); path != "" {
		return readFile(t, path)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return readFile(t, path)
	}
	code, err := rebuild()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("skipped: this test program is dynamically linked and cannot be built without cgo: %v", err)
	}
	if err != nil {
		t.Fatal("building this test program without cgo: ", err)
	}
	return code
}

// NativeSelfEnv names a variable with the path of the guest program, for tests
// that start themselves.
const NativeSelfEnv = "MM_TEST_SELF"

var rebuild = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "mm-guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "guest")
	cmd := exec.Command("go", "test", "-c", "-race=false", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return code
}
