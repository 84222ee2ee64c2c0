package runtimetest

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

// Hostile returns the number of damaged files to try: MM_HOSTILE, or a few.
func Hostile(t testing.TB) int {
	t.Helper()
	text := os.Getenv("MM_HOSTILE")
	if text == "" {
		return 16
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("MM_HOSTILE=%q is not a number", text)
	}
	return n
}

// fileTime bounds the time for one file: far more than a small model needs, and more than the
// worker gives a hung child.
const fileTime = 30 * time.Second

// Trial is an engine to try with damaged files.
type Trial struct {
	Name string
	Use  func(ctx context.Context, file, path string) error // with a damaged copy of file at path
}

// The outcomes of a damaged file.
const (
	ran     = "ran"
	refused = "refused"
	died    = "ended the child"
)

// Damaged passes n damaged copies of the files to check and to every engine, and logs the
// outcomes. It fails the test if one takes too long, or if an engine accepts a file that check
// refuses; a crash of the test process fails by itself.
func Damaged(t *testing.T, n int, files []string, damage func(data []byte, seed uint64) []byte, check func(path string) error, trials ...Trial) {
	t.Helper()
	var good [][]byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, data)
	}
	counts := make(map[string]map[string]int)
	count := func(who, what string) {
		if counts[who] == nil {
			counts[who] = make(map[string]int)
		}
		counts[who][what]++
	}
	dir := t.TempDir()
	for i := range n {
		file := files[i%len(files)]
		path := filepath.Join(dir, filepath.Base(file))
		if err := fsx.WriteFile(path, damage(good[i%len(files)], uint64(i)), 0o600); err != nil {
			t.Fatal(err)
		}
		sound := check(path)
		if sound == nil {
			count("mm's checks", "accepted")
		} else {
			count("mm's checks", refused)
		}
		for _, trial := range trials {
			fate := try(t, i, trial, file, path)
			count(trial.Name, fate)
			if fate == ran && sound != nil {
				t.Errorf("file %d: %s accepts a file that is refused: %v", i, trial.Name, sound)
			}
		}
	}
	c := counts["mm's checks"]
	t.Logf("%d damaged files: %d accepted and %d refused by mm's checks", n, c["accepted"], c[refused])
	for _, trial := range trials {
		c := counts[trial.Name]
		t.Logf("%-12s %5d ran, %5d refused or failed, %3d ended the child", trial.Name, c[ran], c[refused], c[died])
	}
}

// try runs one engine on one file.
func try(t *testing.T, i int, trial Trial, file, path string) string {
	ctx, cancel := context.WithTimeout(t.Context(), fileTime)
	defer cancel()
	begin := time.Now()
	err := trial.Use(ctx, file, path)
	if ctx.Err() != nil {
		t.Errorf("file %d took %s %v: %v", i, trial.Name, time.Since(begin), err)
	}
	switch {
	case err == nil:
		return ran
	case errors.Is(err, worker.ErrDied):
		t.Logf("file %d: %s: %v", i, trial.Name, err)
		return died
	}
	return refused
}

// Damage returns a copy of data damaged in one place, or in several near the start: flipped
// bits and bytes, enlarged numbers, spans cut, duplicated or moved.
func Damage(data []byte, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 4711))
	out := append([]byte(nil), data...)
	edits, reach := 1, len(out)
	if rng.IntN(2) == 0 {
		edits, reach = 1+rng.IntN(3), 4096
	}
	for range edits {
		top := min(reach, len(out))
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

// Children returns the child processes of this process (Linux).
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
			continue // the thread ended
		}
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}

// Begin opens a language model and feeds a prompt.
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

// Hearing bounds the time for an engine to notice a cancellation on a busy machine.
const Hearing = 50 * time.Millisecond
