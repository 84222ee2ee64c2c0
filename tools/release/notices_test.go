package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/notices"
)

// The embedded notices are those of the modules that go.mod pins.
func TestNotices(t *testing.T) {
	t.Chdir("../..")
	want, err := noticesText(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := notices.Text()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Error("internal/notices is out of date: go run ./tools/release -notices writes it")
	}
	for _, name := range []string{"Go standard library", "github.com/tetratelabs/wazero", "gopkg.in/yaml.v3", "Apache License", "Redistribution and use"} {
		if !strings.Contains(got, name) {
			t.Errorf("the notices do not contain %q", name)
		}
	}
}

// A module without a license cannot be linked, and a file above maxLegal is not a
// license.
func TestLegalTexts(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, n int) {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", 10)
	if _, err := legalTexts(dir); err == nil {
		t.Error("a module without a license passes")
	}
	write("LICENSE.txt", maxLegal)
	write("NOTICE", 3)
	if texts, err := legalTexts(dir); err != nil || len(texts) != 2 {
		t.Errorf("got %d texts, %v, want 2", len(texts), err)
	}
	write("COPYING", maxLegal+1)
	if _, err := legalTexts(dir); err == nil {
		t.Error("a license above maxLegal passes")
	}
}
