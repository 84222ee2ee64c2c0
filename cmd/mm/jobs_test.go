package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"mm-abi.org/mm/lab/farm"
	"mm-abi.org/mm/lab/farm/broker"
)

// playedExecutor executes any job: it has one file, or fails if it writes none.
type playedExecutor struct{ q *farm.Queue }

func (p playedExecutor) Execute(ctx context.Context, _ string, j farm.Job) (farm.Outcome, error) {
	if len(j.Outputs) == 0 {
		return farm.Outcome{}, errors.New("played failure")
	}
	sum, err := p.q.PutBytes(ctx, []byte("text"))
	return farm.Outcome{Outputs: map[string]string{j.Outputs[0]: sum}, Tail: "played"}, err
}

// playedQueue starts a queue with a worker and returns its address and two jobs: one that
// succeeded and one that failed.
func playedQueue(t *testing.T) (url, ids string) {
	t.Helper()
	b, err := broker.Start(broker.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	q, err := farm.Open(ctx, farm.Options{Servers: b.URL()})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := farm.Worker{Queue: q, Name: "w", Capabilities: farm.Detect(), Executor: playedExecutor{q}}
		_ = w.Work(ctx) // canceled
	}()
	t.Cleanup(func() { cancel(); <-done; q.Close() })
	for _, j := range []farm.Job{{Args: []string{"version"}, Outputs: []string{"b.txt"}, Needs: []string{"cores=1"}}, {Args: []string{"version"}, Attempts: 1}} {
		id, err := q.Submit(ctx, j)
		if err != nil {
			t.Fatal(err)
		}
		ids += id + " "
	}
	return b.URL(), ids
}
