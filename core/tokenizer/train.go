// Training of byte-level byte pair encoding derives the merges of a
// [Vocabulary] from text.
//
// [Train] counts the words of the text, so that each distinct word is processed
// once, and then merges the most frequent pair of neighboring tokens until the
// vocabulary is full. An index from each pair to its positions makes a merge
// cost what it changes, and a heap finds the next one. The result is exact:
// every merge is the most frequent pair at that time, with ties broken by the
// smallest ids. The same text gives the same vocabulary.

package tokenizer

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"math"
	"slices"
)

// TrainOptions configures training.
type TrainOptions struct {
	// VocabSize is V, the number of tokens: control tokens, 256 bytes and one
	// for each merge. The result is smaller if the text has no more pairs.
	VocabSize int
	// Pre is the pre-tokenizer that splits text into words, which merges do not
	// cross: "gpt-2", "llama-bpe", "smollm" and so on, or [PreNone]. If empty,
	// the default is "gpt-2".
	Pre string
	// Control lists the texts of control tokens, such as <s>. They get the
	// first ids, in order.
	Control []string
	// BOS and EOS select the Control tokens that begin and end a sequence, if
	// not empty. Encode adds BOS, and EOS if AddEOS is set.
	BOS, EOS string
	AddEOS   bool
	// MinCount is the minimum count of a merged pair. If zero, the default is
	// 2.
	MinCount int
	// MaxTokenBytes limits the length of a token. If zero, there is no limit.
	MaxTokenBytes int
}

const maxVocabSize = 1 << 22

// Train learns a vocabulary from documents. Merges do not cross documents.
func Train(docs iter.Seq[string], opt TrainOptions) (Vocabulary, error) {
	if opt.Pre == "" {
		opt.Pre = "gpt-2"
	}
	if opt.MinCount == 0 {
		opt.MinCount = 2
	}
	if opt.MaxTokenBytes == 0 {
		opt.MaxTokenBytes = math.MaxInt
	}
	want := opt.VocabSize - len(opt.Control)
	switch {
	case want < 256 || opt.VocabSize > maxVocabSize:
		return Vocabulary{}, fmt.Errorf("bpe: bad vocabulary size %d, want room for 256 bytes and %d control tokens, limit %d",
			opt.VocabSize, len(opt.Control), maxVocabSize)
	case opt.MinCount < 1 || opt.MaxTokenBytes < 2:
		return Vocabulary{}, fmt.Errorf("bpe: MinCount %d or MaxTokenBytes %d is out of range", opt.MinCount, opt.MaxTokenBytes)
	}
	list, err := count(docs, opt.Pre)
	if err != nil {
		return Vocabulary{}, err
	}
	t, err := newTrainer(list, opt)
	if err != nil {
		return Vocabulary{}, err
	}
	for len(t.texts) < want && t.step() {
	}
	return t.vocabulary(opt)
}

// word is a distinct word and its count.
type word struct {
	text  string
	count int64
}

// count counts words, in the order of their first occurrence.
func count(docs iter.Seq[string], pre string) ([]word, error) {
	rule, ok := findPretokenizer(pre)
	if !ok || rule.Chars {
		return nil, fmt.Errorf("bpe: unknown or character-level pre-tokenizer %q", pre)
	}
	var list []word
	index := make(map[string]int)
	add := func(w string) {
		i, seen := index[w]
		if !seen {
			i = len(list)
			index[w] = i
			list = append(list, word{text: w})
		}
		list[i].count++
	}
	for doc := range docs {
		rule.Split(doc, add)
	}
	return list, nil
}

// trainer holds the text as growing tokens. A token of n bytes takes n slots;
// the first and the last of them hold its id, so that the neighbors on both
// sides are found without links. Words are separated by slots of gap.
type trainer struct {
	slots  []int32
	counts []int64 // by slot: count of its word; nil if all are 1
	texts  []string
	ids    map[string]int32 // by text
	merges [][2]int32
	merged map[[2]int32]bool
	pairs  []pair
	index  map[[2]int32]int32
	queue  pairQueue
	min    int64
	max    int // bytes of a token

	// Caches of one merge into a new token, by the id of a neighbor: the index
	// of the pair that the merge removes and of the pair it creates, minus 1.
	before, after sides
}

const (
	gap   = -1 // between words
	stale = -2 // start of a token that is now part of another
)

// pair is two neighboring tokens, their count, and the slots where the left one
// starts. Positions invalidated by merges stay in the list.
type pair struct {
	left, right int32
	count       int64
	places      []int32
}

