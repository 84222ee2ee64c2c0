package openai

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

func TestPrompts(t *testing.T) {
	for body, want := range map[string]prompts{
		`"a"`: {{text: "a"}}, `["a","b"]`: {{text: "a"}, {text: "b"}}, `[1,2]`: {{tokens: []int32{1, 2}}}, `[[1],[2,3]]`: {{tokens: []int32{1}}, {tokens: []int32{2, 3}}},
		`""`: {{}}, `["a",[1]]`: {{text: "a"}, {tokens: []int32{1}}},
	} {
		var got prompts
		if err := json.Unmarshal([]byte(body), &got); err != nil || len(got) != len(want) {
			t.Errorf("%s: got %v, %v", body, got, err)
			continue
		}
		for i := range got {
			if got[i].text != want[i].text || !slices.Equal(got[i].tokens, want[i].tokens) {
				t.Errorf("%s: got %v, want %v", body, got, want)
			}
		}
	}
	for _, body := range []string{`null`, `[]`, `[null]`, `[["a"]]`, `[1.5]`, `{}`, `[[]]`, `1`, `[[[1]]]`, `["a",1]`, `[` + strings.Repeat(`"a",`, maxPrompts) + `"a"]`} {
		var got prompts
		if err := json.Unmarshal([]byte(body), &got); err == nil {
			t.Errorf("%s: got %v", body, got)
		}
	}
	var most prompts
	if err := json.Unmarshal([]byte(`[`+strings.Repeat(`"a",`, maxPrompts-1)+`"a"]`), &most); err != nil || len(most) != maxPrompts {
		t.Errorf("got %d prompts, %v", len(most), err)
	}
}

func FuzzPrompts(f *testing.F) {
	f.Add(`["a",[1,2]]`)
	f.Fuzz(func(t *testing.T, body string) {
		var p prompts
		if json.Unmarshal([]byte(body), &p) == nil && len(p) > maxPrompts {
			t.Errorf("%d prompts", len(p))
		}
	})
}

// bytewise has a token for each byte; the most likely next one is its successor.
type bytewise struct{ tok *tokenizer.Tokenizer }

func (b bytewise) Tokenizer(context.Context) (*tokenizer.Tokenizer, error) { return b.tok, nil }
func (b bytewise) Context(context.Context) (int, error)                    { return 99, nil }
func (b bytewise) Encode(_ context.Context, text string) (ids []int32, err error) {
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids, nil
}
func (b bytewise) Score(_ context.Context, ids []int32, from, top int) (out []runner.TokenScore, err error) {
	for i := from; i < len(ids); i++ {
		next := ids[i-1] + 1
		best := runner.TokenScore{ID: next, Piece: string(rune(next)), LogProb: -0.25}
		one := runner.TokenScore{ID: ids[i], Piece: string(rune(ids[i])), LogProb: -2.5}
		if one.ID == next {
			one = best
		}
		one.Top = []runner.TokenScore{best, {ID: 1, Piece: "\xff", LogProb: math.Inf(-1)}}
		out = append(out, one)
	}
	return out, nil
}

// The prompt and its next token have log probabilities, the first token none.
func TestEchoed(t *testing.T) {
	vocabulary, err := tokenizer.Train(slices.Values([]string{"abcx abcx"}), tokenizer.TrainOptions{VocabSize: 260})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(vocabulary)
	if err != nil {
		t.Fatal(err)
	}
	b := bytewise{tok}
	for _, more := range []bool{false, true} {
		got, err := echoed(t.Context(), b, tok, []int32{'a', 'b', 'x'}, 2, more)
		if err != nil {
			t.Fatal(err)
		}
		l := got.Logprobs.(*legacy)
		n := 3
		if more {
			n = 4
		}
		if len(l.Tokens) != n || len(l.Logs) != n || len(l.Top) != n || len(l.Offsets) != n || l.Logs[0] != nil || l.Top[0] != nil || !slices.IsSorted(l.Offsets) {
			t.Fatalf("more %v: got %+v", more, l)
		}
		if *l.Logs[1] != -0.25 || *l.Logs[2] != -2.5 || l.Top[1]["b"] != *l.Logs[1] || l.Top[2]["x"] != -2.5 || l.Top[2]["c"] != -0.25 || l.Top[1]["token_id:1"] != least {
			t.Errorf("got %+v", l)
		}
		if more && (l.Tokens[3] != "y" || *l.Logs[3] != -0.25) {
			t.Errorf("got %+v", l)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
	}
}

// Two tokens of one text have separate entries.
func TestLegacyTwice(t *testing.T) {
	var l legacy
	a := runner.TokenScore{ID: 1, Piece: "x", LogProb: -1}
	a.Top = []runner.TokenScore{{ID: 2, Piece: "x", LogProb: -0.5}, {ID: 1, Piece: "x", LogProb: -1}}
	l.add(a, true, 0)
	if got := l.Top[0]; got["x"] != -1 || got["token_id:2"] != -0.5 {
		t.Errorf("got %v", got)
	}
}

// The limits of echo and of the tokens to write as text.
func TestTokenLimits(t *testing.T) {
	for top, ok := range map[int]bool{-1: false, 0: true, maxLegacy: true, maxLegacy + 1: false} {
		if err := checkEcho(&completeRequest{sampling: sampling{MaxTokens: new(int)}, Logprobs: &top}, 0); (err == nil) != ok {
			t.Errorf("logprobs %d: got %v", top, err)
		}
	}
	for n, ok := range map[int]bool{maxTokenized: true, maxTokenized + 1: false} {
		if err := checkTokenized(n); (err == nil) != ok {
			t.Errorf("%d tokens: got %v", n, err)
		}
	}
	for n, ok := range map[int]bool{0: true, 1: true, 2: false} {
		if err := checkEcho(&completeRequest{sampling: sampling{MaxTokens: &n}}, 0); (err == nil) != ok {
			t.Errorf("max_tokens %d: got %v", n, err)
		}
	}
	if err := checkEcho(&completeRequest{}, 0); err == nil {
		t.Error("without max_tokens: got no error")
	}
	if err := checkEcho(&completeRequest{sampling: sampling{MaxTokens: new(int)}}, 0.5); err == nil {
		t.Error("with a temperature: got no error")
	}
}

// An empty prompt has nothing to score.
func TestEmptyEcho(t *testing.T) {
	for text, ok := range map[string]bool{"": false, "a": true} {
		ask := &api.Ask{}
		ask.Request.Inputs = []talk.Part{{Text: text}}
		if _, err := tokensOf(t.Context(), bytewise{}, ask); (err == nil) != ok {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
