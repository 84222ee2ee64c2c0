package main

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/lab/records"
)

// Choices that are made at once come one after the other: each is of the rows
// before it.
func TestChooseAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.jsonl")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := choose(context.Background(), file, "x", []string{"a", "b"}, experiment.Policy{Kind: experiment.UCB}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rows, err := records.Read[experiment.HistoryRow](file)
	if err != nil {
		t.Fatal(err)
	}
	if n, wrong, err := experiment.Replay(rows); err != nil || n != 8 || len(wrong) > 0 {
		t.Errorf("%d choices, %v come out otherwise, %v", n, wrong, err)
	}
}
