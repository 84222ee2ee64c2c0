package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"mm-abi.org/mm/serve/api"
)

// rerankRequest is the body of /v1/rerank, in the form of Jina and Cohere.
type rerankRequest struct {
	Model     string     `json:"model"`
	Query     string     `json:"query"`
	Documents []document `json:"documents"`
	Top       *int       `json:"top_n"`
	Return    bool       `json:"return_documents"`
}

// document is a text, or an object with one.
type document struct {
	Text string `json:"text"`
}

// UnmarshalJSON parses a text or an object with a text.
func (d *document) UnmarshalJSON(data []byte) error {
	var q struct {
		Text *string `json:"text"`
	}
	if bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, &d.Text)
	}
	if api.Unmarshal(data, &q) != nil || q.Text == nil {
		return api.Invalid("documents", "documents: want texts, or objects with a text")
	}
	d.Text = *q.Text
	return nil
}

// ranked is a document with its score.
type ranked struct {
	Index    int       `json:"index"`
	Score    float32   `json:"relevance_score"`
	Document *document `json:"document,omitempty"`
}

// rerank answers documents by their scores for a query, the best first.
func rerank(c *api.Call) error {
	var q rerankRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.Query == "" {
		return api.Invalid("query", "query: want a text")
	}
	if q.Top != nil && *q.Top < 1 {
		return api.Invalid("top_n", "top_n: got %d, want at least 1", *q.Top)
	}
	m, err := c.Server().Model(q.Model)
	if err != nil {
		return err
	}
	texts := make([]string, len(q.Documents))
	for i, d := range q.Documents {
		texts[i] = d.Text
	}
	res, err := c.Rerank(m, q.Query, texts)
	if err != nil {
		return err
	}
	list := make([]ranked, len(texts))
	for i, v := range res.Vectors {
		if list[i] = (ranked{Index: i, Score: v[0]}); q.Return {
			list[i].Document = &q.Documents[i]
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	if q.Top != nil {
		list = list[:min(*q.Top, len(list))]
	}
	return c.Reply(map[string]any{"model": m.Name(), "results": list, "usage": map[string]int{"total_tokens": res.Tokens}})
}
