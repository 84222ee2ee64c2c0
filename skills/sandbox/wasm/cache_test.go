package wasm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A cache that cannot be created is one in memory, with one warning.
func TestCacheInMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	e, err := New(t.Context(), Options{Cache: filepath.Join(file, "skills"), Warn: func(err error) { warnings = append(warnings, err.Error()) }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if len(warnings) != 1 || !strings.Contains(warnings[0], "in memory") {
		t.Errorf("warnings %q", warnings)
	}
	if e, err := New(t.Context(), Options{Cache: filepath.Join(t.TempDir(), "c"), Warn: func(err error) { t.Error(err) }}); err != nil {
		t.Error(err)
	} else {
		e.Close()
	}
}
