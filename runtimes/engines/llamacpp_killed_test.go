//go:build unix

package engines_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
	"mm-abi.org/mm/runtimes/worker"
)

// An engine that is killed at any moment ends at most the running call, and the sequence continues in
// another child with the same text.
func TestKilledAtAnyMoment(t *testing.T) {
	e := engines.LlamaCPP{Home: runtimetest.Home(t, native.LlamaCPP)}
	want, _ := llamaSay(t, e, coreModule(t), runtimes.Generation{MaxTokens: 60})
	m, s, err := runtimetest.Begin(t.Context(), e, coreModule(t), llamaPrompt)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	if _, err := s.Generate(t.Context(), runtimes.Generation{MaxTokens: 60}, func(int32) error { return nil }); err != nil {
		t.Fatal(err)
	}
	duration := time.Since(began)
	const kills = 50
	ended := 0
	for i := range kills {
		if err := s.Truncate(len(llamaPrompt)); err != nil {
			t.Fatal(err)
		}
		var killing sync.WaitGroup
		after := time.Duration(rng.Int64N(int64(duration)))
		killing.Go(func() {
			time.Sleep(after)
			for _, pid := range runtimetest.Children(t) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		var ids []int32
		_, err := s.Generate(ctx, runtimes.Generation{MaxTokens: 60}, func(id int32) error { ids = append(ids, id); return nil })
		killing.Wait()
		cancel()
		if err != nil && !errors.Is(err, worker.ErrDied) || err == nil && len(ids) != len(want) || !slices.Equal(ids, want[:min(len(ids), len(want))]) {
			t.Fatalf("kill %d after %v: %v behind %v, want %v", i, after, err, ids, want)
		}
		if err == nil {
			continue
		}
		ended++
		rest := 60 - len(ids)
		if rest == 0 {
			continue
		}
		if _, err := s.Generate(t.Context(), runtimes.Generation{MaxTokens: rest}, func(id int32) error { ids = append(ids, id); return nil }); err != nil || !slices.Equal(ids, want) {
			t.Fatalf("kill %d after %v: another child goes on with %v, %v; want %v", i, after, ids, err, want)
		}
	}
	t.Logf("%d kills: %d ended a call, %d came between two", kills, ended, kills-ended)
	if ended < kills/4 {
		t.Errorf("only %d of %d kills met a call", ended, kills)
	}
}
