package skilltest

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"mm-abi.org/mm/skills/sandbox"
)

// targets holds the largest median time of a call for each kind of guest.
var targets = map[string]time.Duration{
	"builtin": 100 * time.Microsecond, "starlark": 200 * time.Microsecond, "C wasm": 100 * time.Microsecond,
	"python": 5 * time.Millisecond, "Go wasm": 15 * time.Millisecond, "process": 40 * time.Millisecond,
}

// Warm logs the median and the 95th percentile of 200 calls of a prepared
// guest. It is skipped unless MM_SANDBOX is set.
func Warm(t *testing.T, e sandbox.Executor, p sandbox.Program, name string) {
	if os.Getenv("MM_SANDBOX") == "" {
		t.Skip("timings need an idle machine: MM_SANDBOX=1")
	}
	start := time.Now()
	g, err := e.Prepare(t.Context(), p)
	if err != nil {
		t.Skip(err)
	}
	defer g.Close()
	ready := time.Since(start)
	const times = 200
	var took []time.Duration
	for range times {
		start := time.Now()
		if _, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{"a":1}`)}); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	aim := ""
	if most, ok := targets[name]; ok && took[times/2] <= most {
		aim = fmt.Sprintf(" (target %v: met)", most)
	} else if ok {
		aim = fmt.Sprintf(" (target %v: missed)", most)
	}
	t.Logf("warm: %s p50 %v%s, p95 %v of %d calls, made ready in %v", name, took[times/2], aim, took[times*95/100], times, ready.Round(time.Millisecond))
}
