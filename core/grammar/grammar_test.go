package grammar_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
)

func over(t testing.TB, g *grammar.Grammar, v *grammar.Vocabulary, ends ...int32) *grammar.Masks {
	t.Helper()
	m, err := g.Over(v, ends...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newGrammar(t testing.TB, text string) *grammar.Grammar {
	t.Helper()
	g, err := grammar.New([]byte(text), grammar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// bytesOnly returns a tokenizer with a token for each byte, and more.
func bytesOnly(t testing.TB, more ...string) *tokenizer.Tokenizer {
	t.Helper()
	v := tokenizer.Vocabulary{Model: tokenizer.BPE, Pre: "gpt-2", Special: tokenizer.NoSpecial, WholeWords: true}
	v.Tokens = append(v.Tokens, tokenizer.Token{Text: "</s>", Type: tokenizer.Control}, tokenizer.Token{Text: "</tool_call>", Type: tokenizer.UserDefined})
	v.Special.EOS = 0
	for b := range 256 {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: tokenizer.ToAlphabet(string([]byte{byte(b)}))})
	}
	for _, m := range more {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: tokenizer.ToAlphabet(m)})
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// A mask has a token exactly if its bytes may follow: walks, truncated counters
// and sorted tokens agree with spelling each token.
func TestMaskIsExact(t *testing.T) {
	more := []string{`"`, `",`, `":"`, `"}`, "ab", "abc", "abcdefghijkl", `a"`, `ab"}`, "é", "éé", "\xa9\"", `\"`, `\u00`, "00", "12", "1}", "true", "null,", `{"`, `{"a":`, "  ", `a","a":`, `"a":`, "\n\n", "1.", "e1", "]]", `","`}
	// Branches large enough to be accepted at once.
	for _, a := range "abZ19-." {
		for _, b := range "abZ19-. é" {
			for _, c := range "ab19-\"" {
				for _, d := range []string{"", "a", "1", "a1", "bbbbb", "aaaaaaaaaaaaaaaaaaaa", "-b", "."} {
					more = append(more, string([]rune{a, b, c})+d)
				}
			}
		}
	}
	slices.Sort(more)
	tok := bytesOnly(t, slices.DeleteFunc(slices.Compact(more), func(s string) bool { return len(s) == 1 })...)
	vocab := grammar.Read(tok)
	rng := rand.New(rand.NewPCG(3, 4))
	states := 0
	for _, s := range schemas(t) {
		g, err := grammar.New(s.data, grammar.Options{Depth: 3})
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		m := over(t, g, vocab)
		at := m.Start()
		for range 12 {
			mask := m.Mask(at)
			var may []int32
			for id := range int32(tok.Size()) {
				_, ok := m.Next(at, id)
				if ok != mask.Has(id) {
					t.Fatalf("%s: token %q: mask %v, spelling %v", s.name, tok.Piece(id), mask.Has(id), ok)
				}
				if ok {
					may = append(may, id)
				}
			}
			if len(may) == 0 {
				t.Fatalf("%s: a dead end", s.name)
			}
			if mask.Count() != len(may) {
				t.Fatalf("%s: %d of %d", s.name, mask.Count(), len(may))
			}
			if mask.Has(1) {
				t.Fatalf("%s: </tool_call> is text", s.name)
			}
			if states++; mask.Has(0) != m.Accepts(at) {
				t.Fatalf("%s: the end is allowed: %v", s.name, mask.Has(0))
			}
			long := slices.DeleteFunc(slices.Clone(may), func(id int32) bool { return len(tok.Piece(id)) < 2 || id < 2 })
			if len(long) > 0 && rng.IntN(2) == 0 {
				may = long
			}
			if at, _ = m.Next(at, may[rng.IntN(len(may))]); m.Done(at) {
				at = m.Start()
			}
		}
	}
	t.Logf("%d states, each of %d tokens", states, tok.Size())
}

// After each byte of texts with distinct keys and strings, a mask has a token
// exactly if its bytes may follow: tokens that end a used key are excluded,
// whatever part of it, or of others, they contain.
func TestTaken(t *testing.T) {
	more := []string{`a"`, `a":`, `b"`, `ab":1`, `"a`, `"a":`, `"ab"`, `""`, `"":`, `":1,"`, `":1,"a":`, `a":1,"a":`, `a":1,"b":`, `b":1,"b":2`, `":1,"":`,
		`,"`, `,"a":`, `,"x":`, `{"`, `{"a":{"a":1}`, `":{"a":`, `1},"a":1`, `1},"b":1`, `}},"a":1}`, `","`, `"a","a"`, `"a","b"]`, `a","`, `\n":`, `\n`, `1,"a":1}`, "\xa9\":", `c":1,"d":1,"e":1,"c":`}
	for i := range 27 { // a branch large enough to be accepted at once
		more = append(more, `a":"`+string([]byte{"xyz"[i%3], "xyz"[i/3%3], "xyz"[i/9]}))
	}
	tok := bytesOnly(t, more...)
	vocab := grammar.Read(tok)
	refused := 0
	for schema, texts := range map[string][]string{
		`{"type": "object", "additionalProperties": {"type": "integer"}}`:                                                                                                                         {`{"a":1,"ab":1,"":1,"é":1,"\n":1,"abc":1,"c":1,"d":1}`},
		`{"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}}}`:                                                                             {`{"a":{"a":1,"b":1},"b":{"a":1},"ab":{}}`},
		`{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": {"type": "integer"}}`:                                                            {`{"a":1,"ab":1,"b":1,"aa":2}`},
		`{"type": "object", "additionalProperties": {"type": "string"}}`:                                                                                                                          {`{"a":"x","ab":"yz"}`},
		`{"type": "array", "items": {"type": "string"}, "uniqueItems": true}`:                                                                                                                     {`["a","ab","","b","aa"]`},
		`{"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}}]}`: {`{"a":1,"ab":1,"b":1}`, `{"a":1,"ab":true,"b":false}`},
	} {
		m := over(t, newGrammar(t, schema), vocab)
		for _, text := range texts {
			along(t, schema, m, tok, text, func(i int, mask grammar.Bitset) {
				if a := tok.ID(`a":`); i > 0 && text[i-1] == '"' && !mask.Has(a) {
					refused++
				}
			})
		}
	}
	if refused < 20 {
		t.Errorf("a used key was refused %d times", refused)
	}
}

// along steps through the bytes of a text, and compares the mask after each
// with the spelling of every token.
func along(t *testing.T, name string, m *grammar.Masks, tok *tokenizer.Tokenizer, text string, see func(i int, mask grammar.Bitset)) {
	t.Helper()
	at := m.Start()
	for i := 0; ; i++ {
		mask := m.Mask(at)
		exact(t, name+" after "+text[:i], m, tok, at, mask)
		see(i, mask)
		if i == len(text) {
			return
		}
		var ok bool
		if at, ok = m.Next(at, tok.ID(tokenizer.ToAlphabet(text[i:i+1]))); !ok {
			t.Fatalf("%s refuses %s at %d", name, text, i)
		}
	}
}

// A branch of tokens is accepted at once only if all of it may follow: by the
// kinds of its bytes, and by their number.
func TestBranches(t *testing.T) {
	var more []string
	for _, a := range "ab1-" {
		for _, b := range "ab1-" {
			for _, c := range "ab1-" {
				for _, d := range []string{"", "a", "b", "1", "-", "aa", "ab", "1-", `"`, "1\""} {
					more = append(more, string([]rune{a, b, c})+d, string([]rune{a, b})+d)
				}
			}
		}
	}
	slices.Sort(more)
	tok := bytesOnly(t, slices.Compact(more)...)
	vocab := grammar.Read(tok)
	for pattern, text := range map[string]string{
		`^[a-z]{1,5}(?:-[0-9]{1,3})*$`:   `"abcde-123-1"`,
		`^(?:[a-z]{3}[0-9]{9}|[0-9]+-)$`: `"abc123456789"`,
		`^[a-y0-9]{2,6}-?$`:              `"a1b2c3-"`,
		`^(?:[ab]|1-)*$`:                 `"ab1-a"`,
		`[0-9]{3}`:                       `"ab-12-123a"`,
	} {
		m := over(t, newGrammar(t, fmt.Sprintf(`{"type": "string", "pattern": %q, "maxLength": 14}`, pattern)), vocab)
		along(t, pattern, m, tok, text, func(int, grammar.Bitset) {})
	}
}

// The counter of a string is exact at both ends for all tokens.
func TestCounters(t *testing.T) {
	tok := bytesOnly(t, "ab", "abcd", "abcdefgh", `abc"`, "éé", `\"`, `\u0041`)
	m := over(t, newGrammar(t, `{"type": "string", "minLength": 5, "maxLength": 9}`), grammar.Read(tok))
	walk := func(pieces ...string) (grammar.State, bool) {
		at, ok := m.Start(), true
		for _, p := range pieces {
			if at, ok = m.Next(at, tok.ID(tokenizer.ToAlphabet(p))); !ok {
				return at, false
			}
		}
		return at, true
	}
	for _, c := range []struct {
		pieces []string
		ok     bool
	}{
		{[]string{`"`, "abcd", "ab", `abc"`}, true}, {[]string{`"`, "abcdefgh", "ab"}, false}, {[]string{`"`, "abcd", `"`}, false},
		{[]string{`"`, "ab", `abc"`}, true}, {[]string{`"`, "éé", "éé", `\"`, `"`}, true}, {[]string{`"`, "abcdefgh", `\u0041`, `"`}, true},
		{[]string{`"`, "abcdefgh", `\u0041`, "a"}, false},
	} {
		if _, ok := walk(c.pieces...); ok != c.ok {
			t.Errorf("%q is %v", c.pieces, ok)
		}
	}
}

func TestForced(t *testing.T) {
	tok := bytesOnly(t, `{"`, `":`, `":"`, "tool", "name", `":"a`, "to", "ol", `",`)
	vocab := grammar.Read(tok)
	spell := func(ids []int32) (out []string) {
		for _, id := range ids {
			out = append(out, tok.Piece(id))
		}
		return out
	}
	g := newGrammar(t, `{"properties": {"tool": {"type": "string"}}, "required": ["tool"]}`)
	m := over(t, g, vocab)
	// `":"a` may replace `":"`.
	if got := strings.Join(spell(m.Forced(m.Start())), "|"); got != `{"|tool` && got != `{"|t|o|o|l` {
		t.Errorf("forced %q", got)
	}
	at := m.Start()
	for _, id := range m.Forced(at) {
		at, _ = m.Next(at, id)
	}
	if got := m.Forced(at); len(got) != 0 {
		t.Errorf("forced %q", spell(got))
	}
	full := over(t, newGrammar(t, `{"const": {"tool": "name"}}`), vocab)
	if got := strings.Join(spell(full.Forced(full.Start())), ""); got != `{"tool":"name"}</s>` {
		t.Errorf("forced %q", got)
	}
	if got := full.Forced(grammar.State{}); got != nil {
		t.Errorf("forced %q without a state", spell(got))
	}
	// The end is forced if it has a single token and nothing else may follow.
	eos := tok.Special().EOS
	one, err := newGrammar(t, `{"const": 7}`).Over(vocab, eos)
	if err != nil {
		t.Fatal(err)
	}
	if got := one.Forced(one.Start()); len(got) != 2 || got[1] != eos {
		t.Errorf("forced %q", spell(got))
	}
	two, err := newGrammar(t, `{"const": 7}`).Over(vocab, eos, tok.ID("</tool_call>"))
	if err != nil {
		t.Fatal(err)
	}
	if got := two.Forced(two.Start()); len(got) != 1 {
		t.Errorf("forced %q with two ends", spell(got))
	}
	more, err := newGrammar(t, `{"type": "integer", "minimum": 1, "maximum": 19}`).Over(vocab, eos)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := more.Next(more.Start(), tok.ID("1")); !ok || len(more.Forced(s)) != 0 {
		t.Errorf("forced %q where a digit may follow", spell(more.Forced(s)))
	}
	// Each forced token is allowed at its position.
	for _, s := range schemas(t) {
		g, err := grammar.New(s.data, grammar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := over(t, g, vocab)
		at := m.Start()
		for _, id := range m.Forced(at) {
			if !m.Mask(at).Has(id) {
				t.Errorf("%s: %q is forced and not allowed", s.name, tok.Piece(id))
			}
			at, _ = m.Next(at, id)
		}
	}
}

// mmabi is the format of MM-ABI.
var mmabi = grammar.Call{Name: "tool", Arguments: "args"}

// A call selects one of the tools, with arguments that its schema accepts.
func TestCall(t *testing.T) {
	tools := []grammar.Tool{
		{"sum", []byte(`{"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}`)},
		{"find \"it\"", []byte(`{"properties": {"q": {"type": "string", "minLength": 1}}, "required": ["q"]}`)},
		{"now", []byte(`true`)},
	}
	tok := trained(t, 300)
	vocab := grammar.Read(tok)
	for _, call := range []grammar.Call{mmabi, grammar.Hermes()} {
		g, err := grammar.NewCall(tools, call, grammar.Options{Depth: 2})
		if err != nil {
			t.Fatal(err)
		}
		write := func(name, args string) string {
			return call.Before + fmt.Sprintf(`{"%s":%s,"%s":%s}`, call.Name, name, call.Arguments, args) + call.After
		}
		for text, want := range map[string]bool{
			write(`"sum"`, `{"a":1,"b":2}`): true, write(`"find \"it\""`, `{"q":"x"}`): true, write(`"now"`, `{}`): true, write(`"now"`, `{"x":[1]}`): true,
			write(`"sum"`, `{"q":"x"}`): false, write(`"now"`, `3`): false, write(`"su"`, `{}`): false, write(`"sum"`, `{"a":1,"b":2}`) + " ": false,
		} {
			if g.Holds(text) != want {
				t.Errorf("%s is %v", text, !want)
			}
		}
		end := tok.ID("</tool_call>")
		m := over(t, g, vocab, end)
		rng := rand.New(rand.NewPCG(5, 6))
		for range 5 {
			at := m.Start()
			for n := 0; !m.Done(at) && n < 400; n++ {
				mask := m.Mask(at)
				if mask.Has(end) != m.Accepts(at) || mask.Has(tok.ID("</s>")) {
					t.Fatal("the end of a call is elsewhere")
				}
				at, _ = m.Next(at, pick(mask, rng))
			}
		}
	}
	_, err := grammar.NewCall([]grammar.Tool{tools[0], {"bad", []byte(`{"contains": {}, "maxContains": -1}`)}}, mmabi, grammar.Options{})
	if err == nil || !strings.Contains(err.Error(), "bad /maxContains") {
		t.Errorf("%v", err)
	}
	if _, err := grammar.NewCall(nil, mmabi, grammar.Options{}); err == nil {
		t.Error("a call of no tool")
	}
}

// pick returns a random token of a set.
func pick(b grammar.Bitset, rng *rand.Rand) int32 {
	n := rng.IntN(b.Count())
	for id := range allowed(b) {
		if n--; n < 0 {
			return id
		}
	}
	return -1
}

// A vocabulary that cannot spell a grammar is refused, and one that can is
// accepted.
func TestVocabularies(t *testing.T) {
	v := tokenizer.Vocabulary{Model: tokenizer.BPE, Pre: "gpt-2", Special: tokenizer.NoSpecial, WholeWords: true}
	v.Tokens = []tokenizer.Token{{Text: "</s>", Type: tokenizer.Control}, {Text: "1"}, {Text: "2"}, {Text: "12"}}
	v.Special.EOS = 0
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	vocab := grammar.Read(tok)
	if _, err := newGrammar(t, `{"enum": [1, 2, 12, 21]}`).Over(vocab); err != nil {
		t.Error(err)
	}
	if _, err := newGrammar(t, `{"enum": [3, 31]}`).Over(vocab); err == nil || !strings.Contains(err.Error(), "0x33") {
		t.Errorf("%v", err)
	}
	if m := over(t, newGrammar(t, `{"enum": [1, 3, 13]}`), vocab); m.Mask(m.Start()).Count() != 1 {
		t.Errorf("%d tokens begin a text, want the 1 alone", m.Mask(m.Start()).Count())
	}
	if _, err := newGrammar(t, `{"enum": [1, 2]}`).Over(vocab, 1); err == nil {
		t.Error("the only token for a byte ends texts")
	}
	if _, err := newGrammar(t, `{"const": 1}`).Over(vocab, 9); err == nil {
		t.Error("token 9 of 4")
	}
}

// Texts with bytes that no token writes are left out, for each schema: masks agree with the
// spelling of every token, no state is a dead end, and texts are valid, in UTF-8 too.
func TestLackingBytes(t *testing.T) {
	full := bytesOnly(t, `{"`, `":`, `",`, `a"`, "é", "\U0001F600", "\U00040000", "ab\xf1", "\xf0\x9f", "~a", "a~")
	for name, lacking := range map[string]string{"SmolLM2": "\xf1\xf2", "letters": "q~Z\xc3\xf0", "ASCII only": func() string {
		var b []byte
		for i := 0x80; i < 0x100; i++ {
			b = append(b, byte(i))
		}
		return string(b)
	}()} {
		v := tokenizer.Vocabulary{Model: tokenizer.BPE, Pre: "gpt-2", Special: tokenizer.NoSpecial, WholeWords: true}
		v.Special.EOS = 0
		for id := range int32(full.Size()) {
			piece := full.Piece(id)
			switch {
			case len(piece) == 1 && strings.Contains(lacking, piece):
			case id < 2:
				v.Tokens = append(v.Tokens, tokenizer.Token{Text: piece, Type: full.Type(id)})
			default:
				v.Tokens = append(v.Tokens, tokenizer.Token{Text: tokenizer.ToAlphabet(piece)})
			}
		}
		tok, err := tokenizer.New(v)
		if err != nil {
			t.Fatal(err)
		}
		vocab := grammar.Read(tok)
		rng := rand.New(rand.NewPCG(8, 8))
		refused, texts := 0, 0
		for _, s := range schemas(t) {
			g, err := grammar.New(s.data, grammar.Options{Depth: 3})
			if err != nil {
				t.Fatal(err)
			}
			m, err := g.Over(vocab)
			if err != nil {
				t.Logf("%s: %s: %v", name, s.name, err)
				refused++
				continue
			}
			valid, err := jsonschema.CompileString("schema.json", string(s.data))
			if err != nil {
				t.Fatal(err)
			}
			at := m.Start()
			for n := 0; n < 12 && !m.Done(at); n++ {
				mask := m.Mask(at)
				exact(t, name+": "+s.name, m, tok, at, mask)
				at, _ = m.Next(at, pick(mask, rng))
			}
			for range 3 {
				text, complete := decode(t, m, tok, rng, 2000)
				if !complete {
					continue
				}
				texts++
				if !utf8.ValidString(text) || strings.ContainsAny(text, lacking) && name == "letters" || valid.Validate(value(t, text)) != nil {
					t.Errorf("%s: %s gives %q", name, s.name, text)
				}
			}
		}
		if texts < 60 || refused > 1 {
			t.Errorf("%s: %d texts, %d schemas refused", name, texts, refused)
		}
	}
}

// Keys of which few are left without a byte are left out: used ones could not be completed.
func TestLackingKeys(t *testing.T) {
	v := tokenizer.Vocabulary{Model: tokenizer.BPE, Pre: "gpt-2", Special: tokenizer.NoSpecial, WholeWords: true}
	v.Tokens, v.Special.EOS = []tokenizer.Token{{Text: "</s>", Type: tokenizer.Control}}, 0
	for _, b := range `{"aby:nul,}` {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: string(b)})
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	m := over(t, newGrammar(t, `{"type":"object","patternProperties":{"^bz*$|^ay*$":{"type":"null"}},"minProperties":3,"maxProperties":4}`), grammar.Read(tok))
	rng := rand.New(rand.NewPCG(1, 2))
	complete := 0
	for range 50 {
		text, ok := decode(t, m, tok, rng, 400)
		if strings.Contains(text, "b") {
			t.Fatalf("%s: the only key with b cannot be written twice", text)
		}
		if ok {
			complete++
		}
	}
	if complete < 10 {
		t.Errorf("%d of 50 texts are complete", complete)
	}
}

// A follower accepts any history, including rejected drafts.
func TestFollow(t *testing.T) {
	tok := bytesOnly(t)
	id := func(s string) int32 { return tok.ID(tokenizer.ToAlphabet(s)) }
	f := over(t, newGrammar(t, `{"enum": ["ab", "ac"]}`), grammar.Read(tok)).Follow()
	logits := make([]float32, tok.Size())
	for _, c := range []struct{ written, may string }{{"", `"`}, {`"a`, "bc"}, {`"ab`, `"`}, {`"a`, "bc"}, {`"ac`, `"`}, {`"`, "a"}} {
		var ids []int32
		for i := range len(c.written) {
			ids = append(ids, id(c.written[i:i+1]))
		}
		clear(logits)
		if err := f.Mask(ids, logits); err != nil {
			t.Fatal(err)
		}
		var may string
		for i, x := range logits {
			if !math.IsInf(float64(x), -1) {
				may += tok.Piece(int32(i))
			}
		}
		if may != c.may {
			t.Errorf("after %s: %q, want %q", c.written, may, c.may)
		}
	}
	if err := f.Mask([]int32{id("x")}, logits); err == nil {
		t.Error("x is followed")
	}
}
