// Package openai translates the HTTP API of OpenAI: chat completions, completions, responses,
// embeddings, sounds, images and models, and the routes of others that its clients use:
// reranking and tokens.
//
// A field that would change the meaning of an answer is honored or refused by its name;
// others are ignored. Without a temperature an answer is greedy, as of mm run.
package openai

import (
	"mm-abi.org/mm/serve/api"
)

// Mount adds the routes of the API to a server.
func Mount(s *api.Server) {
	s.Shape("/", envelope)
	saved := &kept{all: map[string]conversation{}}
	s.Handle(
		api.Route{Method: "POST", Pattern: "/v1/chat/completions", Serve: chat},
		api.Route{Method: "POST", Pattern: "/v1/completions", Serve: complete},
		api.Route{Method: "POST", Pattern: "/v1/responses", Serve: respond(saved)},
		api.Route{Method: "POST", Pattern: "/v1/responses/input_tokens", Serve: inputTokens(saved)},
		api.Route{Method: "POST", Pattern: "/v1/embeddings", Serve: embeddings},
		api.Route{Method: "POST", Pattern: "/v1/rerank", Serve: rerank},
		api.Route{Method: "POST", Pattern: "/tokenize", Serve: tokenize},
		api.Route{Method: "POST", Pattern: "/detokenize", Serve: detokenize},
		api.Route{Method: "GET", Pattern: "/tokenizer_info", Serve: tokenizerInfo},
		api.Route{Method: "GET", Pattern: "/v1/models", Serve: models},
		api.Route{Method: "GET", Pattern: "/v1/models/{id...}", Serve: model},
	)
	s.Handle(
		api.Route{Method: "POST", Pattern: "/v1/audio/transcriptions", Serve: transcribe("transcribe")},
		api.Route{Method: "POST", Pattern: "/v1/audio/translations", Serve: transcribe("translate")},
		api.Route{Method: "POST", Pattern: "/v1/audio/speech", Serve: synthesize},
		api.Route{Method: "POST", Pattern: "/v1/images/generations", Serve: generate},
	)
}

// envelope returns the body of an error.
func envelope(e *api.Error) any {
	return map[string]any{"error": map[string]any{"message": e.Message, "type": e.Kind, "param": orNull(e.Param), "code": orNull(e.Code)}}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// modelObject is a model in a list.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func object(s *api.Server, name string) modelObject {
	return modelObject{ID: name, Object: "model", Created: s.Created(), OwnedBy: "mm"}
}

func models(c *api.Call) error {
	list := []modelObject{}
	for _, m := range c.Server().Models() {
		list = append(list, object(c.Server(), m.Name()))
	}
	return c.Reply(map[string]any{"object": "list", "data": list})
}

func model(c *api.Call) error {
	m, err := c.Server().Model(c.R.PathValue("id"))
	if err != nil {
		return err
	}
	return c.Reply(object(c.Server(), m.Name()))
}

// usage are the counts of an answer.
type usage struct {
	Prompt     int            `json:"prompt_tokens"`
	Completion int            `json:"completion_tokens"`
	Total      int            `json:"total_tokens"`
	Details    map[string]int `json:"prompt_tokens_details"`
	Generated  map[string]int `json:"completion_tokens_details"`
}

// usageOf returns the counts of the choices of an answer. The prompt that n of them share
// counts once.
func usageOf(n int, results ...*api.Result) *usage {
	u := &usage{}
	cached, reasoned := 0, 0
	for i, r := range results {
		prompt, reused, generated := r.Usage()
		if i%n == 0 {
			u.Prompt, cached = u.Prompt+prompt, cached+reused
		}
		u.Completion, reasoned = u.Completion+generated, reasoned+r.Timings.Reasoned
	}
	u.Total, u.Details, u.Generated = u.Prompt+u.Completion, map[string]int{"cached_tokens": cached}, map[string]int{"reasoning_tokens": reasoned}
	return u
}

// finish returns the reason of an answer's end in the words of the API.
func finish(r *api.Result) string {
	switch r.Finish {
	case api.Length:
		return "length"
	case api.Called:
		return "tool_calls"
	}
	return "stop"
}
