//go:build unix

package engines_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
)

// Damaged models cause at most an error in every engine.
func TestLlamaCPPDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	if err := seed.Write(filepath.Join(dir, "s"), seed.Options{Type: abi.Core, Name: "s", Seed: 3, DModel: 32}); err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(dir, "s", "s.gguf")}
	for _, name := range []string{"core-llm", "draft-llm"} {
		files = append(files, filepath.Join(testfiles.Root(t), "catalog", name, name+".gguf"))
	}
	use := func(e runtimes.Engine) func(ctx context.Context, _, path string) error {
		return func(ctx context.Context, _, path string) error {
			m, s, err := runtimetest.Begin(ctx, e, llamaBundle(path), llamaPrompt)
			if err != nil {
				return err
			}
			defer m.Close()
			_, err = s.Generate(ctx, runtimes.Generation{MaxTokens: 4}, func(int32) error { return nil })
			return err
		}
	}
	check := func(path string) error {
		f, err := gguf.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = infer.CheckFile(f)
		return err
	}
	runtimetest.Damaged(t, runtimetest.Hostile(t), files, runtimetest.Damage, check,
		runtimetest.Trial{Name: "core", Use: use(engines.Core{})},
		runtimetest.Trial{Name: "llamacpp", Use: use(engines.LlamaCPP{Home: runtimetest.Home(t, native.LlamaCPP)})})
}

// If the child ends or stops during a generation, mm reports it and continues with the next call.
func TestStruckChild(t *testing.T) {
	e := engines.LlamaCPP{Home: runtimetest.Home(t, native.LlamaCPP)}
	want, _ := llamaSay(t, e, coreModule(t), runtimes.Generation{MaxTokens: 20})
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "aborted": syscall.SIGABRT, "faulted": syscall.SIGSEGV, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			m, s, err := runtimetest.Begin(t.Context(), e, coreModule(t), llamaPrompt)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			begin := time.Now()
			var ids []int32
			_, err = s.Generate(ctx, runtimes.Generation{}, func(id int32) error {
				if ids = append(ids, id); len(ids) == 3 {
					for _, pid := range runtimetest.Children(t) {
						syscall.Kill(pid, signal)
					}
				}
				return nil
			})
			took := time.Since(begin)
			if !errors.Is(err, worker.ErrDied) && !errors.Is(err, context.DeadlineExceeded) && len(ids) < 100 || took > 10*time.Second {
				t.Fatalf("%d tokens, %v, after %v", len(ids), err, took)
			}
			if err := s.Truncate(len(llamaPrompt)); err != nil {
				t.Fatal(err)
			}
			ids = nil
			if _, err := s.Generate(t.Context(), runtimes.Generation{MaxTokens: 20}, func(id int32) error { ids = append(ids, id); return nil }); err != nil || !slices.Equal(ids, want) {
				t.Errorf("another child says %v (%v), want %v", ids, err, want)
			}
			t.Logf("noticed after %v, went on in another child", took.Round(time.Millisecond))
		})
	}
}
