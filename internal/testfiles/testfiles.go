// Package testfiles locates files that tests need and the repository does not contain: real
// data next to the checkout, and the sources and libraries of the engines that mm is
// compared with. Tests whose files are missing are skipped. [Jinja] renders templates with
// Python's Jinja.
package testfiles

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Root returns the root of the repository: the nearest parent folder with a go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = up
	}
}

// Shared returns the path of a file or folder in ../shared/data, next to the repository.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	data := filepath.Join(filepath.Dir(Root(t)), "shared", "data")
	path := filepath.Join(append([]string{data}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skip("skipped: no ../shared/data/" + filepath.ToSlash(filepath.Join(elem...)))
	}
	return path
}

// Native returns the path of a file or folder fetched by scripts/fetch-native.sh: in
// $MM_NATIVE_DIR, or in ../.native. In short mode it skips the test.
func Native(t testing.TB, elem ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: native engines in short mode")
	}
	dir := os.Getenv("MM_NATIVE_DIR")
	if dir == "" {
		dir = filepath.Join(filepath.Dir(Root(t)), ".native")
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skip("skipped: no " + path + " (scripts/fetch-native.sh fetches it; MM_NATIVE_DIR names the folder)")
	}
	return path
}

// Python returns the path of a Python with all of the packages: $MM_PYTHON, the one that
// scripts/fetch-native.sh installs, or python3.
func Python(t testing.TB, packages ...string) string {
	t.Helper()
	python := os.Getenv("MM_PYTHON")
	if python == "" {
		dir := os.Getenv("MM_NATIVE_DIR")
		if dir == "" {
			dir = filepath.Join(filepath.Dir(Root(t)), ".native")
		}
		python = filepath.Join(dir, "venv", "bin", "python")
		if _, err := os.Stat(python); err != nil {
			python = "python3"
		}
	}
	if err := exec.Command(python, "-c", "import "+strings.Join(packages, ", ")).Run(); err != nil {
		t.Skip("skipped: no Python with " + strings.Join(packages, " and ") + " (scripts/fetch-native.sh sets one up; MM_PYTHON names it)")
	}
	return python
}

// Models returns the path of a file or folder fetched by scripts/fetch-models.sh: in
// $MM_MODELS_DIR, or in ../.models.
func Models(t testing.TB, elem ...string) string {
	t.Helper()
	dir := os.Getenv("MM_MODELS_DIR")
	if dir == "" {
		dir = filepath.Join(filepath.Dir(Root(t)), ".models")
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skip("skipped: no " + path + " (scripts/fetch-models.sh fetches it; MM_MODELS_DIR names the folder)")
	}
	return path
}
