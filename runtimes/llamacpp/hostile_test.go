//go:build unix

package llamacpp_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/engines/enginestest"
	"mm-abi.org/mm/runtimes/llamacpp"
	"mm-abi.org/mm/runtimes/worker"
)

func TestDamagedFiles(t *testing.T) {
	e := llamacpp.Engine{Home: enginestest.Home(t, engines.LlamaCPP)}
	dir := t.TempDir()
	if err := seed.Write(filepath.Join(dir, "s"), seed.Options{Type: abi.Core, Name: "s", Seed: 3, DModel: 32}); err != nil {
		t.Fatal(err)
	}
	enginestest.Damaged(t, filepath.Join(dir, "s", "s.gguf"), enginestest.Hostile(t), func(ctx context.Context, path string) error {
		m, s, err := enginestest.Begin(ctx, e, bundle(path), prompt)
		if err != nil {
			return err
		}
		defer m.Close()
		_, err = s.Generate(ctx, runtimes.Generation{MaxTokens: 4}, func(int32) error { return nil })
		return err
	})
}

// Whatever ends or stops the child in the middle of a text, mm is told, and
// goes on with the next call.
func TestStruckChild(t *testing.T) {
	e := llamacpp.Engine{Home: enginestest.Home(t, engines.LlamaCPP)}
	want, _ := say(t, e, coreModule(t), runtimes.Generation{MaxTokens: 20})
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "aborted": syscall.SIGABRT, "faulted": syscall.SIGSEGV, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			m, s, err := enginestest.Begin(t.Context(), e, coreModule(t), prompt)
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
					for _, pid := range enginestest.Children(t) {
						syscall.Kill(pid, signal)
					}
				}
				return nil
			})
			took := time.Since(begin)
			if !errors.Is(err, worker.ErrDied) && !errors.Is(err, context.DeadlineExceeded) && len(ids) < 100 || took > 10*time.Second {
				t.Fatalf("%d tokens, %v, after %v", len(ids), err, took)
			}
			if err := s.Truncate(len(prompt)); err != nil {
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
