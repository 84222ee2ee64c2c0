package tokenizer

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// specials finds the tokens that occur in text verbatim: control tokens such as
// <|im_end|> and user-defined ones. The leftmost match is used, the longest of
// several.
type specials struct {
	next  map[uint64]int32 // trie: node<<8 | byte to node
	token []int32          // by node: the token that ends here, or None
	first [256]bool        // the bytes that tokens begin with
	bytes []byte           // the same, as a list
}

func newSpecials() *specials {
	return &specials{next: make(map[uint64]int32), token: []int32{None}}
}

// add inserts a token; the first of two with the same text is kept.
func (s *specials) add(text string, id int32) {
	if text == "" {
		return
	}
	node := int32(0)
	for i := range len(text) {
		key := uint64(node)<<8 | uint64(text[i])
		child, ok := s.next[key]
		if !ok {
			child = int32(len(s.token))
			s.token = append(s.token, None)
			s.next[key] = child
		}
		node = child
	}
	if s.token[node] == None {
		s.token[node] = id
	}
	if !s.first[text[0]] {
		s.first[text[0]] = true
		s.bytes = append(s.bytes, text[0])
	}
}

func (s *specials) empty() bool { return len(s.bytes) == 0 }

// cut calls emit for each special token of a set in text and for each span
// between them, with id None. As in Hugging Face's library, a token that is
// part of a word is passed over, and white space that a token includes
// may belong to another token as well.
func (t *Tokenizer) cut(text string, set *specials, literal []int, isSpace func(rune) bool, emit func(from, to int, id int32)) {
	done := 0 // the end of the last span
	for at := 0; ; {
		start, end, id := set.find(text[at:], literal, at)
		if id == None {
			break
		}
		start, end, at = at+start, at+end, at+end
		flags := t.words.flags[id]
		if flags.SingleWord && (endsWord(text[:start]) || startsWord(text[end:])) {
			continue
		}
		if flags.LStrip {
			start = max(done, len(strings.TrimRightFunc(text[:start], isSpace)))
		}
		if flags.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], isSpace))
		}
		if done < start {
			emit(done, start, None)
		}
		emit(start, end, id)
		done = end
	}
	if done < len(text) {
		emit(done, len(text), None)
	}
}

// within returns the ascending offsets in a range, counted from its start.
func within(offsets []int, from, to int) (out []int) {
	for _, at := range offsets[sort.SearchInts(offsets, from):] {
		if at >= to {
			break
		}
		out = append(out, at-from)
	}
	return out
}

func endsWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

// isWord reports whether r matches \w.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic) || r == 0x200c || r == 0x200d
}

// find returns the leftmost, then longest token in text and its range, or None.
// literal lists byte offsets that a token must not cover, ascending and counted
// from base bytes before text.
func (s *specials) find(text string, literal []int, base int) (start, end int, id int32) {
	if len(s.bytes) == 0 {
		return 0, 0, None
	}
	for i := 0; i < len(text); i++ {
		if len(s.bytes) == 1 { // most often '<'
			n := strings.IndexByte(text[i:], s.bytes[0])
			if n < 0 {
				break
			}
			i += n
		} else if !s.first[text[i]] {
			continue
		}
		end, id = 0, None
		limit := len(text)
		for len(literal) > 0 && literal[0]-base < i {
			literal = literal[1:]
		}
		if len(literal) > 0 {
			limit = min(limit, literal[0]-base)
		}
		for node, j := int32(0), i; j < limit; j++ {
			child, ok := s.next[uint64(node)<<8|uint64(text[j])]
			if !ok {
				break
			}
			node = child
			if s.token[node] != None {
				end, id = j+1, s.token[node]
			}
		}
		if id != None {
			return i, end, id
		}
	}
	return 0, 0, None
}

// endOfGeneration lists the texts of tokens that end a turn or a document,
// whatever type a file declares. The list is llama.cpp's.
var endOfGeneration = map[string]bool{
	"<|eot_id|>": true, "<|im_end|>": true, "<|end|>": true, "<|return|>": true, "<|call|>": true,
	"<|flush|>": true, "<|calls|>": true, "<end_of_turn>": true, "<|endoftext|>": true, "</s>": true,
	"<|eom_id|>": true, "<EOT>": true, "_<EOT>": true, "[EOT]": true, "[EOS]": true, "<|end_of_text|>": true,
	"<end_of_utterance>": true, "<eos>": true, "<turn|>": true, "<|tool_response>": true,
	"<｜end▁of▁sentence｜>": true, "[e~[": true,
	"<|fim_pad|>": true, "<|fim_repo|>": true, "<|repo_name|>": true, "<|file_sep|>": true,
}

// endOfTurn lists the texts for a missing EOT; the first in the vocabulary is
// used.
var endOfTurn = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<end_of_utterance>", "<EOT>", "_<EOT>", "[EOT]",
	"<｜end▁of▁sentence｜>", "<|end_of_text|>", "<|endoftext|>",
}
