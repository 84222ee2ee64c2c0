//go:build linux

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// A run whose engine is killed in its middle ends with an error that says so;
// the next run works.
func TestRunWithAKilledEngine(t *testing.T) {
	home, err := runtimetest.Home(t, native.LlamaCPP)()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MM_HOME", home)
	model := filepath.Join(t.TempDir(), "core-llm.gguf")
	data, err := os.ReadFile(filepath.Join(testfiles.Root(t), "catalog", "core-llm", "core-llm.gguf"))
	if err == nil {
		err = os.WriteFile(model, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	mm := func(tokens string, stdout io.Writer) (int, string) {
		var stderr strings.Builder
		code := run(context.Background(), []string{"mm", "run", model, "--raw", "--backend", "llamacpp", "--prompt", "Once upon a time", "--max-tokens", tokens}, strings.NewReader(""), stdout, &stderr)
		return code, stderr.String()
	}
	var want, got strings.Builder
	if code, errs := mm("8", &want); code != exitOK || want.Len() == 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if code, errs := mm("100000", &killer{t: t, at: 5}); code != diag.ExitFailure || !strings.Contains(errs, "the engine's process ended: signal: killed") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, errs := mm("8", &got); code != exitOK || got.String() != want.String() {
		t.Errorf("the next run: exit %d, %q, want %q: %s", code, &got, &want, errs)
	}
}

// killer ends the processes that this one has started when a text has come so
// far.
type killer struct {
	t  *testing.T
	at int // writes
}

// Write implements io.Writer.
func (k *killer) Write(b []byte) (int, error) {
	if k.at--; k.at == 0 {
		for _, pid := range runtimetest.Children(k.t) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return len(b), nil
}
