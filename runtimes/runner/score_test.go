package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
)

// oneByOne is the core engine without the ability to predict.
type oneByOne struct{ engines.Core }

func (e oneByOne) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	m, err := e.Core.Open(ctx, b, l)
	if err != nil {
		return nil, err
	}
	return oneByOneModel{m.(runtimes.Language)}, nil
}

type oneByOneModel struct{ runtimes.Language }

func (m oneByOneModel) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s, err := m.Language.NewSequence(ctx, opt)
	if err != nil {
		return nil, err
	}
	return struct {
		runtimes.Sequence
		runtimes.Scorer
	}{s, s.(runtimes.Scorer)}, nil
}

// opened returns a runner on an engine.
func opened(t *testing.T, e runtimes.Engine) *runner.Runner {
	r, err := runner.Open(t.Context(), build(t), runner.Options{Engines: []runtimes.Engine{e}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func encoded(t *testing.T, r *runner.Runner, text string) []int32 {
	ids, err := r.Encode(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// An engine that predicts and one that only has logits score the same, whatever was
// scored before, and each token is the successor of those before it.
func TestScore(t *testing.T) {
	r := opened(t, engines.Core{})
	slow := opened(t, oneByOne{})
	ids := encoded(t, r, "Once upon a time there was a little dog, and a cat, and a bird.")
	if len(ids) < 8 {
		t.Fatalf("got %d tokens", len(ids))
	}
	full, err := r.Score(t.Context(), ids, 1, 3)
	if err != nil || len(full) != len(ids)-1 {
		t.Fatalf("got %d scores, %v", len(full), err)
	}
	for from := len(ids); from >= 1; from -= 3 {
		for name, r := range map[string]*runner.Runner{"predicting": r, "one by one": slow} {
			got, err := r.Score(t.Context(), ids, from, 3)
			if err != nil || len(got) != len(ids)-from {
				t.Fatalf("%s from %d: got %d scores, %v", name, from, len(got), err)
			}
			for i, g := range got {
				if want := full[from-1+i]; g.ID != ids[from+i] || math.Abs(g.LogProb-want.LogProb) > 1e-5 || len(g.Top) != 3 {
					t.Fatalf("%s from %d, %d: got %+v, want %+v", name, from, i, g, want)
				}
			}
		}
	}
}

// Continuations of one context that are scored concurrently equal those scored alone,
// bit for bit.
func TestScoreTogether(t *testing.T) {
	r := opened(t, engines.Core{})
	var texts [][]int32
	var want [][]runner.TokenScore
	start := "Once upon a time there was a little dog who "
	from := len(encoded(t, r, start))
	for i := range 12 {
		texts = append(texts, encoded(t, r, start+strings.Repeat("likes the cat ", i%5+1)+fmt.Sprint(i)))
		alone := opened(t, engines.Core{})
		scores, err := alone.Score(t.Context(), texts[i], from, 1)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, scores)
	}
	got := make([][]runner.TokenScore, len(texts))
	var wait sync.WaitGroup
	for i, ids := range texts {
		wait.Go(func() {
			var err error
			if got[i], err = r.Score(t.Context(), ids, from, 1); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// An engine without logits scores nothing.
func TestScoreWithoutLogits(t *testing.T) {
	r, _ := open(t, build(t), runner.Options{})
	if _, err := r.Score(t.Context(), []int32{1, 2, 3}, 1, 0); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestScoreLimits(t *testing.T) {
	r := opened(t, engines.Core{})
	ids := encoded(t, r, "a b c")
	for _, bad := range []int32{-1, 1 << 30} {
		if _, err := r.Score(t.Context(), []int32{ids[0], bad}, 1, 0); !errors.Is(err, runner.ErrToken) {
			t.Errorf("token %d: got %v", bad, err)
		}
		if _, err := r.Answer(t.Context(), runner.Request{Plain: true, Tokens: []int32{bad}}, nil); !errors.Is(err, runner.ErrToken) {
			t.Errorf("token %d: got %v", bad, err)
		}
	}
	for _, from := range []int{-1, 0, len(ids) + 1} {
		if _, err := r.Score(t.Context(), ids, from, 0); err == nil {
			t.Errorf("from %d of %d: got no error", from, len(ids))
		}
	}
	most, err := r.Context(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	long := make([]int32, most+1)
	if _, err := r.Score(t.Context(), long, 1, 0); !errors.Is(err, runtimes.ErrFull) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Score(t.Context(), long[:most], most-1, 0); err != nil {
		t.Error(err)
	}
}

// Tokens continue as the text that has them.
func TestTokens(t *testing.T) {
	r := opened(t, engines.Core{})
	const text = "Once upon a time"
	req := ask(text, 12)
	req.Plain = true
	want := answer(t, r, req)
	req.Inputs, req.Tokens = nil, encoded(t, r, text)
	if got := answer(t, r, req); got.Text != want.Text || got.Text == "" {
		t.Errorf("got %q, want %q", got.Text, want.Text)
	}
}

// Greedy is true only if every token is the most likely one of its place.
func TestGreedy(t *testing.T) {
	a, b := runner.TokenScore{ID: 1}, runner.TokenScore{ID: 2}
	best := runner.TokenScore{ID: 1, Top: []runner.TokenScore{a, b}}
	other := runner.TokenScore{ID: 2, Top: []runner.TokenScore{a, b}}
	for _, c := range []struct {
		scores []runner.TokenScore
		want   bool
	}{{nil, true}, {[]runner.TokenScore{best, best}, true}, {[]runner.TokenScore{best, other}, false}, {[]runner.TokenScore{a}, false}} {
		if got := runner.Greedy(c.scores); got != c.want {
			t.Errorf("%v: got %v", c.scores, got)
		}
	}
}
