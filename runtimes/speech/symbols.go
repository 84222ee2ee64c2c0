package speech

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	maxSymbolsFile = 4 << 20 // bytes
	maxSymbols     = 1 << 16
	maxSymbol      = 64 // bytes of one symbol
	maxSymbolIDs   = 16 // ids of one symbol
)

// symbols maps the symbols of a voice to ids.
type symbols struct {
	ids     map[string][]int64
	longest int // bytes
}

// parseSymbols reads a JSON object of ids, or lists of ids, by symbol. It may be in
// phoneme_id_map (Piper), vocab (Kokoro's config.json, its vocab.json) or model.vocab
// (tokenizer.json).
func parseSymbols(data []byte) (*symbols, error) {
	var doc struct {
		Piper map[string]json.RawMessage `json:"phoneme_id_map"`
		Vocab map[string]json.RawMessage `json:"vocab"`
		Model struct {
			Vocab map[string]json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	entries := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if json.Unmarshal(data, &doc) == nil {
		for _, m := range []map[string]json.RawMessage{doc.Piper, doc.Vocab, doc.Model.Vocab} {
			if len(m) > 0 {
				entries = m
				break
			}
		}
	}
	if len(entries) == 0 || len(entries) > maxSymbols {
		return nil, fmt.Errorf("got %d symbols, want 1 to %d", len(entries), maxSymbols)
	}
	s := &symbols{ids: make(map[string][]int64, len(entries))}
	for name, value := range entries {
		ids, err := parseIDs(value)
		if err != nil || name == "" || len(name) > maxSymbol {
			return nil, fmt.Errorf("symbol %.80q: got %.80s, want one to %d ids of a symbol of 1 to %d bytes", name, value, maxSymbolIDs, maxSymbol)
		}
		s.ids[name], s.longest = ids, max(s.longest, len(name))
	}
	return s, nil
}

// parseIDs reads an id or a list of ids.
func parseIDs(value []byte) ([]int64, error) {
	var list []int64
	if len(value) > 0 && value[0] != '[' {
		list = make([]int64, 1)
		if err := json.Unmarshal(value, &list[0]); err != nil {
			return nil, err
		}
	} else if err := json.Unmarshal(value, &list); err != nil {
		return nil, err
	}
	for _, id := range list {
		if id < 0 || id > math.MaxInt32 {
			return nil, fmt.Errorf("id %d is out of range", id)
		}
	}
	if len(list) == 0 || len(list) > maxSymbolIDs {
		return nil, fmt.Errorf("got %d ids", len(list))
	}
	return list, nil
}

// match returns the longest symbol at the beginning of text, or "".
func (s *symbols) match(text string) string {
	for n := min(s.longest, len(text)); n > 0; n-- {
		if _, ok := s.ids[text[:n]]; ok && (n == len(text) || utf8.RuneStart(text[n])) {
			return text[:n]
		}
	}
	return ""
}

// split divides a text into its symbols, the longest first. A letter without
// an id is replaced by the symbols of its canonical decomposition, or dropped.
func (s *symbols) split(text string) (list []string, dropped string) {
	var lost strings.Builder
	for text != "" {
		if m := s.match(text); m != "" {
			list, text = append(list, m), text[len(m):]
			continue
		}
		_, n := utf8.DecodeRuneInString(text)
		letter := text[:n]
		text = text[n:]
		parts := norm.NFD.String(letter)
		if parts == letter {
			lost.WriteString(letter)
			continue
		}
		for _, r := range parts {
			if _, ok := s.ids[string(r)]; ok {
				list = append(list, string(r))
			} else {
				lost.WriteRune(r)
			}
		}
	}
	return list, lost.String()
}
