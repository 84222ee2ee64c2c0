package main

import (
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
)

// Each mutant of the list still applies to its function.
func TestList(t *testing.T) {
	t.Chdir(testfiles.Root(t))
	all, err := readList(filepath.Join("tools", "mutate", "mutants.txt"))
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	for _, m := range all {
		source, ok, err := m.apply()
		if original, _ := os.ReadFile(m.file); err != nil || !ok || string(source) == string(original) {
			t.Errorf("stale: %s (%v)", m.line(), err)
		}
	}
}