// newTrainer lays out the words and indexes their byte pairs.
func newTrainer(list []word, opt TrainOptions) (*trainer, error) {
	total, repeated := 1, false
	for _, w := range list {
		total += len(w.text) + 1
		repeated = repeated || w.count > 1
		if total > math.MaxInt32 {
			return nil, fmt.Errorf("bpe: distinct words exceed %d bytes", math.MaxInt32)
		}
	}
	t := &trainer{
		slots: make([]int32, total), index: make(map[[2]int32]int32),
		ids: make(map[string]int32), merged: make(map[[2]int32]bool),
		min: int64(opt.MinCount), max: opt.MaxTokenBytes,
		before: newSides(opt.VocabSize), after: newSides(opt.VocabSize),
	}
	if repeated {
		t.counts = make([]int64, total)
	}
	for b := range 256 {
		t.token(string([]byte{byte(b)}))
	}
	t.slots[0] = gap
	at := 1
	for _, w := range list {
		for i := range len(w.text) {
			t.slots[at] = int32(w.text[i])
			if repeated {
				t.counts[at] = w.count
			}
			at++
		}
		t.slots[at] = gap
		at++
	}
	t.indexBytes()
	return t, nil
}

// indexBytes finds the byte pairs and their positions, in two passes so that
// all positions are in one block.
func (t *trainer) indexBytes() {
	counts, places := make([]int64, 1<<16), make([]int32, 1<<16)
	each := func(do func(key, at int32)) {
		for i := 1; i+1 < len(t.slots); i++ {
			if l, r := t.slots[i], t.slots[i+1]; l != gap && r != gap {
				do(l<<8|r, int32(i))
			}
		}
	}
	total := 0
	each(func(key, at int32) {
		counts[key] += t.count(at)
		places[key]++
		total++
	})
	block := make([]int32, 0, total)
	of := make([]int32, 1<<16)
	for key, n := range places {
		if n > 0 {
			from := len(block)
			block = block[:from+int(n)]
			of[key] = t.pair(int32(key>>8), int32(key&0xff))
			p := &t.pairs[of[key]]
			p.count, p.places = counts[key], block[from:from:from+int(n)]
			heap.Push(&t.queue, entry{p.count, p.left, p.right, of[key]})
		}
	}
	each(func(key, at int32) {
		p := &t.pairs[of[key]]
		p.places = append(p.places, at)
	})
}

// count returns the count of the word at a slot.
func (t *trainer) count(at int32) int64 {
	if t.counts == nil {
		return 1
	}
	return t.counts[at]
}

// token returns the id of a text, creating it if new. Two pairs may have the
// same union, as a+bc and ab+c: it is one token.
func (t *trainer) token(text string) int32 {
	id, ok := t.ids[text]
	if !ok {
		id = int32(len(t.texts))
		t.texts = append(t.texts, text)
		t.ids[text] = id
	}
	return id
}

// pair returns the index of a pair, creating it if new.
func (t *trainer) pair(left, right int32) int32 {
	key := [2]int32{left, right}
	i, ok := t.index[key]
	if !ok {
		i = int32(len(t.pairs))
		t.pairs = append(t.pairs, pair{left: left, right: right})
		t.index[key] = i
	}
	return i
}

// step merges the most frequent pair, or returns false if none is frequent
// enough.
func (t *trainer) step() bool {
	i, ok := t.best()
	if !ok {
		return false
	}
	p := t.pairs[i]
	key := [2]int32{p.left, p.right}
	union := t.token(t.texts[p.left] + t.texts[p.right])
	if !t.merged[key] {
		t.merged[key] = true
		t.merges = append(t.merges, key)
	}
	if p.left == p.right {
		slices.Sort(p.places) // in a run of one token the left pair goes first
	}
	for _, at := range p.places {
		t.merge(at, p.left, p.right, union)
	}
	t.before.drain(func(int32) {})
	t.pairs[i].count, t.pairs[i].places = 0, nil
	delete(t.index, key)
	t.after.drain(func(j int32) {
		if p := &t.pairs[j]; p.count >= t.min {
			heap.Push(&t.queue, entry{p.count, p.left, p.right, j})
		}
	})
	return true
}

