package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/testfiles"
)

// plain returns documents without context.
func plain(texts ...string) []Document {
	var all []Document
	for _, t := range texts {
		all = append(all, Document{Text: t})
	}
	return all
}

func TestReadText(t *testing.T) {
	text := " one\n two \n<|endoftext|>\n\n<|endoftext|>three four<|endoftext|>tail"
	for _, c := range []struct {
		name, sep string
		f         Filter
		want      []string
	}{
		{"plain", "", Filter{}, []string{"one\n two", "three four", "tail"}},
		{"joined", "", Filter{JoinLines: true}, []string{"one two", "three four", "tail"}},
		{"bounds", "", Filter{MinChars: 5, MaxChars: 9}, []string{"one\n two"}},
		{"separator", "four", Filter{JoinLines: true, MinChars: 20}, []string{"one two <|endoftext|> <|endoftext|>three", "<|endoftext|>tail"}[:1]},
	} {
		got, err := Collect(ReadText(strings.NewReader(text), c.sep, c.f))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(plain(c.want...), got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	big := strings.Repeat("x", MaxDocument)
	line := `{"text":"` + big[len(`{"text":""}`):] + `"}`
	for name, c := range map[string]struct{ at, beyond iter.Seq2[Document, error] }{
		"last":  {ReadText(strings.NewReader(big), "", Filter{}), ReadText(strings.NewReader(big+"x"), "", Filter{})},
		"first": {ReadText(strings.NewReader(big+Separator+"y"), "", Filter{}), ReadText(strings.NewReader(big+"x"+Separator+"y"), "", Filter{})},
		"line":  {ReadJSONL(strings.NewReader(line+"\n"), Filter{}), ReadJSONL(strings.NewReader(line+" \n"), Filter{})},
	} {
		if docs, err := Collect(c.at); err != nil || len(docs) == 0 {
			t.Errorf("%s document of MaxDocument bytes: %d documents, %v", name, len(docs), err)
		}
		if _, err := Collect(c.beyond); !errors.Is(err, ErrTooLong) {
			t.Errorf("%s document of MaxDocument + 1 bytes: %v", name, err)
		}
	}
}

func TestReadJSONL(t *testing.T) {
	got, err := Collect(ReadJSONL(strings.NewReader("{\"text\":\"a\\nb\",\"id\":1}\n\n {\"text\":\"\"}\n{\"text\":\"é\"}"), Filter{JoinLines: true}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(plain("a b", "é"), got); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"{", "[]", "{}", `{"text":5}`, `{"text":null}`, `{"text":"a"} x`} {
		if _, err := Collect(ReadJSONL(strings.NewReader("{\"text\":\"ok\"}\n"+bad), Filter{})); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestReadJSONLKeys(t *testing.T) {
	f := Filter{Keys: []string{"question", "answer"}}
	got, err := Collect(ReadJSONL(strings.NewReader(`{"answer":"2","n":[1],"question":"1+1?"}`), f))
	if d := cmp.Diff(plain("1+1?\n2"), got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	for _, bad := range []string{`{"question":"?"}`, `{"question":"?","answer":1}`, `{"question":"?","answer":null}`} {
		if _, err := Collect(ReadJSONL(strings.NewReader(bad), f)); err == nil || !strings.Contains(err.Error(), `"answer"`) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzReadJSONL(f *testing.F) {
	f.Add([]byte("{\"text\":\"a\"}\n"), 0, 10)
	f.Add([]byte("\xff\n{\"text\":\"\\ud800\"}"), 3, 0)
	f.Fuzz(func(t *testing.T, b []byte, lo, hi int) {
		filter := Filter{JoinLines: len(b)%2 == 0, MinChars: lo, MaxChars: hi}
		docs, err := Collect(ReadJSONL(bytes.NewReader(b), filter))
		if err == nil {
			for _, d := range docs {
				if strings.TrimSpace(d.Text) != d.Text || d.Text == "" {
					t.Errorf("document %q", d.Text)
				}
			}
		}
		if _, err := Collect(ReadText(bytes.NewReader(b), "\n", filter)); err != nil {
			t.Error(err)
		}
	})
}

func TestSplit(t *testing.T) {
	var docs []Document
	for i := range 100 {
		docs = append(docs, Document{Text: fmt.Sprint(i)})
	}
	train, held := Split(docs, 0.05, 7)
	if len(train) != 95 || len(held) != 5 {
		t.Fatalf("%d and %d documents", len(train), len(held))
	}
	seen := map[string]bool{}
	for _, d := range append(append([]Document(nil), train...), held...) {
		seen[d.Text] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d distinct documents", len(seen))
	}
	again, _ := Split(docs, 0.05, 7)
	other, _ := Split(docs, 0.05, 8)
	if !cmp.Equal(train, again) || cmp.Equal(train, other) {
		t.Error("order does not depend on the seed")
	}
	// Golden: the order must not change between versions of Go.
	if d := cmp.Diff([]int32{1, 7, 3, 8, 5, 6, 9, 4, 2, 0}, permutation(10, 1, 2)); d != "" {
		t.Error(d)
	}
	if a, b := Split(plain("x"), 0.5, 1); len(a) != 1 || len(b) != 0 {
		t.Error("held out the only document")
	}
}

// byteTokens is a tokenizer of bytes with EOS.
func byteTokens(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	v, err := tokenizer.Train(func(yield func(string) bool) {}, tokenizer.TrainOptions{VocabSize: 257, Control: []string{"<|endoftext|>"}, EOS: "<|endoftext|>"})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// fromIDs returns tokens in memory. A document begins at the first id and after
// every id equal to end; a negative end makes one document.
func fromIDs(ids []int32, end int32) *Tokens {
	t := &Tokens{width: 4, docs: []int64{0}}
	for i, id := range ids {
		t.ids = binary.LittleEndian.AppendUint32(t.ids, uint32(id))
		if end >= 0 && id == end && i+1 < len(ids) {
			t.docs = append(t.docs, int64(i+1))
		}
	}
	return t
}

func TestEncode(t *testing.T) {
	tok := byteTokens(t)
	tokens, err := Encode(plain("ab", "c"), tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int32, tokens.Len())
	tokens.Read(ids, 0)
	a, b, c, eos := tok.Encode("a", tokenizer.Options{})[0], tok.Encode("b", tokenizer.Options{})[0], tok.Encode("c", tokenizer.Options{})[0], tok.Special().EOS
	if d := cmp.Diff([]int32{a, b, eos, c, eos}, ids); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int64{0, 3}, tokens.docs); d != "" {
		t.Error(d)
	}
	if _, err := Encode(nil, tok, EncodeOptions{}); err == nil {
		t.Error("tokens of no documents")
	}
	if err := tokens.Check(257); err != nil {
		t.Error(err)
	}
	if tokens.Check(2) == nil {
		t.Error("accepted ids beyond the vocabulary")
	}
}

// numbered returns n tokens 0…n-1 with documents at docs.
func numbered(n int, docs ...int64) *Tokens {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i)
	}
	t := fromIDs(ids, -1)
	t.docs = append([]int64{0}, docs...)
	return t
}

func TestWindow(t *testing.T) {
	b := NewBatch(1, 6)
	b.window(0, numbered(20, 5, 8), 3)
	want := &Batch{B: 1, T: 6,
		Tokens:  []int32{3, 4, 5, 6, 7, 8},
		Targets: []int32{4, -1, 6, 7, -1, 9},
		Starts:  []int32{0, 0, 2, 2, 2, 5},
	}
	if d := cmp.Diff(want, b); d != "" {
		t.Error(d)
	}
	b.window(0, numbered(8, 5), 4) // truncated by the end
	want = &Batch{B: 1, T: 6,
		Tokens:  []int32{4, 5, 6, 7, 0, 0},
		Targets: []int32{-1, 6, 7, -1, -1, -1},
		Starts:  []int32{0, 1, 1, 1, 1, 1},
	}
	if d := cmp.Diff(want, b); d != "" {
		t.Error(d)
	}
}

// An epoch has every window once, in a new order and at a new offset, and a
// loader that starts at a position continues there.
func TestLoader(t *testing.T) {
	const T = 7
	tokens := numbered(100)
	l, err := NewLoader(tokens, T, Position{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(1, T)
	orders := make([][]int32, 4)
	for range 45 { // more than three epochs
		pos := l.Position()
		l.Next(b)
		epoch := l.Position().Epoch
		orders[epoch] = append(orders[epoch], b.Tokens[0])
		resumed, err := NewLoader(tokens, T, pos)
		if err != nil {
			t.Fatal(err)
		}
		other := NewBatch(1, T)
		resumed.Next(other)
		if d := cmp.Diff(b, other); d != "" {
			t.Fatalf("resumed at %+v: %s", pos, d)
		}
	}
	for epoch, order := range orders[:3] {
		seen := map[int32]bool{}
		for _, at := range order {
			if at%T != order[0]%T || seen[at] {
				t.Errorf("epoch %d: windows %v", epoch, order)
			}
			seen[at] = true
		}
		if len(seen) < 13 {
			t.Errorf("epoch %d has %d windows", epoch, len(seen))
		}
	}
	if cmp.Equal(orders[0], orders[1]) {
		t.Error("equal order of two epochs")
	}
	for _, p := range []Position{{Epoch: -1}, {Next: -1}, {Next: 1000}} {
		if _, err := NewLoader(tokens, T, p); err == nil {
			t.Errorf("accepted %+v", p)
		}
	}
	if _, err := NewLoader(numbered(T), T, Position{}); err == nil {
		t.Error("accepted too few tokens")
	}
}

// The evaluation windows predict every token except the first, once.
func TestWindows(t *testing.T) {
	for _, n := range []int{2, 7, 8, 9, 15, 50} {
		b := NewBatch(3, 7)
		seen := map[int32]int{}
		for b := range Windows(numbered(n), b, 0) {
			for _, v := range b.Targets {
				if v >= 0 {
					seen[v]++
				}
			}
		}
		for i := int32(1); i < int32(n); i++ {
			if seen[i] != 1 {
				t.Errorf("%d tokens: token %d predicted %d times", n, i, seen[i])
			}
		}
		if len(seen) != n-1 {
			t.Errorf("%d tokens: %d predicted", n, len(seen))
		}
	}
	windows := 0
	for b := range Windows(numbered(100), NewBatch(3, 7), 4) {
		for r := range 3 {
			if b.Targets[r*7] >= 0 {
				windows++
			}
		}
	}
	if windows != 4 {
		t.Errorf("%d windows, want 4", windows)
	}
}

func TestOpenUint16(t *testing.T) {
	dir := t.TempDir()
	raw := []byte{1, 0, 2, 0, 9, 0, 3, 1, 9, 0}
	header := "{'descr': '<u2', 'fortran_order': False, 'shape': (5,), }"
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	npy := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	npy = append(append(npy, header...), raw...)
	for name, data := range map[string][]byte{"a.bin": raw, "a.npy": npy} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := OpenUint16(path, 9)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int32, tokens.Len())
		tokens.Read(ids, 0)
		if d := cmp.Diff([]int32{1, 2, 9, 259, 9}, ids); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if d := cmp.Diff([]int64{0, 3}, tokens.docs); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if err := tokens.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, data := range map[string][]byte{
		"empty": {}, "odd": {1, 0, 2}, "cut header": npy[:9], "cut data": npy[:len(npy)-2], "long": append(append([]byte(nil), npy...), 0, 0),
		"type":  bytes.Replace(npy, []byte("<u2"), []byte("<i4"), 1),
		"shape": bytes.Replace(npy, []byte("(5,)"), []byte("(6,)"), 1), "version": bytes.Replace(npy, []byte("NUMPY\x01"), []byte("NUMPY\x07"), 1),
		"negative": bytes.Replace(npy, []byte("(5,)"), []byte("(-5)"), 1),
	} {
		path := filepath.Join(dir, "bad")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if tokens, err := OpenUint16(path, -1); err == nil {
			tokens.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzNPY(f *testing.F) {
	f.Add([]byte("\x93NUMPY\x01\x00\x04\x00{}\n\n"))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr': '<u2', 'fortran_order': False, 'shape': (1,), }\n\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ids, err := payload(b); err == nil && len(ids) > len(b) {
			t.Error("more ids than bytes")
		}
	})
}

// On tokens from a bigram process the bigram baseline equals its entropy and
// the unigram baseline does not; nothing is fitted to the held-out tokens.
func TestNGrams(t *testing.T) {
	draw := func(n int, seed uint64) *Tokens {
		p := permutation(n, seed, 0) // as random numbers
		ids := make([]int32, n)
		for i := 1; i < n; i++ {
			ids[i] = (ids[i-1]*3 + p[i]&1) % 16 // one of two successors, with equal probability
		}
		return fromIDs(ids, -1)
	}
	b, err := NGrams(draw(40000, 1), draw(8000, 2), 16)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(b.Bigram-math.Ln2) > 0.01 || math.Abs(b.Trigram-math.Ln2) > 0.02 {
		t.Errorf("bigram %v, trigram %v, want ln 2", b.Bigram, b.Trigram)
	}
	if b.Unigram < 2 || b.Uniform != math.Log(16) || b.Predictions != 7999 {
		t.Errorf("%+v", b)
	}
	if _, err := NGrams(numbered(50), numbered(50), 10); err == nil {
		t.Error("accepted ids beyond the vocabulary")
	}
}

// The baselines of the trainer's results.
func TestTinyStoriesBaselines(t *testing.T) {
	f, err := os.Open(testfiles.Shared(t, "tinystories", "tinystories_sample.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	docs, err := Collect(ReadText(f, "", Filter{JoinLines: true, MinChars: 51, MaxChars: 1999}))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 2254 {
		t.Errorf("%d stories, want 2254", len(docs))
	}
	train, held := Split(docs, 0.05, 0)
	v, err := tokenizer.Train(Texts(train), tokenizer.TrainOptions{VocabSize: 1024, Pre: tokenizer.PreNone})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Encode(train, tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Encode(held, tok, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	base, err := NGrams(a, b, 1024)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d train, %d held-out tokens, %+v", a.Len(), b.Len(), base)
	if base.Unigram < 6.1 || base.Unigram > 6.4 || base.Bigram < 3.7 || base.Bigram > 4.1 || base.Trigram < 3.1 || base.Trigram > 3.5 {
		t.Errorf("unexpected baselines: %+v", base)
	}
}
