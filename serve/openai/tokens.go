package openai

import (
	"context"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/serve/api"
)

// maxTokenized bounds the tokens of a request to write as text.
const maxTokenized = 1 << 20

// tokenizeRequest is the body of /tokenize, as vLLM has it.
type tokenizeRequest struct {
	Model  string  `json:"model"`
	Prompt *string `json:"prompt"`
	Add    *bool   `json:"add_special_tokens"`
}

// tokenize answers the token ids of a text. Control tokens in the text are read.
func tokenize(c *api.Call) error {
	var q tokenizeRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.Prompt == nil {
		return api.Invalid("prompt", "prompt: want a text")
	}
	ids := []int32{}
	most, err := withTokens(c, q.Model, func(tok *tokenizer.Tokenizer) error {
		ids = append(ids, tok.Encode(*q.Prompt, tokenizer.Options{Special: true, Add: q.Add == nil || *q.Add})...)
		return nil
	})
	if err != nil {
		return err
	}
	return c.Reply(map[string]any{"tokens": ids, "count": len(ids), "max_model_len": most})
}

// detokenizeRequest is the body of /detokenize.
type detokenizeRequest struct {
	Model  string   `json:"model"`
	Tokens []*int32 `json:"tokens"` // null is not an id
}

// detokenize answers the text of token ids.
func detokenize(c *api.Call) error {
	var q detokenizeRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.Tokens == nil {
		return api.Invalid("tokens", "tokens: want a list of ids")
	}
	if err := checkTokenized(len(q.Tokens)); err != nil {
		return err
	}
	ids := make([]int32, len(q.Tokens))
	for i, id := range q.Tokens {
		if id == nil {
			return api.Invalid("tokens", "tokens[%d]: got null, want an id", i)
		}
		ids[i] = *id
	}
	text := ""
	if _, err := withTokens(c, q.Model, func(tok *tokenizer.Tokenizer) error {
		for _, id := range ids {
			if id < 0 || int(id) >= tok.Size() {
				return api.Invalid("tokens", "tokens: got %d, the vocabulary has %d", id, tok.Size())
			}
		}
		text = tok.Decode(ids, tokenizer.DecodeOptions{Special: true})
		return nil
	}); err != nil {
		return err
	}
	return c.Reply(map[string]any{"prompt": text})
}

func checkTokenized(n int) error {
	if n > maxTokenized {
		return api.Invalid("tokens", "tokens: got %d, want at most %d", n, maxTokenized)
	}
	return nil
}

// tokenizerInfo answers the tokens that begin and end texts.
func tokenizerInfo(c *api.Call) error {
	info := map[string]any{}
	if _, err := withTokens(c, c.R.URL.Query().Get("model"), func(tok *tokenizer.Tokenizer) error {
		special := tok.Special()
		for name, id := range map[string]int32{"bos_token": special.BOS, "eos_token": special.EOS, "pad_token": special.Padding} {
			info[name] = nil
			if id != tokenizer.None {
				info[name] = tok.Piece(id)
			}
		}
		info["chat_template"] = orNull(tok.Rules().Template)
		return nil
	}); err != nil {
		return err
	}
	return c.Reply(info)
}

// withTokens calls use with the tokenizer of a model and returns the positions of its
// context.
func withTokens(c *api.Call, name string, use func(tok *tokenizer.Tokenizer) error) (most int, err error) {
	m, err := c.Server().Model(name)
	if err != nil {
		return 0, err
	}
	err = c.Borrow(&api.Ask{Model: m}, func(ctx context.Context, a api.Scorer) error {
		tok, err := a.Tokenizer(ctx)
		if err != nil {
			return err
		}
		if most, err = a.Context(ctx); err != nil {
			return err
		}
		return use(tok)
	})
	return most, err
}
