package openai

import (
	"encoding/json"

	"mm-abi.org/mm/serve/api"
)

// maxPrompts bounds the choices of all prompts of a request.
const maxPrompts = 64

// prompts are a text, a list of texts, token ids, or a list of those.
type prompts []promptOf

// promptOf is a text, or with tokens the ids of one.
type promptOf struct {
	text   string
	tokens []int32
}

// UnmarshalJSON reads the four forms.
func (p *prompts) UnmarshalJSON(data []byte) error {
	*p = nil
	var text *string
	if json.Unmarshal(data, &text) == nil && text != nil {
		*p = prompts{{text: *text}}
		return nil
	}
	if ids, ok := tokenIDs(data); ok {
		*p = prompts{{tokens: ids}}
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil || len(list) == 0 {
		return badPrompt()
	}
	if len(list) > maxPrompts {
		return api.Invalid("prompt", "prompt: got %d prompts, want at most %d", len(list), maxPrompts)
	}
	for _, raw := range list {
		ids, tokens := tokenIDs(raw)
		var text *string
		if !tokens && (json.Unmarshal(raw, &text) != nil || text == nil) {
			return badPrompt()
		}
		if tokens {
			*p = append(*p, promptOf{tokens: ids})
		} else {
			*p = append(*p, promptOf{text: *text})
		}
	}
	return nil
}

// tokenIDs reads a list of one token id or more.
func tokenIDs(data []byte) (ids []int32, ok bool) {
	var list []*int32
	if api.Unmarshal(data, &list) != nil || len(list) == 0 {
		return nil, false
	}
	for _, id := range list {
		if id == nil {
			return nil, false
		}
		ids = append(ids, *id)
	}
	return ids, true
}

func badPrompt() error {
	return api.Invalid("prompt", "prompt: want a text, token ids, or an array of either")
}
