package study

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/registry/sign"
)

// stories returns n template sentences, which a small model learns in a few steps.
func stories(n int) string {
	names := []string{"Tom", "Lily", "Anna", "Ben", "Mia", "Sam", "Zoe", "Max"}
	animals := []string{"dog", "cat", "bird", "fish", "cow"}
	places := []string{"park", "garden", "house", "wood"}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s saw a %s in the %s. The %s was happy and %s went home %d.<|endoftext|>\n",
			names[i%8], animals[i/8%5], places[i/3%4], animals[i/8%5], names[i%8], i)
	}
	return b.String()
}

const recipeText = `
model: {vocab_size: 300, dim: 16, layers: 1, heads: 2, context: 16}
data: {files: [stories.txt]}
tokenizer: {control: ["<|endoftext|>"], eos: "<|endoftext|>"}
batch_size: 4
optimizer: {name: adamw, lr: 1.0e-4}
stop: {steps: 1}
log_every: 4
`

const studyText = `
name: small
question: which rate?
recipe: recipe.yaml
tokens: 2560
seeds: [1, 2]
held_out: {choose: 0.15, judge: 0.15, documents: 40}
scheduler: {kind: halving, eta: 2, rungs: [640]}
mutations:
  - {kind: rate, values: [1.0e-2, 1.0e-6, 1.0e-5, 1.0e-4]}
  - {kind: data, values: [0.2]}
  - {name: own, set: {/optimizer/lr: [3.0e-3], /batch_size: [2]}}
hypotheses:
  - {name: fast, claim: a hundred times the rate is better, arm: rate=0.01, expect: {below: -0.05}, refute: {above: 0}}
  - {name: slow, claim: a hundredth of the rate is better, arm: rate=1e-06, expect: {below: -0.05}, refute: {above: -0.01}}
  - {name: burst, claim: the high rate diverges, arm: rate=0.01, metric: diverged}
`

// write writes the files of the small study and returns it.
func write(t testing.TB, dir, study string) (Study, Texts) {
	t.Helper()
	for name, text := range map[string]string{"stories.txt": stories(400), "recipe.yaml": recipeText, "small.study.yaml": study} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Read(filepath.Join(dir, "small.study.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return s, Texts{[]byte(study), []byte(recipeText)}
}

func newKey(t testing.TB) *sign.PrivateKey {
	t.Helper()
	private, _, err := sign.Generate(sign.Ed25519, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.LoadPrivate(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, text := write(t, dir, studyText)
	key := newKey(t)
	begin := time.Now()
	a, err := Run(context.Background(), s, Options{Dir: filepath.Join(dir, "run"), Key: key, Verifier: key.Public(), Text: text, Each: func(r chain.Row) { t.Log(r.Seq, r.Event, len(r.Payload)) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(begin))
	for _, w := range a.Words {
		t.Log(w)
	}
	for _, f := range a.Arms {
		t.Logf("%+v", f)
	}
}
