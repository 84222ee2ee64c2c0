package main

import (
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/diag"
)

// What the command line cannot mean ends with the code of usage errors and
// leaves no folder.
func TestModuleNewUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	for _, args := range [][]string{
		{"projector", "m", "--d-model", "-5"}, {"projector", "m", "--t-cap", "-1"}, {"projector", "m", "--d-model", "1048577"},
		{"encoder", "m", "--d-enc", "-1"}, {"encoder", "m", "--d-enc", "100000000"}, {"encoder", "m", "--license", "Foo"},
		{"decoder", "m", "--d-model", "-1"}, {"core", "m", "--d-model", "3"}, {"draft-core", "m", "--d-model", "-1"},
		{"kernel", "m"}, {"core", "../m"}, {"core", "m", "--version", "1"}, {"core"},
	} {
		if _, stderr, code := mm(t, append([]string{"module", "new", "--dir", dir}, args...)...); code != diag.ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder is left")
	}
}
