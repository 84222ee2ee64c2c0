package enginestest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker"
)

// Hostile is how many damaged files a test tries: MM_HOSTILE, or a few.
func Hostile(t testing.TB) int {
	t.Helper()
	text := os.Getenv("MM_HOSTILE")
	if text == "" {
		return 16
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("MM_HOSTILE=%q is no number", text)
	}
	return n
}

// patience is how long one file may take: far more than a small model needs,
// and than the worker gives a child that has hung.
const patience = 30 * time.Second

// Damaged has use try n copies of a file, each damaged in another way, and
// logs what came of them. It fails the test if one takes too long; a crash of
// the test's own process needs no asking for.
func Damaged(t *testing.T, file string, n int, use func(ctx context.Context, path string) error) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	path := filepath.Join(t.TempDir(), filepath.Base(file))
	for i := range n {
		if err := fsx.WriteFile(path, damage(data, uint64(i)), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		begin := time.Now()
		err := use(ctx, path)
		if ctx.Err() != nil {
			t.Errorf("file %d took %v: %v", i, time.Since(begin), err)
		}
		cancel()
		switch {
		case err == nil:
			count["ran"]++
		case errors.Is(err, worker.ErrDied):
			count["ended the child"]++
			t.Logf("file %d: %v", i, err)
		case strings.Contains(err.Error(), "checking "):
			count["refused by mm"]++
		default:
			count["refused by the library"]++
		}
	}
	t.Logf("%s: %d damaged files: %d refused by mm, %d by the library, %d ran, %d ended the child",
		filepath.Base(file), n, count["refused by mm"], count["refused by the library"], count["ran"], count["ended the child"])
}

// damage changes a copy of data: bits and bytes, more often near the
// beginning, numbers that become large, pieces cut out, doubled or moved.
func damage(data []byte, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 4711))
	out := append([]byte(nil), data...)
	for range 1 + rng.IntN(3) {
		top := len(out)
		if rng.IntN(4) > 0 {
			top = min(top, 4096)
		}
		if top < 16 {
			break
		}
		at := rng.IntN(top - 8)
		switch rng.IntN(6) {
		case 0:
			out[at] ^= 1 << rng.IntN(8)
		case 1:
			out[at] = byte(rng.Uint32())
		case 2:
			for j := range 4 {
				out[at+j] = []byte{0xFF, 0x00, 0x7F}[rng.IntN(3)]
			}
		case 3:
			out = out[:at+rng.IntN(len(out)-at)]
		case 4:
			n := min(64, len(out)-at)
			out = append(out[:at:at], append(append([]byte(nil), out[at:at+n]...), out[at:]...)...)
		case 5:
			copy(out[at:], out[rng.IntN(len(out)-8):][:8])
		}
	}
	return out
}

// Children are the processes that this one has started (Linux).
func Children(t testing.TB) []int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	if err != nil || len(tasks) == 0 {
		t.Skip("skipped: this system does not list a process's children")
	}
	var all []int
	for _, file := range tasks {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}

// Begin opens a language model and has it read a prompt.
func Begin(ctx context.Context, e runtimes.Engine, b runtimes.Bundle, prompt []int32) (runtimes.Model, runtimes.Sequence, error) {
	m, err := e.Open(ctx, b, runtimes.Limits{Threads: 1})
	if err != nil {
		return nil, nil, err
	}
	s, err := m.(runtimes.Language).NewSequence(ctx, runtimes.SequenceOptions{Context: 128})
	if err == nil {
		err = s.Feed(ctx, runtimes.Positions{Tokens: prompt})
	}
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	return m, s, nil
}

// Hearing is how long an engine may take to hear that its caller has gone, on
// a machine that has other things to do as well.
const Hearing = 50 * time.Millisecond
