package modules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/llm"
)

// The shipped core asks a tool for sums that it never saw, with the numbers of
// the question; behind the call it falls silent, and it makes up no answer.
func TestCoreAsksAndWaits(t *testing.T) {
	const n = 200
	right, invented := 0, 0
	gen := open(t, "../catalog/core-llm/core-llm.gguf")
	for _, ab := range unseen(t, n) {
		text, end := gen.continues(t, fmt.Sprintf("What is %d plus %d?", ab[0], ab[1]))
		call, after, closed := strings.Cut(text, abi.ToolCallClose)
		_, block, opened := strings.Cut(call, abi.ToolCallOpen)
		if strings.Contains(after, "result") || strings.Contains(after, "answer") || closed && end != infer.StopToken {
			invented++
			t.Logf("%v: made up %q", ab, after)
		}
		var c abi.ToolCall
		err := json.Unmarshal([]byte(block), &c)
		if !opened || !closed || err != nil || c.Tool != "sympy-lite" || c.Args["expr"] != fmt.Sprintf("%d+%d", ab[0], ab[1]) {
			t.Logf("%v: %q %v", ab, text, err)
			continue
		}
		right++
	}
	t.Logf("%d of %d calls are right, %d answers made up", right, n, invented)
	if right < n*9/10 || invented > 0 {
		t.Errorf("%d of %d calls are right, %d answers made up", right, n, invented)
	}
}

// After the tool's answer, it repeats that answer.
func TestCoreTakesTheAnswer(t *testing.T) {
	gen := open(t, "../catalog/core-llm/core-llm.gguf")
	right := 0
	const n = 50
	for _, ab := range unseen(t, n) {
		expr := fmt.Sprintf("%d+%d", ab[0], ab[1])
		text, _ := gen.continues(t, fmt.Sprintf("What is %d plus %d?", ab[0], ab[1]),
			` <tool_call>{"tool":"sympy-lite","args":{"expr":"`+expr+`","op":"simplify"}}</tool_call>`, fmt.Sprintf(`{"result":%d}`, ab[0]+ab[1]))
		if strings.HasPrefix(text, fmt.Sprintf(" The answer is %d.", ab[0]+ab[1])) {
			right++
		}
	}
	t.Logf("%d of %d answers are the tool's", right, n)
	if right < n*3/4 {
		t.Errorf("%d of %d answers are the tool's", right, n)
	}
}

// Every recipe of the tree that draws its weights begins at the loss of a
// uniform guess.
func TestRecipesBeginWithAGuess(t *testing.T) {
	for _, file := range []string{"../catalog/core-llm/train.yaml", "../catalog/draft-llm/train.yaml", "../catalog/recipes/wall.yaml", "../catalog/recipes/wall-phi-auto.yaml"} {
		cfg := recipe(t, file).WithDefaults()
		m, err := llm.New[float32](cfg.Model)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Init(cfg.Init); err != nil {
			t.Fatal(err)
		}
		m.Refresh(nil)
		const T = 128
		b := llm.Batch[float32]{Tokens: make([]int32, T), Targets: make([]int32, T)}
		r := rand.New(rand.NewPCG(1, 1))
		for i := range T {
			b.Tokens[i], b.Targets[i] = r.Int32N(int32(cfg.Model.Vocab)), r.Int32N(int32(cfg.Model.Vocab))
		}
		loss, err := m.NewPass(nil, 1, T).Loss(b)
		if err != nil {
			t.Fatal(err)
		}
		first, want := loss/T, math.Log(float64(cfg.Model.Vocab))
		t.Logf("%s: first loss %.3f, a uniform guess has %.3f", file, first, want)
		if math.Abs(first-want) >= 0.3 {
			t.Errorf("%s: first loss %.3f, a uniform guess has %.3f", file, first, want)
		}
	}
}

// recipe is a training configuration of the tree.
func recipe(t *testing.T, file string) train.Config {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc, list := schemas.Load(schemas.Train, file, data)
	var cfg train.Config
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	if err := doc.Decode(&cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// unseen draws pairs of numbers whose sum no generated document asks for.
func unseen(t *testing.T, n int) [][2]int {
	t.Helper()
	cfg := recipe(t, "../catalog/core-llm/train.yaml")
	var text strings.Builder
	if err := synth.Write(&text, *cfg.Data.Generate); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`What is (\d+ plus \d+)\?`).FindAllStringSubmatch(text.String(), -1) {
		seen[m[1]] = true
	}
	if len(seen) < 500 {
		t.Fatalf("only %d questions were generated", len(seen))
	}
	r := rand.New(rand.NewPCG(1, 2))
	var all [][2]int
	for len(all) < n {
		ab := [2]int{r.IntN(100), r.IntN(100)}
		if q := fmt.Sprintf("%d plus %d", ab[0], ab[1]); !seen[q] {
			seen[q] = true
			all = append(all, ab)
		}
	}
	return all
}

// voice continues texts greedily.
type voice struct {
	tok     *tokenizer.Tokenizer
	session *infer.Session
}

func open(t *testing.T, path string) voice {
	t.Helper()
	tok, err := train.ReadTokenizer(path)
	if err != nil {
		t.Fatal(err)
	}
	model, err := infer.Load(path, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	session, err := model.NewSession(infer.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return voice{tok, session}
}

// continues encodes each part for itself, as turns are, and goes on.
func (v voice) continues(t *testing.T, parts ...string) (string, infer.Reason) {
	t.Helper()
	var ids []int32
	for i, p := range parts {
		ids = v.tok.Append(ids, p, tokenizer.Options{Add: i == 0, Special: true})
	}
	if _, err := v.session.Prompt(context.Background(), ids); err != nil {
		t.Fatal(err)
	}
	var out []int32
	stats, err := v.session.Generate(context.Background(), infer.GenerateOptions{MaxTokens: 80, StopTokens: []int32{v.tok.Special().EOS}}, func(tok infer.Token) error {
		out = append(out, tok.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return v.tok.Decode(out, tokenizer.DecodeOptions{Special: true, Continued: true}), stats.Reason
}
