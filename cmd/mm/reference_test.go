package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/cmd/console"
)

var updateReference = flag.Bool("update", false, "rewrite docs/reference/commands.md")

// docs/reference/commands.md holds every command and flag.
func TestReference(t *testing.T) {
	const file = "../../docs/reference/commands.md"
	want := manual().Markdown((&program{}).app())
	if *updateReference {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reference/commands.md is out of date: go test ./cmd/mm -run TestReference -update writes it")
	}
}

// Each visible command has a manual page that man renders without a warning.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	app := (&program{}).app()
	if err := manual().WritePages(app, dir); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) != len(console.Visible(app.Commands))+1 {
		t.Fatalf("got %d pages, %v, want %d", len(pages), err, len(console.Visible(app.Commands))+1)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("skipped: no groff to render the pages")
	}
	for _, page := range pages {
		var warnings strings.Builder
		cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", page)
		cmd.Stderr = &warnings
		if _, err := cmd.Output(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v\n%s", page, err, warnings.String())
		}
	}
}
