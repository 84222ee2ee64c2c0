package runtimetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/runtimes/native"
)

// Program builds mm-native into a temporary folder and sets MM_NATIVE.
func Program(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mm-native")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	build := exec.Command("go", "build", "-o", path, "./cmd/mm-native")
	build.Dir = testfiles.Root(t)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building mm-native: %v\n%s", err, out)
	}
	t.Setenv("MM_NATIVE", path)
	return path
}

// Libraries returns the folder of an engine's libraries.
func Libraries(t testing.TB, name string) string {
	t.Helper()
	if name == native.LlamaCPP {
		if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
			t.Skip("skipped: llama.cpp's library is for linux/amd64")
		}
		return testfiles.Native(t, "lib", "bins", "linux-x64")
	}
	if dir := os.Getenv("MM_OPENVINO"); name == native.OpenVINO {
		if dir == "" {
			t.Skip("skipped: MM_OPENVINO is not set to the folder libs of the Python package openvino")
		}
		return dir
	}
	if wheel := os.Getenv("MM_LITERT"); name == native.LiteRT {
		if wheel == "" {
			t.Skip("skipped: MM_LITERT is not set to the wheel of the Python package ai-edge-litert")
		}
		return wheel
	}
	found, err := filepath.Glob(filepath.Join(testfiles.Native(t, "venv"), "lib", "python3*", "site-packages", "onnxruntime", "capi"))
	if err != nil || len(found) != 1 {
		t.Skip("skipped: the Python of scripts/fetch-native.sh has no onnxruntime")
	}
	return found[0]
}

// Home returns a home folder with an engine installed.
func Home(t testing.TB, name string) func() (string, error) {
	t.Helper()
	from := Libraries(t, name)
	Program(t)
	home := t.TempDir()
	if _, err := native.Install(t.Context(), native.Options{Home: home, Name: name, From: from}); err != nil {
		t.Fatal(err)
	}
	return sync.OnceValues(func() (string, error) { return home, nil })
}
