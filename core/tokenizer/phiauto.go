package tokenizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// FromPhiAuto builds the tokenizer of phi-auto's JSON: vocab_size, merges
// ("left,right" to the id of the union) and vocab (id to its bytes). The first
// 256 ids are the bytes; a merge with a smaller id comes first. Text is not
// split into words, and there are no special tokens.
func FromPhiAuto(b []byte) (*Tokenizer, error) {
	v, err := parsePhiAuto(b)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: phi-auto: %w", err)
	}
	return New(v)
}

func parsePhiAuto(b []byte) (Vocabulary, error) {
	v := Vocabulary{Model: BPE, Pre: PreNone, Special: NoSpecial}
	var file struct {
		VocabSize int              `json:"vocab_size"`
		Merges    map[string]int   `json:"merges"`
		Vocab     map[string][]int `json:"vocab"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return v, err
	}
	n := len(file.Vocab)
	if n < 256 || len(file.Merges) != n-256 {
		return v, fmt.Errorf("bad counts: got %d tokens and %d merges, want 256 more tokens than merges", n, len(file.Merges))
	}
	texts := make([]string, n)
	for id := range texts {
		values, ok := file.Vocab[strconv.Itoa(id)]
		if !ok || len(values) == 0 {
			return v, fmt.Errorf("missing or empty token %d", id)
		}
		bytes := make([]byte, len(values))
		for i, x := range values {
			if x < 0 || x > 255 {
				return v, fmt.Errorf("token %d: %d is not a byte", id, x)
			}
			bytes[i] = byte(x)
		}
		if texts[id] = string(bytes); id < 256 && texts[id] != string([]byte{byte(id)}) {
			return v, fmt.Errorf("token %d: got %q, want the byte", id, texts[id])
		}
	}
	v.Merges = make([]Merge, n-256)
	for pair, id := range file.Merges {
		first, second, _ := strings.Cut(pair, ",")
		left, err1 := strconv.Atoi(strings.TrimSpace(first))
		right, err2 := strconv.Atoi(strings.TrimSpace(second))
		if err1 != nil || err2 != nil || id < 256 || id >= n || left < 0 || left >= id || right < 0 || right >= id {
			return v, fmt.Errorf("merge %q of token %d: bad ids, want smaller ones", pair, id)
		}
		if texts[left]+texts[right] != texts[id] {
			return v, fmt.Errorf("merge %q: got %q, but token %d is %q", pair, texts[left]+texts[right], id, texts[id])
		}
		if v.Merges[id-256].Left != "" {
			return v, fmt.Errorf("duplicate merge for token %d", id)
		}
		v.Merges[id-256] = Merge{ToAlphabet(texts[left]), ToAlphabet(texts[right])}
	}
	v.Tokens = make([]Token, n)
	for id, text := range texts {
		v.Tokens[id] = Token{Text: ToAlphabet(text), Type: Normal}
	}
	return v, nil
}
