package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"

	"mm-abi.org/mm/serve/api"
)

// embeddingsRequest is the body of /v1/embeddings.
type embeddingsRequest struct {
	Model      string `json:"model"`
	Input      inputs `json:"input"`
	Format     string `json:"encoding_format"`
	Dimensions *int   `json:"dimensions"`
}

// inputs are a text or an array of texts.
type inputs []string

// UnmarshalJSON parses a text or an array of texts. Token ids are refused.
func (in *inputs) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.HasPrefix(data, []byte(`"`)):
		*in = make(inputs, 1)
		return json.Unmarshal(data, &(*in)[0])
	case bytes.HasPrefix(data, []byte("[")):
		if json.Unmarshal(data, (*[]string)(in)) == nil {
			return nil
		}
		return api.Unsupported("input", "input: want texts (token ids are not supported)")
	}
	return api.Invalid("input", "input: want a text or an array of texts")
}

// embedding is the vector of an input.
type embedding struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	Vector any    `json:"embedding"`
}

// embeddings answers the vectors of texts.
func embeddings(c *api.Call) error {
	var q embeddingsRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.Format != "" && q.Format != "float" && q.Format != "base64" {
		return api.Invalid("encoding_format", "encoding_format: got %q, want float or base64", q.Format)
	}
	m, err := c.Server().Model(q.Model)
	if err != nil {
		return err
	}
	res, err := c.Embed(m, q.Input, q.Dimensions)
	if err != nil {
		return err
	}
	data := make([]embedding, len(res.Vectors))
	for i, v := range res.Vectors {
		data[i] = embedding{Object: "embedding", Index: i, Vector: v}
		if q.Format == "base64" {
			data[i].Vector = packed(v)
		}
	}
	return c.Reply(map[string]any{"object": "list", "data": data, "model": m.Name(), "usage": map[string]int{"prompt_tokens": res.Tokens, "total_tokens": res.Tokens}})
}

// packed returns the base64 text of a vector in little-endian order.
func packed(v []float32) string {
	data := make([]byte, 0, 4*len(v))
	for _, x := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(data)
}
