package api

import (
	"encoding/json"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// MountInfer adds mm's own endpoint to a server: POST /infer takes the inference request of
// schemas/request.schema.json, with images, sounds and tools, and answers with everything
// that the build made. The client in clients/python uses it.
func MountInfer(s *Server) {
	s.Handle(Route{Method: "POST", Pattern: "/infer", Serve: infer})
}

// inferRequest is the body of /infer.
type inferRequest struct {
	Build  string `json:"build"` // a name of /v1/models; may be absent if there is one
	Stream bool   `json:"stream"`
	runner.Request
}

// inferBody reads a request strictly: an unknown field may be a misspelled limit.
type inferBody struct{ inferRequest }

// UnmarshalJSON implements json.Unmarshaler.
func (b *inferBody) UnmarshalJSON(data []byte) error { return UnmarshalKnown(data, &b.inferRequest) }

// inferAnswer is the result of /infer.
type inferAnswer struct {
	Build string `json:"build"` // NAME@VERSION
	Text  string `json:"text"`
	Certainty
	Reasoning string              `json:"reasoning,omitempty"`
	Called    []runner.CallRecord `json:"called,omitempty"`  // by the build, with results
	Calls     []talk.Call         `json:"calls,omitempty"`   // for the client to perform
	Outputs   []inferOutput       `json:"outputs,omitempty"` // in streams, sent before
	Stop      string              `json:"stop"`
	Usage     inferUsage          `json:"usage"`
}

// inferOutput is an image or a sound.
type inferOutput struct {
	Modality  abi.Modality `json:"modality"`
	MediaType string       `json:"media_type"`
	Data      []byte       `json:"data"`
}

// inferUsage counts the tokens of an answer.
type inferUsage struct {
	Prompt    int     `json:"prompt_tokens"`
	Cached    int     `json:"cached_tokens"`
	Generated int     `json:"generated_tokens"`
	PerSecond float64 `json:"tokens_per_second"`
}

// call is the event of a performed call.
type call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    string          `json:"result"`
}

func infer(c *Call) error {
	var q inferBody
	if err := c.Read(&q); err != nil {
		return err
	}
	ask, err := q.ask(c.Server())
	if err != nil {
		return err
	}
	if q.Stream {
		return stream(c, ask)
	}
	r, err := c.Answer(ask, nil)
	if err != nil {
		return err
	}
	out := answerOf(ask, r)
	out.Outputs = outputs(r.Made)
	return c.Reply(out)
}

// ask checks a request. Files of the server's machine are out of a client's reach.
func (q *inferRequest) ask(s *Server) (*Ask, error) {
	m, err := s.Model(q.Build)
	if err != nil {
		return nil, err
	}
	foreign := len(q.Assets) > 0
	for i, a := range q.Assets {
		if a.Path != "" {
			return nil, Invalid("assets", "assets[%d].path: want data", i)
		}
	}
	for _, list := range append([]talk.Message{{Parts: q.Inputs}}, q.Messages...) {
		for i, p := range list.Parts {
			if p.Path != "" {
				return nil, Invalid("inputs", "inputs[%d].path: want data", i)
			}
			if p.Type == "" {
				return nil, Invalid("inputs", "inputs[%d].type: missing", i)
			}
			if p.Type == abi.Text && p.Data != nil {
				return nil, Invalid("inputs", "inputs[%d].data: a text has none", i)
			}
			foreign = foreign || p.Type != abi.Text
		}
	}
	for i, t := range q.Tools {
		if t.Name == "" {
			return nil, Invalid("tools", "tools[%d].name: missing", i)
		}
	}
	switch {
	case q.Inputs != nil && q.Messages != nil:
		return nil, Invalid("messages", "inputs and messages exclude each other")
	case len(q.Inputs) == 0 && len(q.Messages) == 0:
		return nil, Invalid("inputs", "inputs: missing")
	}
	return &Ask{Model: m, Request: q.Request, Foreign: foreign}, nil
}

// answerOf returns an answer without its images and sounds.
func answerOf(ask *Ask, r *Result) inferAnswer {
	a := ask.Model.Answerer.Build().Assembly
	prompt, cached, generated := r.Usage()
	name := a.Name
	if a.Version != "" {
		name += "@" + a.Version
	}
	return inferAnswer{
		Build: name, Text: r.Text, Certainty: r.Certainty(), Reasoning: r.Reasoning, Called: r.Called, Calls: r.Calls, Stop: string(r.Stop),
		Usage: inferUsage{prompt, cached, generated, r.Timings.PerSecond()},
	}
}

// outputs encodes the results of the decoders.
func outputs(results []runner.Made) (list []inferOutput) {
	for _, m := range results {
		kind := "image/png"
		if m.Modality == abi.Audio {
			kind = "audio/wav"
		}
		list = append(list, inferOutput{m.Modality, kind, m.Data})
	}
	return list
}

// stream answers in events: text as it comes, then reasoning, calls and outputs, then done
// with the whole text.
func stream(c *Call, ask *Ask) error {
	st := c.Stream(SSE, ": ping\n\n")
	defer st.End()
	text := func(kind, piece string) error { return st.Send(kind, map[string]string{"text": piece}) }
	sent := 0
	r, err := c.Answer(ask, func(piece string) error {
		sent += len(piece)
		return text("text", piece)
	})
	if err != nil {
		return st.Fail("error", err)
	}
	if rest := r.Text[min(sent, len(r.Text)):]; rest != "" {
		if err := text("text", rest); err != nil {
			return err
		}
	}
	if r.Reasoning != "" {
		if err := text("reasoning", r.Reasoning); err != nil {
			return err
		}
	}
	for _, one := range r.Called {
		if err := st.Send("tool", call{one.Call.Name, one.Call.Arguments, one.Line}); err != nil {
			return err
		}
	}
	for _, one := range outputs(r.Made) {
		if err := st.Send("output", one); err != nil {
			return err
		}
	}
	return st.Send("done", answerOf(ask, r))
}
