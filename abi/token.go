package abi

import "slices"

// TokenContract holds what every module of a build shares with its core: the size of the
// vocabulary, the special tokens, the length of the sequence of text and projected vectors,
// and the width of a vector.
type TokenContract struct {
	VocabSize     int      `json:"vocab_size,omitempty"`
	MaxSeq        int      `json:"max_seq,omitempty"`
	DModel        int      `json:"d_model,omitempty"`
	SpecialTokens []string `json:"special_tokens,omitzero"`
}

// The defaults of MM-ABI 1.0 §2.1; a core's manifest may set others.
const (
	DefaultVocabSize = 32000
	DefaultMaxSeq    = 4096
	DefaultDModel    = 2048
)

// SpecialTokens returns the special tokens of MM-ABI 1.0 §2.1 in order.
func SpecialTokens() []string {
	return []string{
		"<bos>", "<eos>", "<pad>",
		"<image>", "</image>", "<audio>", "</audio>", "<video>", "</video>",
		ToolCallOpen, ToolCallClose, "<scratch>",
	}
}

// DefaultTokens returns the token contract of MM-ABI 1.0 §2.1.
func DefaultTokens() TokenContract {
	return TokenContract{DefaultVocabSize, DefaultMaxSeq, DefaultDModel, SpecialTokens()}
}

// Fill returns c with zero values replaced from d.
func (c TokenContract) Fill(d TokenContract) TokenContract {
	if c.VocabSize == 0 {
		c.VocabSize = d.VocabSize
	}
	if c.MaxSeq == 0 {
		c.MaxSeq = d.MaxSeq
	}
	if c.DModel == 0 {
		c.DModel = d.DModel
	}
	if c.SpecialTokens == nil {
		c.SpecialTokens = d.SpecialTokens
	}
	return c
}

// Has reports whether token is one of the contract's special tokens.
func (c TokenContract) Has(token string) bool { return slices.Contains(c.SpecialTokens, token) }
