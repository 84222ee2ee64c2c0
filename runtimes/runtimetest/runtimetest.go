// Package runtimetest is what every backend must keep: [Test] runs one suite
// over any of them, and [Fake] is a scripted backend for tests of what stands
// above backends.
package runtimetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"mm-abi.org/mm/runtimes"
)

// Subject is a backend with a model to test it on. The model's sequence must
// have room for 64 tokens and its greedy text must not end before 8.
type Subject struct {
	Backend runtimes.Backend
	Weights runtimes.Weights
}

// Test runs the suite.
func Test(t *testing.T, s Subject) {
	t.Helper()
	ctx := context.Background()
	if s.Backend.Name() == "" {
		t.Error("the backend has no name")
	}
	if err := s.Backend.Probe(ctx); err != nil {
		t.Fatalf("Probe: %v", err)
	}
	t.Run("missing files", s.missingFiles)
	t.Run("greedy is deterministic", s.deterministic)
	t.Run("seeds", s.seeds)
	t.Run("max tokens", s.maxTokens)
	t.Run("stop words", s.stopWords)
	t.Run("a full sequence", s.full)
	t.Run("emit stops", s.emitStops)
	t.Run("cancel", s.cancel)
}

func (s Subject) open(t *testing.T) runtimes.Generator {
	t.Helper()
	g, err := s.Backend.OpenGenerator(context.Background(), s.Weights, runtimes.Settings{})
	if err != nil {
		t.Fatalf("OpenGenerator: %v", err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return g
}

// say feeds a prompt to a new sequence and continues it.
func (s Subject) say(t *testing.T, prompt string, opt runtimes.Generation) (string, []int32, runtimes.Stop) {
	t.Helper()
	g := s.open(t)
	if _, err := g.Feed(context.Background(), runtimes.Segment{Marked: prompt}); err != nil {
		t.Fatalf("Feed: %v", err)
	}
	return collect(t, g, opt)
}

func collect(t *testing.T, g runtimes.Generator, opt runtimes.Generation) (text string, ids []int32, stop runtimes.Stop) {
	t.Helper()
	var b strings.Builder
	stop, err := g.Generate(context.Background(), opt, func(tok runtimes.Token) error {
		if !utf8.ValidString(tok.Text) {
			t.Errorf("token %d gives %q, which cuts a character", tok.ID, tok.Text)
		}
		b.WriteString(tok.Text)
		if tok.ID >= 0 {
			ids = append(ids, tok.ID)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	return b.String(), ids, stop
}

func (s Subject) missingFiles(t *testing.T) {
	w := s.Weights
	w.Paths = nil
	g, err := s.Backend.OpenGenerator(context.Background(), w, runtimes.Settings{})
	if !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("without files: %v, want ErrUnavailable", err)
	}
	if err == nil {
		g.Close()
	}
}

func (s Subject) deterministic(t *testing.T) {
	text, ids, _ := s.say(t, "", runtimes.Generation{MaxTokens: 8})
	again, _, _ := s.say(t, "", runtimes.Generation{MaxTokens: 8})
	if text != again {
		t.Errorf("first %q, then %q", text, again)
	}
	if len(ids) != 8 {
		t.Errorf("%d tokens, want 8", len(ids))
	}
}

func (s Subject) seeds(t *testing.T) {
	opt := runtimes.Generation{MaxTokens: 8, Temperature: 1, Seed: 7}
	text, _, _ := s.say(t, "", opt)
	if again, _, _ := s.say(t, "", opt); again != text {
		t.Errorf("seed 7 gives %q, then %q", text, again)
	}
}

func (s Subject) maxTokens(t *testing.T) {
	long, _, _ := s.say(t, "", runtimes.Generation{MaxTokens: 8})
	short, ids, stop := s.say(t, "", runtimes.Generation{MaxTokens: 3})
	if len(ids) != 3 || stop != runtimes.StopLength {
		t.Errorf("%d tokens (%s), want 3 (%s)", len(ids), stop, runtimes.StopLength)
	}
	if !strings.HasPrefix(long, short) {
		t.Errorf("3 tokens give %q, 8 give %q", short, long)
	}
}

func (s Subject) stopWords(t *testing.T) {
	text, _, _ := s.say(t, "", runtimes.Generation{MaxTokens: 8})
	word := ""
	for i, r := range text {
		if i >= len(text)/2 && r != utf8.RuneError {
			word = string(r)
			break
		}
	}
	if word == "" {
		t.Skip("skipped: the model draws no whole character late enough")
	}
	cut, _, stop := s.say(t, "", runtimes.Generation{MaxTokens: 8, Stop: []string{word}})
	want, _, _ := strings.Cut(text, word)
	if cut != want || stop != runtimes.StopWord {
		t.Errorf("stopping at %q gives %q (%s), want %q (%s)", word, cut, stop, want, runtimes.StopWord)
	}
}

// What does not fit is refused and changes nothing.
func (s Subject) full(t *testing.T) {
	g := s.open(t)
	ctx := context.Background()
	if _, err := g.Feed(ctx, runtimes.Segment{}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Feed(ctx, runtimes.Segment{Text: strings.Repeat("word ", 100_000)}); err == nil {
		t.Fatal("100,000 words fitted")
	}
	text, _, _ := collect(t, g, runtimes.Generation{MaxTokens: 8})
	if want, _, _ := s.say(t, "", runtimes.Generation{MaxTokens: 8}); text != want {
		t.Errorf("after a refused Feed %q, want %q", text, want)
	}
}

func (s Subject) emitStops(t *testing.T) {
	g := s.open(t)
	if _, err := g.Feed(context.Background(), runtimes.Segment{}); err != nil {
		t.Fatal(err)
	}
	enough, n := errors.New("enough"), 0
	_, err := g.Generate(context.Background(), runtimes.Generation{MaxTokens: 8}, func(runtimes.Token) error {
		n++
		return enough
	})
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("emit was called %d times, Generate gave %v", n, err)
	}
}

func (s Subject) cancel(t *testing.T) {
	g := s.open(t)
	if _, err := g.Feed(context.Background(), runtimes.Segment{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	_, err := g.Generate(ctx, runtimes.Generation{}, func(runtimes.Token) error {
		stop()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled Generate gave %v", err)
	}
}
