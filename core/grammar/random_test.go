package grammar_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/grammar/schema"
	"mm-abi.org/mm/core/tokenizer"
)

// named is a schema of testdata/schemas.json.
type named struct {
	name string
	data json.RawMessage
}

func schemas(t testing.TB) (out []named) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "schemas.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for name, data := range all {
		out = append(out, named{name, data})
	}
	slices.SortFunc(out, func(a, b named) int { return strings.Compare(a.name, b.name) })
	return out
}

// trained returns a tokenizer of n tokens, trained on JSON and prose.
func trained(t testing.TB, n int) *tokenizer.Tokenizer {
	t.Helper()
	docs := func(yield func(string) bool) {
		for _, file := range []string{filepath.Join("testdata", "schemas.json"), "random_test.go", "../../docs/RATIONALE.md", "../../docs/NETWORKS.md", "../../docs/BENCHMARKS.md", "../../docs/MODELS.md"}[:2+4*min(1, n/2000)] {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(string(data)) {
				return
			}
		}
	}
	v, err := tokenizer.Train(docs, tokenizer.TrainOptions{VocabSize: n, Control: []string{"<s>", "</s>", "<tool_call>", "</tool_call>"}, BOS: "<s>", EOS: "</s>"})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// decode generates a text as a model with random logits would: normally
// distributed with a width that differs from text to text, so that some texts
// have nearly equal chances and others nearly one token each time. It fails at
// a dead end. A text longer than long is cut and incomplete.
func decode(t testing.TB, m *grammar.Masks, tok *tokenizer.Tokenizer, rng *rand.Rand, long int) (text string, complete bool) {
	t.Helper()
	var out strings.Builder
	width := 4 * rng.Float64()
	for s, n := m.Start(), 0; n < long; n++ {
		token, best := int32(-1), math.Inf(-1)
		for id := range allowed(m.Mask(s)) {
			// The largest of logits with Gumbel noise is a draw from their
			// softmax.
			if x := width*rng.NormFloat64() - math.Log(rng.ExpFloat64()); x > best {
				token, best = id, x
			}
		}
		if token < 0 {
			t.Fatalf("a dead end after %q", out.String())
		}
		if tok.Ends(token) {
			return out.String(), true
		}
		next, ok := m.Next(s, token)
		if !ok {
			t.Fatalf("token %d, %q, is in the mask after %q and refused", token, tok.Piece(token), out.String())
		}
		out.WriteString(tok.Piece(token))
		s = next
	}
	return out.String(), false
}

func allowed(b grammar.Bitset) func(func(int32) bool) {
	return func(yield func(int32) bool) {
		for id := range int32(64 * len(b)) {
			if b[id>>6] == 0 {
				continue
			}
			if b.Has(id) && !yield(id) {
				return
			}
		}
	}
}

// Random texts of every schema, and of the public ones that are accepted, parse and
// satisfy it, without dead ends. MM_GRAMMAR is the number for each, of public ones a
// twentieth; MM_PYTHON a Python with jsonschema that validates them as well.
func TestRandomTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: random texts of every schema")
	}
	n := 2
	if s := os.Getenv("MM_GRAMMAR"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	tok := trained(t, 400)
	vocab := grammar.Read(tok)
	judge := newJudge(t)
	total, cut, tokens := 0, 0, 0
	own := schemas(t)
	for i, s := range append(own, public(t)...) {
		if i == len(own) {
			n = max(1, n/20)
		}
		g, err := grammar.New(s.data, grammar.Options{Depth: 3 + 2*(i/len(own)), Space: schema.Space(i % 3)})
		if err != nil {
			if i >= len(own) {
				continue // listed in refused.txt
			}
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		valid, err := jsonschema.CompileString("schema.json", string(s.data))
		if err != nil && i < len(own) { // it has only RE2's patterns; Python judges the others
			t.Fatal(err)
		}
		m, err := g.Over(vocab)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		began := tokens
		for range n {
			text, complete := decode(t, m, tok, rng, 20000)
			total++
			tokens += len(text)
			if !complete {
				cut++
				continue
			}
			var v any
			dec := json.NewDecoder(strings.NewReader(text))
			dec.UseNumber()
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatalf("%s: %q: %v", s.name, text, err)
			}
			if err := dec.Decode(&v); err != nil {
				t.Fatalf("%s: %q: %v", s.name, text, err)
			}
			if valid == nil {
				judge.add(s, text)
				continue
			}
			if err := valid.Validate(v); err != nil {
				t.Fatalf("%s: %q: %v", s.name, text, err)
			}
			if !g.Holds(text) {
				t.Fatalf("%s: %q is not in its grammar", s.name, text)
			}
			judge.add(s, text)
		}
		t.Logf("%s: %d bytes", s.name, tokens-began)
	}
	t.Logf("%d texts of %d bytes, %d too long to be ended; no dead end", total, tokens, cut)
	if cut > total/200 {
		t.Errorf("%d texts did not end", cut)
	}
	judge.check()
}

// judge validates texts with Python's jsonschema.
type judge struct {
	t      *testing.T
	python string
	lines  bytes.Buffer
}

func newJudge(t *testing.T) *judge {
	return &judge{t: t, python: python("jsonschema")}
}

func (j *judge) add(s named, text string) {
	if j.python == "" {
		return
	}
	line, err := json.Marshal(map[string]any{"name": s.name, "schema": s.data, "text": text})
	if err != nil {
		j.t.Fatal(err)
	}
	j.lines.Write(append(line, '\n'))
}

func (j *judge) check() {
	if j.python == "" {
		j.t.Log("skipped: Python's jsonschema (MM_PYTHON)")
		return
	}
	cmd := exec.Command(j.python, filepath.Join("testdata", "validate.py"))
	cmd.Stdin = &j.lines
	out, err := cmd.CombinedOutput()
	j.t.Logf("%s", bytes.TrimSpace(out))
	if err != nil {
		j.t.Errorf("%v", fmt.Errorf("python: %w", err))
	}
}

// python returns $MM_PYTHON if it has the package, "" otherwise.
func python(pkg string) string {
	path := os.Getenv("MM_PYTHON")
	if path == "" || exec.Command(path, "-c", "import "+pkg).Run() != nil {
		return ""
	}
	return path
}
