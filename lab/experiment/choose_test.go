package experiment_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"mm-abi.org/mm/lab/experiment"
	"mm-abi.org/mm/lab/records"
)

// Concurrent choices are sequential: each follows from the rows before it.
func TestChooseAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.jsonl")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := experiment.Choose(context.Background(), file, "x", []string{"a", "b"}, experiment.Policy{Kind: experiment.UCB}); err != nil {
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
		t.Errorf("%d choices, %v do not replay, %v", n, wrong, err)
	}
}
