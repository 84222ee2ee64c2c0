package engines_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/native"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// A cancellation ends the reading of a long prompt within a batch; the sequence is unchanged, in the same
// child, and continues.
func TestLlamaCPPCancelInside(t *testing.T) {
	e := engines.LlamaCPP{Home: runtimetest.Home(t, native.LlamaCPP)}
	m, s, err := runtimetest.Begin(t.Context(), e, llamaBundle(testfiles.Native(t, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")), llamaPrompt)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = m.(runtimes.Language).NewSequence(t.Context(), runtimes.SequenceOptions{Context: 1100}); err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), runtimes.Positions{Tokens: llamaPrompt}); err != nil {
		t.Fatal(err)
	}
	want, err := s.(runtimes.Scorer).Logits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	children := runtimetest.Children(t)
	long := make([]int32, 1024)
	for i := range long {
		long[i] = int32(100 + i)
	}
	const tries = 20
	var took []time.Duration
	for i := range tries {
		ctx, cancel := context.WithCancel(t.Context())
		var struck time.Time
		timer := time.AfterFunc(time.Duration(20+7*i)*time.Millisecond, func() {
			struck = time.Now()
			cancel()
		})
		err := s.Feed(ctx, runtimes.Positions{Tokens: long})
		ended := time.Now()
		if timer.Stop() || !errors.Is(err, context.Canceled) {
			t.Fatalf("try %d: the prompt was read first: %v", i, err)
		}
		took = append(took, ended.Sub(struck))
		if s.Len() != len(llamaPrompt) {
			t.Fatalf("try %d: %d positions are held, not %d", i, s.Len(), len(llamaPrompt))
		}
	}
	got, err := s.(runtimes.Scorer).Logits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := alike(want, got); c < 0.9999 {
		t.Errorf("the logits behind the prompt are others than before: cosine %v", c)
	}
	if now := runtimetest.Children(t); !slices.Equal(children, now) {
		t.Errorf("it took another child (%v, then %v): the library did not hear", children, now)
	}
	slices.Sort(took)
	p95 := took[tries*95/100-1]
	t.Logf("%d prompts of %d tokens were ended: median %v, p95 %v, longest %v", tries, len(long), took[tries/2], p95, took[tries-1])
	// The slower ones are as slow as the machine is busy.
	if quarter := took[tries/4]; quarter > runtimetest.Hearing {
		t.Errorf("three quarters took more than %v, the limit is %v", quarter, runtimetest.Hearing)
	}
}
