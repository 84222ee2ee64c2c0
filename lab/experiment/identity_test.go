package experiment_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/lab/experiment"
)

// TestIdentity: a chain and its head verify only in the folder of their run, also
// if they were signed by the same key; and a chain of no run in none.
func TestIdentity(t *testing.T) {
	key, mine, other := newKey(t), t.TempDir(), t.TempDir()
	got, err := simulate(t, strings.Replace(night, "duration: 6h", "iterations: 2", 1), mine, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := simulate(t, strings.Replace(night, "duration: 6h", "iterations: 3", 1), other, key, nil); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{mine, filepath.Join(mine, experiment.ChainDir)} {
		if r, err := experiment.Verify(dir, key.Public(), experiment.Check{Run: got.Run}); err != nil || r.Run != got.Run || !r.Simulated {
			t.Errorf("%s: %+v, %v", dir, r, err)
		}
	}
	if _, err := experiment.Verify(mine, key.Public(), experiment.Check{Run: "another"}); !errors.Is(err, experiment.ErrIdentity) {
		t.Errorf("another run: %v", err)
	}
	bare := t.TempDir()
	l, err := chain.Open(t.Context(), bare, key, key.Public(), fsx.Options{}, nil)
	if err == nil {
		_, err = l.Append("2026-01-02T00:00:00Z", "falsify", "falsifier", "x")
		err = errors.Join(err, l.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if r, err := experiment.Verify(bare, key.Public(), experiment.Check{}); err != nil || r.Rows != 1 {
		t.Errorf("a chain of no run: %+v, %v", r, err)
	}
	for name, from := range map[string]string{"another run": filepath.Join(other, experiment.ChainDir), "no run": bare} {
		for _, file := range []string{chain.File, chain.HeadFile} {
			data, err := os.ReadFile(filepath.Join(from, file))
			if err == nil {
				err = os.WriteFile(filepath.Join(mine, experiment.ChainDir, file), data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, dir := range []string{mine, filepath.Join(mine, experiment.ChainDir)} {
			if _, err := experiment.Verify(dir, key.Public(), experiment.Check{}); !errors.Is(err, experiment.ErrIdentity) || !errors.Is(err, chain.ErrBroken) {
				t.Errorf("the chain of %s: %v", name, err)
			}
		}
		if _, err := experiment.Summarize(mine, key.Public(), experiment.Check{}); !errors.Is(err, experiment.ErrIdentity) {
			t.Errorf("summary of the chain of %s: %v", name, err)
		}
		if _, err := experiment.ReadHistory(mine, key.Public(), experiment.Check{}); !errors.Is(err, experiment.ErrIdentity) {
			t.Errorf("history of the chain of %s: %v", name, err)
		}
	}
	if err := os.Remove(filepath.Join(other, experiment.IdentityFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := experiment.Verify(other, key.Public(), experiment.Check{}); !errors.Is(err, experiment.ErrIdentity) || !strings.Contains(err.Error(), "missing run.json") {
		t.Errorf("without the identity file: %v", err)
	}
	r, err := experiment.Verify(other, key.Public(), experiment.Check{Run: "night-20260101T000000Z"})
	if err != nil {
		t.Errorf("without the identity file, with the name of the run: %+v, %v", r, err)
	}
}

// TestResumeIdentity: a run does not continue the chain of another run with the same
// plan.
func TestResumeIdentity(t *testing.T) {
	key, dir := newKey(t), t.TempDir()
	plan := strings.Replace(night, "duration: 6h", "iterations: 2", 1)
	if _, err := simulate(t, plan, dir, key, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, experiment.IdentityFile)
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(data), "T00:00:00", "T00:00:01", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := simulate(t, plan, dir, key, func(o *experiment.Options) { o.Resume = true }); !errors.Is(err, experiment.ErrIdentity) {
		t.Error(err)
	}
}

// An identity file of more than MaxIdentity bytes is refused.
func TestIdentityLimit(t *testing.T) {
	key, dir := newKey(t), t.TempDir()
	if _, err := simulate(t, strings.Replace(night, "duration: 6h", "iterations: 1", 1), dir, key, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, experiment.IdentityFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size, fits := range map[int]bool{experiment.MaxIdentity: true, experiment.MaxIdentity + 1: false} {
		padded := string(data) + strings.Repeat(" ", size-len(data))
		if err := os.WriteFile(path, []byte(padded), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := experiment.Verify(dir, key.Public(), experiment.Check{}); (err == nil) != fits {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
