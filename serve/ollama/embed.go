package ollama

import (
	"encoding/json"

	"mm-abi.org/mm/serve/api"
)

// embedRequest is the body of /api/embed and, with a prompt, of /api/embeddings.
type embedRequest struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Prompt     string          `json:"prompt"`
	Dimensions *int            `json:"dimensions"`
	Truncate   *bool           `json:"truncate"`
}

// embed answers the vectors of texts.
func embed(c *api.Call) error {
	var q embedRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	var texts []string
	var one string
	if json.Unmarshal(q.Input, &one) == nil {
		texts = []string{one}
	} else if json.Unmarshal(q.Input, &texts) != nil {
		return api.Invalid("input", "input: want a text or an array of texts")
	}
	m, err := c.Server().Model(q.Model)
	if err != nil {
		return err
	}
	res, err := c.Embed(m, texts, q.Dimensions)
	if err != nil {
		return err
	}
	return c.Reply(map[string]any{"model": q.Model, "embeddings": res.Vectors, "prompt_eval_count": res.Tokens})
}

// embedOne answers the vector of a prompt, as older clients ask for it.
func embedOne(c *api.Call) error {
	var q embedRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	m, err := c.Server().Model(q.Model)
	if err != nil {
		return err
	}
	res, err := c.Embed(m, []string{q.Prompt}, nil)
	if err != nil {
		return err
	}
	return c.Reply(map[string]any{"embedding": res.Vectors[0]})
}
