package study

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/chain"
)

// counted counts the trials that run at the same time, and delays the earlier ones, so that
// they end out of order.
type counted struct {
	Local
	mu        sync.Mutex
	runs      int
	now, most int
}

func (c *counted) Run(ctx context.Context, spec []byte) ([]byte, error) {
	c.mu.Lock()
	c.runs++
	delay := time.Duration(5-c.runs%5) * 20 * time.Millisecond
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	time.Sleep(delay)
	defer func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}()
	return c.Local.Run(ctx, spec)
}

// A study whose trials run at the same time has the rows and the answer of one whose trials
// run one after the other.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	type row struct {
		Event, Arm string
		Seed       uint64
		Rung       int
	}
	run := func(atOnce int) (Answer, []row, *counted) {
		t.Helper()
		dir := t.TempDir()
		s, text := write(t, dir, killedText)
		c := &counted{Local: Local{Dir: filepath.Join(dir, "run"), Threads: 1}}
		key := newKey(t)
		var rows []row
		a, err := Run(t.Context(), s, Options{Dir: c.Dir, Key: key, Verifier: key.Public(), Text: text, Runner: c, AtOnce: atOnce, Each: func(r chain.Row) {
			p := payload(t, r)
			rows = append(rows, row{r.Event, p.Arm, p.Seed, p.Rung})
		}})
		if err != nil {
			t.Fatal(err)
		}
		return a, rows, c
	}
	want, order, one := run(0)
	got, same, many := run(4)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the answer differs (- one by one, + at once): %s", diff)
	}
	if diff := cmp.Diff(order, same); diff != "" {
		t.Errorf("the rows differ (- one by one, + at once): %s", diff)
	}
	if one.most != 1 || many.most < 2 || many.most > 4 || many.runs != one.runs {
		t.Errorf("got %d and %d trials at the same time, %d and %d in all", one.most, many.most, one.runs, many.runs)
	}
}

func payload(t *testing.T, r chain.Row) (p Payload) {
	t.Helper()
	if err := json.Unmarshal(r.Payload, &p); err != nil {
		t.Fatal(err)
	}
	return p
}
