// Package testfiles finds the files that tests read and the repository does
// not hold: real data beside the checkout, and the sources and libraries of
// the engines that mm is compared with. A test whose files are absent is
// skipped and says so.
package testfiles

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Root is the repository's root: the nearest folder above the test's package
// that holds go.mod.
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

// Shared is the path of a file or folder in ../shared/data, beside the
// repository.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	data := filepath.Join(filepath.Dir(Root(t)), "shared", "data")
	path := filepath.Join(append([]string{data}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skip("skipped: no ../shared/data/" + filepath.ToSlash(filepath.Join(elem...)))
	}
	return path
}

// Native is the path of a file or folder fetched by scripts/fetch-native.sh:
// in $MM_NATIVE_DIR, or in ../.native beside the repository.
func Native(t testing.TB, elem ...string) string {
	t.Helper()
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

// Python is the path of a Python that has all of the packages: $MM_PYTHON, the
// one that scripts/fetch-native.sh sets up, or python3.
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

// Models is the path of a file or folder fetched by scripts/fetch-models.sh:
// in $MM_MODELS_DIR, or in ../.models beside the repository.
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
