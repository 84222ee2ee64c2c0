package grammar_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
)

// vocabularies runs a test for each entry of MM_GRAMMAR_VOCABS: GGUF files, or
// sizes of trained tokenizers.
func vocabularies(t *testing.T, test func(t *testing.T, tok *tokenizer.Tokenizer)) {
	list := os.Getenv("MM_GRAMMAR_VOCABS")
	if list == "" {
		t.Skip("skipped: MM_GRAMMAR_VOCABS names no vocabularies")
	}
	for _, path := range filepath.SplitList(list) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var n int
			if _, err := fmt.Sscanf(path, "%d", &n); err == nil {
				test(t, trained(t, n))
				return
			}
			tok, err := fromGGUF(path)
			if err != nil {
				t.Fatal(err)
			}
			test(t, tok)
		})
	}
}

func fromGGUF(path string) (*tokenizer.Tokenizer, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return tokenizer.FromGGUF(f)
}

// closing returns the tokens that close something.
func closing(tok *tokenizer.Tokenizer) (out []int32) {
	for id := range int32(tok.Size()) {
		if p := tok.Piece(id); tok.Ends(id) || p != "" && len(p) < 3 && strings.Trim(p, `"]}`) == "" {
			out = append(out, id)
		}
	}
	return out
}

// Masks of real tokenizers have a token exactly if it may be spelled, in some
// states of each schema, and texts of random tokens are valid.
func TestRealTokens(t *testing.T) {
	const texts, long = 25, 400
	vocabularies(t, func(t *testing.T, tok *tokenizer.Tokenizer) {
		vocab, ends := grammar.Read(tok), closing(tok)
		judge := newJudge(t)
		states, complete, cut, tokens := 0, 0, 0, 0
		for i, s := range schemas(t) {
			g, err := grammar.New(s.data, grammar.Options{Depth: 3})
			if err != nil {
				t.Fatal(err)
			}
			valid, err := jsonschema.CompileString("schema.json", string(s.data))
			if err != nil {
				t.Fatal(err)
			}
			m, rng := over(t, g, vocab), rand.New(rand.NewPCG(9, uint64(i)))
			for round := range texts {
				var out strings.Builder
				at, n := m.Start(), 0
				for ; n < long && !m.Done(at); n++ {
					mask := m.Mask(at)
					if round == 0 && n%8 == 3 && n < 24 {
						states++
						exact(t, s.name, m, tok, at, mask)
					}
					id := pick(mask, rng)
					if may := slices.DeleteFunc(slices.Clone(ends), func(id int32) bool { return !mask.Has(id) }); len(may) > 0 && rng.IntN(4) == 0 {
						id = may[rng.IntN(len(may))]
					}
					if id < 0 {
						t.Fatalf("%s: a dead end after %q", s.name, out.String())
					}
					var ok bool
					if at, ok = m.Next(at, id); !ok {
						t.Fatalf("%s: %q is in the mask after %q and refused", s.name, tok.Piece(id), out.String())
					}
					if tokens++; !tok.Ends(id) {
						out.WriteString(tok.Piece(id))
					}
				}
				if n == long || !m.Accepts(at) {
					cut++
					continue
				}
				if complete++; valid.Validate(value(t, out.String())) != nil {
					t.Errorf("%s: %q is not valid", s.name, out.String())
				}
				judge.add(s, out.String())
			}
		}
		t.Logf("%d tokens: %d masks compared with the spelling of every token; %d texts of %d tokens, all valid, %d cut; no dead end", tok.Size(), states, complete, tokens, cut)
		if complete < 20*cut {
			t.Errorf("%d texts of %d were cut", cut, cut+complete)
		}
		judge.check()
	})
}

// exact compares a mask with the spelling of every token.
func exact(t *testing.T, name string, m *grammar.Masks, tok *tokenizer.Tokenizer, at grammar.State, mask grammar.Bitset) {
	t.Helper()
	for id := range int32(tok.Size()) {
		if _, ok := m.Next(at, id); ok != mask.Has(id) {
			t.Fatalf("%s: token %q: mask %v, spelling %v", name, tok.Piece(id), mask.Has(id), ok)
		}
	}
}

