package tokenizer

// Linear reports whether text is encoded in linear time.
func (t *Tokenizer) Linear() bool { return t.bpe != nil && t.bpe.linear != nil }

// WithoutLinear is t with the heap instead.
func (t *Tokenizer) WithoutLinear() *Tokenizer {
	u, err := New(t.vocab)
	if err != nil {
		panic(err)
	}
	u.bpe.linear = nil
	return u
}
