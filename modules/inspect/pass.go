package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/chat/jinja"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
)

// pass reports faults that neither the header nor the digests of a language
// model show: weights that are not finite, a chat template that fails, and a
// forward pass that fails or returns logits that are not finite.
func (c *checker) pass(ctx context.Context) {
	entry := c.m.Entry(abi.GGUF)
	file, _, ok := c.locate(entry)
	if entry == "" || !ok {
		return
	}
	fault := func(err error) {
		if err != nil {
			c.fault("/export/gguf", entry+": "+err.Error())
		}
	}
	f, err := gguf.Open(file)
	if err != nil {
		fault(err)
		return
	}
	defer f.Close()
	for _, t := range f.Tensors {
		if err := quant.Finite(t.Data, t.Type); err != nil {
			fault(fmt.Errorf("tensor %s: %w", t.Name, err))
			return
		}
	}
	if c.m.Type != abi.Core && c.m.Type != abi.DraftCore {
		return
	}
	ids := []int32{0}
	tok, err := tokenizer.FromGGUF(f)
	if err == nil {
		var text string
		text, err = rendered(tok)
		ids = append(ids[:0], tok.Encode(text, tokenizer.Options{Add: true, Special: true})...)
	}
	if err != nil && !errors.Is(err, tokenizer.ErrNoVocabulary) {
		fault(err)
		return
	}
	if len(ids) == 0 {
		ids = []int32{0}
	}
	fault(forward(ctx, file, ids))
}

// passLength is the number of tokens of the forward pass.
const passLength = 64

// rendered returns a short conversation in the form of the chat template, or a
// text without one. A template may refuse the conversation itself.
func rendered(tok *tokenizer.Tokenizer) (string, error) {
	const hello = "Hello"
	source := tok.Rules().Template
	if source == "" {
		return hello, nil
	}
	template, err := chat.Parse(source)
	if err != nil {
		return "", err
	}
	text, err := template.Render([]chat.Message{{Role: "user", Content: hello}}, chat.Options{
		AddGenerationPrompt: true, BOS: tok.Piece(tok.Special().BOS), EOS: tok.Piece(tok.Special().EOS), Now: time.Unix(0, 0).UTC(),
	})
	if raised := (*jinja.RaisedError)(nil); errors.As(err, &raised) {
		return hello, nil
	}
	return text, err
}

// forward computes the model on tokens.
func forward(ctx context.Context, file string, ids []int32) error {
	m, err := infer.Load(file, infer.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := m.NewSession(infer.SessionOptions{Context: min(m.Config().Context, passLength)})
	if err != nil {
		return err
	}
	if err := s.Feed(ctx, ids[:min(len(ids), s.Context())]); err != nil {
		return err
	}
	if i := quant.NotFinite(s.Logits()); i >= 0 {
		return fmt.Errorf("a forward pass returns the logit %v for token %d", s.Logits()[i], i)
	}
	return nil
}

// Pass checks a module as [Module] does, and computes its language model once.
func Pass(ctx context.Context, dir string) diag.List {
	m, list := Module(ctx, dir)
	if m == nil || list.Failed() {
		return list
	}
	c := &checker{m: m, locate: Folder(m)}
	c.pass(ctx)
	return append(list, c.list...)
}
