package hf

import (
	"encoding/json"
	"fmt"
	"slices"

	"mm-abi.org/mm/core/tokenizer"
)

// readTokenizer reads tokenizer.json and its companion files, and fits the
// vocabulary to the rows of the embedding. It returns nil if there is none.
func readTokenizer(dir string, c *config, vocab int) (*tokenizer.Tokenizer, error) {
	file, err := readOptional(dir, "tokenizer.json", maxTokenizer)
	if err != nil || file == nil {
		return nil, err
	}
	settings, err := readOptional(dir, "tokenizer_config.json", maxTokenizer)
	if err != nil {
		return nil, err
	}
	roles, err := readOptional(dir, "special_tokens_map.json", maxConfig)
	if err != nil {
		return nil, err
	}
	added, err := readOptional(dir, "added_tokens.json", maxTokenizer)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.FromTransformers(tokenizer.Transformers{
		Tokenizer: file, Config: settings, SpecialTokens: roles, AddedTokens: added, ModelType: c.text("model_type", ""), Class: c.text("tokenizer_class", ""),
	})
	if err != nil {
		return nil, err
	}
	v := tok.Vocabulary()
	v.Tokens = slices.Clone(v.Tokens)
	if template, err := readOptional(dir, "chat_template.jinja", maxTemplate); err != nil {
		return nil, err
	} else if template != nil {
		v.Template = string(template)
	} else if template, err := jsonTemplate(dir); err != nil {
		return nil, err
	} else if template != "" {
		v.Template = template
	}
	if v.Template == "" {
		v.Template = c.template
	}
	if len(v.Tokens) > vocab {
		v.Tokens = v.Tokens[:vocab] // ids without a vector
		sp := &v.Special
		for _, id := range []*int32{&sp.BOS, &sp.EOS, &sp.EOT, &sp.EOM, &sp.Unknown, &sp.Separator, &sp.Padding} {
			if int(*id) >= vocab {
				*id = tokenizer.None
			}
		}
		v.AddBOS, v.AddEOS = v.AddBOS && sp.BOS != tokenizer.None, v.AddEOS && sp.EOS != tokenizer.None
	}
	for id := len(v.Tokens); id < vocab; id++ {
		v.Tokens = append(v.Tokens, tokenizer.Token{Text: fmt.Sprintf("[PAD%d]", id), Type: tokenizer.Unused})
	}
	ends, err := endings(dir, c)
	if err != nil {
		return nil, err
	}
	if v.Special.BOS == tokenizer.None {
		if ids := ids(c.raw["bos_token_id"]); len(ids) > 0 && ids[0] < len(v.Tokens) {
			v.Special.BOS = int32(ids[0])
		}
	}
	if v.Special.EOS == tokenizer.None && len(ends) > 0 && ends[0] < len(v.Tokens) {
		v.Special.EOS = int32(ends[0])
	}
	return endingOn(v, ends)
}

// endingOn builds the tokenizer, which must end on all of the ids.
func endingOn(v tokenizer.Vocabulary, ends []int) (*tokenizer.Tokenizer, error) {
	tok, err := tokenizer.New(v)
	if err != nil {
		return nil, err
	}
	for _, id := range ends {
		if id >= len(v.Tokens) || tok.Ends(int32(id)) {
			continue // present already, or never drawn
		}
		switch {
		case v.Special.EOT == tokenizer.None:
			v.Special.EOT = int32(id)
		case v.Special.EOM == tokenizer.None:
			v.Special.EOM = int32(id)
		default:
			return nil, fmt.Errorf("generation_config.json: unsupported eos_token_id %d: a file holds at most three ends of a text", id)
		}
		if tok, err = tokenizer.New(v); err != nil {
			return nil, err
		}
	}
	return tok, nil
}

// endings returns the ids that end a text, from generation_config.json or
// config.json.
func endings(dir string, c *config) ([]int, error) {
	b, err := readOptional(dir, "generation_config.json", maxConfig)
	if err != nil {
		return nil, err
	}
	var generation struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if b != nil {
		if err := json.Unmarshal(b, &generation); err != nil {
			return nil, fmt.Errorf("generation_config.json: %w", err)
		}
	}
	if list := ids(generation.EOS); len(list) > 0 {
		return list, nil
	}
	return ids(c.raw["eos_token_id"]), nil
}

// ids reads one id or a list of them.
func ids(raw json.RawMessage) []int {
	var one int
	if json.Unmarshal(raw, &one) == nil && string(raw) != "null" && one >= 0 {
		return []int{one}
	}
	var list []int
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return slices.DeleteFunc(list, func(id int) bool { return id < 0 })
}
