package suite

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/runner"
)

// letters is a scorer of one token a byte: the log probability of a token is its value
// in hundredths, and 'a' is always the most likely one.
type letters struct {
	scored [][]int32
	from   []int
}

func (l *letters) Encode(_ context.Context, text string) ([]int32, error) {
	var ids []int32
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids, nil
}
func (l *letters) Score(_ context.Context, ids []int32, from, top int) ([]runner.TokenScore, error) {
	if from < 1 || from > len(ids) {
		return nil, fmt.Errorf("from %d of %d", from, len(ids))
	}
	l.scored, l.from = append(l.scored, slices.Clone(ids)), append(l.from, from)
	var out []runner.TokenScore
	for _, id := range ids[from:] {
		s := runner.TokenScore{ID: id, LogProb: -float64(id) / 100}
		if top > 0 {
			s.Top = []runner.TokenScore{{ID: 'a'}}
		}
		out = append(out, s)
	}
	return out, nil
}
func (l *letters) Answer(_ context.Context, req runner.Request, _ func(string) error) (*runner.Answer, error) {
	if req.Tokens != nil {
		return &runner.Answer{Text: fmt.Sprint(req.Tokens)}, nil
	}
	return &runner.Answer{Text: fmt.Sprintf("%v %v %d %d", req.Plain, req.Preferences.Stop, req.Preferences.MaxTokens, len(req.Inputs))}, nil
}

// Spaces at the end of a context belong to the continuation; a text that is too long
// loses its start.
func TestLocalScore(t *testing.T) {
	for _, c := range []struct {
		text, rest string
		most       int
		want       string
		from       int
		cut        bool
	}{
		{"xy", " aa", 99, "xy aa", 2, false}, {"xy  ", "aa", 99, "xy  aa", 2, false}, {"", "aa", 99, "\x01aa", 1, false}, {"", "\x01aa", 99, "\x01aa", 1, false},
		{"xyz", "aa", 5, "xyzaa", 3, false}, {"xyz", "aa", 4, "yzaa", 2, true}, {"xyz", "aaaa", 4, "aaaa", 1, true},
	} {
		s := &letters{}
		got, err := (&Local{scorer: s, most: c.most, prefix: 1}).Score(t.Context(), c.text, []string{c.rest})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var text []byte
		for _, id := range s.scored[0] {
			text = append(text, byte(id))
		}
		sum := 0.0
		for _, id := range s.scored[0][c.from:] {
			sum -= float64(id) / 100
		}
		if string(text) != c.want || s.from[0] != c.from || got[0].Cut != c.cut || diff(got[0].LogProb, sum) || got[0].Greedy != (c.rest[0] != ' ' && c.text != "xy  ") {
			t.Errorf("%+v: got %q from %d, %+v", c, text, s.from[0], got)
		}
	}
}

// Each token of a long text is scored once, after as many as fit.
func TestLocalRolling(t *testing.T) {
	const text = "abcdefghij"
	want := 0.0
	for _, c := range []byte(text) {
		want -= float64(c) / 100
	}
	for most := 2; most < 14; most++ {
		s := &letters{}
		got, err := (&Local{scorer: s, most: most, prefix: 1}).Rolling(t.Context(), text)
		if err != nil || diff(got, want) {
			t.Errorf("%d: got %v, %v, want %v", most, got, err, want)
		}
		for i, ids := range s.scored {
			if len(ids) > most || i > 0 && len(ids) != most {
				t.Errorf("%d: window %d has %d tokens", most, i, len(ids))
			}
		}
	}
	if got, err := (&Local{scorer: &letters{}, most: 4, prefix: 1}).Rolling(t.Context(), ""); got != 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := (&Local{scorer: &letters{}, most: 4, prefix: tokenizer.None}).Rolling(t.Context(), "a"); err == nil {
		t.Error("got no error without a first token")
	}
}

// With an image a question is a turn of a conversation, else a text to continue.
func TestLocalGenerate(t *testing.T) {
	l := &Local{scorer: &letters{}, most: 9, prefix: 1}
	for _, c := range []struct {
		media []Medium
		want  string
	}{{nil, "true [.] 7 1"}, {[]Medium{{Kind: "image", Path: "x.png"}}, "false [.] 7 2"}} {
		if got, err := l.Generate(t.Context(), Prompt{Text: "q", Until: []string{"."}, MaxTokens: 7, Media: c.media}); err != nil || got != c.want {
			t.Errorf("got %q, %v, want %q", got, err, c.want)
		}
	}
}

// Without BOS a text has its own tokens only.
func TestLocalBare(t *testing.T) {
	v, err := tokenizer.Train(slices.Values([]string{"abc abc"}), tokenizer.TrainOptions{VocabSize: 260, Control: []string{"<s>"}, BOS: "<s>"})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	l := &Local{scorer: &letters{}, most: 9, prefix: 1, bare: tok}
	want := tok.Encode("q<s>", tokenizer.Options{Special: true})
	if len(want) != 2 {
		t.Fatalf("got %v", want)
	}
	if got, err := l.Generate(t.Context(), Prompt{Text: "q<s>"}); err != nil || got != fmt.Sprint(want) {
		t.Errorf("got %s, %v, want %v", got, err, want)
	}
}