// The cost of masks: the processor time of the mask and the step for each token
// of random texts, without a cache at the start, of the schemas of this package and of
// the public ones. llguidance computes the masks of the same texts if
// MM_PYTHON has it.
func TestMaskCost(t *testing.T) {
	vocabularies(t, func(t *testing.T, tok *tokenizer.Tokenizer) {
		runtime.LockOSThread() // to measure its time
		defer runtime.UnlockOSThread()
		began := time.Now()
		vocab := grammar.Read(tok)
		t.Logf("%d tokens, read in %v", tok.Size(), time.Since(began).Round(time.Millisecond))
		costs(t, "this package", tok, vocab, schemas(t), 3)
		costs(t, "public", tok, vocab, public(t), 6)
	})
}

// costs measures masks of schemas.
func costs(t *testing.T, name string, tok *tokenizer.Tokenizer, vocab *grammar.Vocabulary, set []named, depth int) {
	var masks, warm, steps []time.Duration
	dear, accepted := 0, 0
	peer := newPeer(t, tok)
	for i, s := range set {
		g, err := grammar.New(s.data, grammar.Options{Depth: depth})
		if err != nil {
			continue
		}
		accepted++
		m, rng := over(t, g, vocab), rand.New(rand.NewPCG(7, uint64(i)))
		texts := make([][]int32, 6)
		for round := range texts {
			at := m.Start()
			for n := 0; n < 60 && !m.Done(at); n++ {
				began := threadTime()
				mask := m.Mask(at)
				d := threadTime() - began
				if masks = append(masks, d); round > 2 {
					warm = append(warm, d)
				}
				if d > 50*time.Microsecond {
					dear++
				}
				id := pick(mask, rng)
				texts[round] = append(texts[round], id)
				began = threadTime()
				at, _ = m.Next(at, id)
				steps = append(steps, threadTime()-began)
			}
		}
		peer.add(s, texts)
	}
	t.Logf("%s: %d schemas, %d refused; %d masks: p50 %v p90 %v p99 %v max %v, mean %v, %.1f %% above 50µs; after three texts p50 %v p99 %v; step p50 %v p99 %v",
		name, accepted, len(set)-accepted, len(masks), at(masks, .5), at(masks, .9), at(masks, .99), at(masks, 1), mean(masks),
		100*float64(dear)/float64(len(masks)), at(warm, .5), at(warm, .99), at(steps, .5), at(steps, .99))
	peer.run()
}

// peer computes masks with llguidance.
type peer struct {
	t      *testing.T
	python string
	lines  bytes.Buffer
}

func newPeer(t *testing.T, tok *tokenizer.Tokenizer) *peer {
	p := &peer{t: t, python: python("llguidance")}
	if p.python == "" {
		return p
	}
	head := struct {
		Tokens  []string `json:"tokens"`
		End     int32    `json:"end"`
		Special []int32  `json:"special"`
	}{}
	for id := range int32(tok.Size()) {
		piece := tok.Piece(id)
		switch kind := tok.Type(id); {
		case tok.Ends(id):
			head.End = id
			fallthrough
		case kind != tokenizer.Normal && kind != tokenizer.Byte || piece == "":
			head.Special = append(head.Special, id)
			piece = fmt.Sprintf("\xff<%d>", id)
		}
		head.Tokens = append(head.Tokens, hex.EncodeToString([]byte(piece)))
	}
	p.write(head)
	return p
}

func (p *peer) write(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	p.lines.Write(append(line, '\n'))
}

func (p *peer) add(s named, texts [][]int32) {
	if p.python != "" {
		p.write(map[string]any{"name": s.name, "schema": s.data, "texts": texts})
	}
}

func (p *peer) run() {
	if p.python == "" {
		p.t.Log("skipped: llguidance (MM_PYTHON)")
		return
	}
	cmd := exec.Command(p.python, filepath.Join("testdata", "masks.py"))
	cmd.Stdin = &p.lines
	out, err := cmd.CombinedOutput()
	if p.t.Logf("%s", bytes.TrimSpace(out)); err != nil {
		p.t.Errorf("python: %v", err)
	}
}

func at(d []time.Duration, q float64) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))].Round(100 * time.Nanosecond)
}

func mean(d []time.Duration) time.Duration {
	var sum time.Duration
	for _, x := range d {
		sum += x
	}
	return (sum / time.Duration(len(d))).Round(100 * time.Nanosecond)
}
