package home

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMaxRecords(t *testing.T) {
	for more, want := range []bool{true, false} {
		dir := t.TempDir()
		text := "{}" + strings.Repeat(" ", maxRecords-2+more)
		if err := os.WriteFile(filepath.Join(dir, "r.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRecords[string](dir, "r.json"); (err == nil) != want {
			t.Errorf("maxRecords+%d: %v", more, err)
		}
	}
	if r, err := ReadRecords[string](t.TempDir(), "none.json"); err != nil || len(r) != 0 {
		t.Errorf("a missing file: %v, %v", r, err)
	}
}