// best takes the most frequent pair from the queue. An entry whose count has
// fallen is reinserted with its current count; a risen count was inserted
// again.
func (t *trainer) best() (int32, bool) {
	for len(t.queue) > 0 {
		top := &t.queue[0]
		p := &t.pairs[top.pair]
		switch {
		case top.count != p.count && p.count >= t.min:
			top.count = p.count
			heap.Fix(&t.queue, 0)
		case p.count < t.min || len(t.texts[p.left])+len(t.texts[p.right]) > t.max:
			heap.Pop(&t.queue)
		default:
			return heap.Pop(&t.queue).(entry).pair, true
		}
	}
	return 0, false
}

// merge joins left and right at a position, unless they have changed.
func (t *trainer) merge(at, left, right, union int32) {
	mid := at + int32(len(t.texts[left]))
	if t.slots[at] != left || t.slots[mid] != right {
		return
	}
	end := mid + int32(len(t.texts[right]))
	n := t.count(at)
	if l := t.slots[at-1]; l != gap {
		t.pairs[t.before.left(t, l, left)].count -= n
		t.grow(t.after.left(t, l, union), n, at-int32(len(t.texts[l])))
	}
	if r := t.slots[end]; r != gap {
		t.pairs[t.before.right(t, right, r)].count -= n
		t.grow(t.after.right(t, union, r), n, at)
	}
	if end-mid > 1 {
		t.slots[mid] = stale
	}
	t.slots[at], t.slots[end-1] = union, union
}

func (t *trainer) grow(i int32, n int64, at int32) {
	p := &t.pairs[i]
	p.count += n
	p.places = append(p.places, at)
}

// sides caches, during one merge, the pair of a neighbor and the merged tokens:
// one index lookup for each neighbor instead of each position.
type sides struct {
	lefts, rights []int32 // by the neighbour's id: pair index plus 1, or 0
	used          []int32
}

func newSides(size int) sides {
	return sides{lefts: make([]int32, size), rights: make([]int32, size)}
}

// left returns the pair of a left neighbor and tok.
func (s *sides) left(t *trainer, neighbour, tok int32) int32 {
	if s.lefts[neighbour] == 0 {
		s.lefts[neighbour] = t.pair(neighbour, tok) + 1
		s.used = append(s.used, neighbour)
	}
	return s.lefts[neighbour] - 1
}

// right returns the pair of tok and a right neighbor.
func (s *sides) right(t *trainer, tok, neighbour int32) int32 {
	if s.rights[neighbour] == 0 {
		s.rights[neighbour] = t.pair(tok, neighbour) + 1
		s.used = append(s.used, neighbour)
	}
	return s.rights[neighbour] - 1
}

// drain calls do for each pair once, and resets the cache.
func (s *sides) drain(do func(pair int32)) {
	for _, id := range s.used {
		for _, slot := range []*int32{&s.lefts[id], &s.rights[id]} {
			if *slot != 0 {
				do(*slot - 1)
				*slot = 0
			}
		}
	}
	s.used = s.used[:0]
}

// entry is a queued pair, with its count at that time.
type entry struct {
	count       int64
	left, right int32
	pair        int32
}

// pairQueue is a heap with the most frequent pair first, ties broken by the
// smallest ids.
type pairQueue []entry

func (q pairQueue) Len() int      { return len(q) }
func (q pairQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q pairQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.left, b.left), cmp.Compare(a.right, b.right)) < 0
}
func (q *pairQueue) Push(x any) { *q = append(*q, x.(entry)) }
func (q *pairQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// vocabulary returns the result: control tokens, bytes, unions.
func (t *trainer) vocabulary(opt TrainOptions) (Vocabulary, error) {
	v := Vocabulary{Model: BPE, Pre: opt.Pre, Special: NoSpecial}
	for i, text := range opt.Control {
		v.Tokens = append(v.Tokens, Token{Text: text, Type: Control})
		if text == opt.BOS {
			v.Special.BOS, v.AddBOS = int32(i), true
		}
		if text == opt.EOS {
			v.Special.EOS, v.AddEOS = int32(i), opt.AddEOS
		}
	}
	if opt.BOS != "" && v.Special.BOS == None || opt.EOS != "" && v.Special.EOS == None {
		return v, fmt.Errorf("bpe: BOS %q or EOS %q is not among the control tokens", opt.BOS, opt.EOS)
	}
	for _, text := range t.texts {
		v.Tokens = append(v.Tokens, Token{Text: ToAlphabet(text), Type: Normal})
	}
	for _, m := range t.merges {
		v.Merges = append(v.Merges, Merge{
			Left: ToAlphabet(t.texts[m[0]]), Right: ToAlphabet(t.texts[m[1]]),
		})
	}
	return v, nil
}
