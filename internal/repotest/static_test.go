package repotest_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build compiles a command for a system.
func build(t *testing.T, system, machine, command string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/"+command)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s for %s/%s: %v\n%s", command, system, machine, err, out)
	}
	return path
}

// Without cgo, mm is a static program on Linux and runs in an empty root.
func TestStaticProgram(t *testing.T) {
	if os.Getenv("MM_CHECK") == "" {
		t.Skip("skipped: builds three programs; make check runs it")
	}
	for _, machine := range []string{"amd64", "arm64"} {
		if why := dynamic(t, build(t, "linux", machine, "mm")); why != "" {
			t.Errorf("mm for linux/%s %s", machine, why)
		}
	}
	// What loads libraries is not static: the test would see it.
	if dynamic(t, build(t, "linux", "amd64", "mm-native")) == "" {
		t.Error("mm-native passes for a static program")
	}
}

// dynamic says what a program needs to start; nothing where it is static.
func dynamic(t *testing.T, path string) string {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var why []string
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			why = append(why, "has an interpreter")
		}
	}
	needed, err := f.ImportedLibraries()
	if err == nil && len(needed) > 0 {
		why = append(why, "needs "+strings.Join(needed, ", "))
	}
	return strings.Join(why, " and ")
}
