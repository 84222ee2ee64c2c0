//go:build linux

package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
)

// library compiles C into a shared library.
func library(t *testing.T, path, code string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("skipped: no C compiler")
	}
	source := path + ".c"
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", path, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Remove(source); err != nil {
		t.Fatal(err)
	}
}

// The entry point of ONNX Runtime, with a version.
const ortBase = `
struct base { void *(*api)(unsigned); const char *(*version)(void); };
static void *api(unsigned v) { return 0; }
static const char *version(void) { return VERSION; }
static struct base b = { api, version };
const struct base *OrtGetApiBase(void) { return &b; }
`

// The part of llama.cpp that is checked before its structures.
const llamaBase = `
const char *llama_version(void) { return VERSION; }
struct big { char b[SIZE]; };
struct big llama_model_default_params(void) { struct big b; __builtin_memset(&b, 1, sizeof b); return b; }
struct big llama_context_default_params(void) { struct big b; __builtin_memset(&b, 1, sizeof b); return b; }
`

// An unexpected library is refused or ends mm-native; mm reports its last lines, and its output on
// standard output does no harm.
func TestInvalidLibraries(t *testing.T) {
	program := runtimetest.Program(t)
	for name, c := range map[string]struct {
		engine string
		files  map[string]string
		want   string
	}{
		"nothing there":      {"onnxruntime", nil, "got 0 files"},
		"no library":         {"onnxruntime", map[string]string{"libonnxruntime.so.1": ""}, "loading"},
		"aborts":             {"onnxruntime", map[string]string{"libonnxruntime.so.1": `#include <stdio.h>` + "\n" + `#include <stdlib.h>` + "\n" + `__attribute__((constructor)) void f(void) { fprintf(stderr, "assertion failed: the moon is full\n"); abort(); }`}, "the moon is full"},
		"exits":              {"onnxruntime", map[string]string{"libonnxruntime.so.1": `#include <stdlib.h>` + "\n" + `__attribute__((constructor)) void f(void) { exit(0); }`}, "the engine's process ended"},
		"prints, and is old": {"onnxruntime", map[string]string{"libonnxruntime.so.1": `#include <stdio.h>` + "\n" + `__attribute__((constructor)) void f(void) { printf("MMW1 welcome\n"); fflush(stdout); }` + strings.ReplaceAll(ortBase, "VERSION", `"1.9.0"`)}, "unsupported version 1.9.0"},
		"no such table":      {"onnxruntime", map[string]string{"libonnxruntime.so.1": strings.ReplaceAll(ortBase, "VERSION", `"1.30.0"`)}, "missing version 30"},
		"no version":         {"onnxruntime", map[string]string{"libonnxruntime.so.1": strings.ReplaceAll(ortBase, "VERSION", `0`)}, `unsupported version ""`},
		"no function":        {"onnxruntime", map[string]string{"libonnxruntime.so.1": "int other;"}, "missing function OrtGetApiBase"},
		"two libraries":      {"onnxruntime", map[string]string{"libonnxruntime.so.1": "int a;", "libonnxruntime.so.1.30.0": "int a;"}, "got 2 files"},
		"llama of old":       {"llamacpp", llama("int other;"), "older than 0.5"},
		"llama of tomorrow":  {"llamacpp", llama(strings.NewReplacer("VERSION", `"7.1.0"`, "SIZE", "80").Replace(llamaBase)), "unsupported version 7.1.0"},
		"other structures":   {"llamacpp", llama(strings.NewReplacer("VERSION", `"0.5.0"`, "SIZE", "88").Replace(llamaBase)), "does not match its version"},
		"other defaults":     {"llamacpp", llama(strings.NewReplacer("VERSION", `"0.5.0"`, "SIZE", "80").Replace(llamaBase)), "does not match its version"},
		"an unknown engine":  {"abacus", nil, "unknown engine"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, code := range c.files {
				if code == "" {
					if err := os.WriteFile(filepath.Join(dir, file), []byte("no library"), 0o600); err != nil {
						t.Fatal(err)
					}
					continue
				}
				library(t, filepath.Join(dir, file), code)
			}
			_, err := worker.Probe(t.Context(), worker.Options{Program: program, Args: []string{c.engine, dir}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
	// dlopen of nothing would open the program itself.
	_, err := worker.Probe(t.Context(), worker.Options{Program: program, Args: []string{"onnxruntime", ""}})
	if !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("no folder: %v", err)
	}
}

func llama(code string) map[string]string {
	return map[string]string{"libggml-base.so": "int base;", "libggml.so": "int ggml;", "libllama.so": code}
}

// A process that aborts leaves no core file behind.
func TestNoCoreDump(t *testing.T) {
	program, dir := runtimetest.Program(t), t.TempDir()
	library(t, filepath.Join(dir, "libonnxruntime.so.1"), `#include <stdio.h>
#include <sys/resource.h>
__attribute__((constructor)) void f(void) { struct rlimit r; getrlimit(RLIMIT_CORE, &r); fprintf(stderr, "core files of %ld bytes\n", (long)r.rlim_max); __builtin_trap(); }`)
	_, err := worker.Probe(t.Context(), worker.Options{Program: program, Args: []string{"onnxruntime", dir}})
	if !errors.Is(err, worker.ErrDied) || !strings.Contains(err.Error(), "core files of 0 bytes") {
		t.Error(err)
	}
}
