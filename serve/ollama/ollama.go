// Package ollama translates the HTTP API of Ollama, which many front ends use: chat,
// generate, tags, show and version.
package ollama

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// version is the version of the API that clients compare with.
const version = "0.17.4"

// Mount adds the routes of the API to a server.
func Mount(s *api.Server) {
	s.Shape("/api/", func(e *api.Error) any { return map[string]string{"error": e.Message} })
	s.Handle(
		api.Route{Method: "POST", Pattern: "/api/chat", Serve: chat, AnyType: true},
		api.Route{Method: "POST", Pattern: "/api/generate", Serve: generate, AnyType: true},
		api.Route{Method: "POST", Pattern: "/api/show", Serve: show, AnyType: true},
		api.Route{Method: "GET", Pattern: "/api/tags", Serve: tags},
		api.Route{Method: "GET", Pattern: "/api/ps", Serve: tags},
		api.Route{Method: "GET", Pattern: "/api/version", Serve: func(c *api.Call) error { return c.Reply(map[string]string{"version": version}) }},
		api.Route{Method: "GET", Pattern: "/{$}", Open: true, Serve: func(c *api.Call) error {
			if strings.Contains(c.R.Header.Get("Accept"), "text/html") { // a browser
				return c.Redirect("/page")
			}
			return c.ReplyText(http.StatusOK, "Ollama is running") // clients look for this text
		}},
	)
	s.Handle(api.Route{Method: "POST", Pattern: "/api/embed", Serve: embed, AnyType: true}, api.Route{Method: "POST", Pattern: "/api/embeddings", Serve: embedOne, AnyType: true})
	for _, path := range []string{"/api/pull", "/api/push", "/api/create", "/api/copy"} {
		s.Handle(api.Route{Method: "POST", Pattern: path, Serve: func(*api.Call) error { return api.Absent(path) }})
	}
}

// details describe a model.
type details struct {
	Format    string   `json:"format"`
	Family    string   `json:"family"`
	Families  []string `json:"families"`
	Size      string   `json:"parameter_size"`
	Quantized string   `json:"quantization_level"`
}

// listed is a model in a list.
type listed struct {
	Name     string  `json:"name"`
	Model    string  `json:"model"`
	Modified string  `json:"modified_at"`
	Size     int64   `json:"size"`
	Digest   string  `json:"digest"`
	Details  details `json:"details"`
}

func tags(c *api.Call) error {
	list := []listed{}
	at := time.Unix(c.Server().Created(), 0).UTC().Format(time.RFC3339)
	for _, m := range c.Server().Models() {
		b := m.Answerer.Build()
		list = append(list, listed{Name: m.Name(), Model: m.Name(), Modified: at, Digest: b.Digest, Details: details{Format: "gguf", Families: []string{}}})
	}
	return c.Reply(map[string]any{"models": list})
}

func show(c *api.Call) error {
	var q struct {
		Model string `json:"model"`
		Name  string `json:"name"`
	}
	if err := c.Read(&q); err != nil {
		return err
	}
	if q.Model == "" {
		q.Model = q.Name
	}
	m, err := c.Server().Model(q.Model)
	if err != nil {
		return err
	}
	a := m.Answerer.Build().Assembly
	can, err := abilities(c, m)
	if err != nil {
		return err
	}
	return c.Reply(map[string]any{
		"license": a.License, "modelfile": "", "parameters": "", "template": "", "details": details{Format: "gguf", Families: []string{}},
		"model_info": map[string]any{"general.name": a.Name}, "capabilities": can,
		"modified_at": time.Unix(c.Server().Created(), 0).UTC().Format(time.RFC3339),
	})
}

// abilities returns those of a model. One without a core encodes texts, or neither.
func abilities(c *api.Call, m *api.Model) (can []string, err error) {
	a := m.Answerer.Build().Assembly
	if !a.HasCore() {
		for _, p := range a.Modalities {
			if p.Modality == "text" {
				return []string{"embedding"}, nil
			}
		}
		return []string{}, nil
	}
	can = []string{"completion", "tools"}
	for _, p := range a.Modalities {
		if p.Modality == "image" {
			can = append(can, "vision")
		}
	}
	r, err := c.CanReason(m)
	if err == nil && r.Reasons {
		can = append(can, "thinking")
	}
	return can, err
}

// message is a turn.
type message struct {
	Role      string   `json:"role"`
	Content   string   `json:"content"`
	Thinking  string   `json:"thinking,omitempty"`
	Images    []string `json:"images,omitempty"`
	ToolCalls []call   `json:"tool_calls,omitempty"`
	ToolName  string   `json:"tool_name,omitempty"`
}

type call struct {
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

func callsOf(list []talk.Call) (out []call) {
	for _, c := range list {
		var one call
		one.Function.Name, one.Function.Arguments = c.Name, c.Arguments
		out = append(out, one)
	}
	return out
}

// reply is an answer or a piece of one.
type reply struct {
	Model    string   `json:"model"`
	Created  string   `json:"created_at"`
	Message  *message `json:"message,omitempty"`  // of chat
	Response *string  `json:"response,omitempty"` // of generate
	Thinking string   `json:"thinking,omitempty"` // of generate
	Done     bool     `json:"done"`
	Reason   string   `json:"done_reason,omitempty"`
	counts
}

// counts are those of an answer; times are in nanoseconds.
type counts struct {
	Total      int64 `json:"total_duration,omitempty"`
	Load       int64 `json:"load_duration,omitempty"`
	Prompt     int   `json:"prompt_eval_count,omitempty"`
	PromptTime int64 `json:"prompt_eval_duration,omitempty"`
	Eval       int   `json:"eval_count,omitempty"`
	EvalTime   int64 `json:"eval_duration,omitempty"`
}

func countsOf(r *api.Result) counts {
	t := r.Timings
	return counts{
		Total: int64(t.Load + t.FirstToken + t.Generate), Load: int64(t.Load), Prompt: t.Prompt, PromptTime: int64(t.FirstToken),
		Eval: t.Generated, EvalTime: int64(t.Generate),
	}
}

// writer writes the pieces of an answer to a request of chat or generate.
type writer struct {
	c     *api.Call
	model string
	chat  bool
}

// reply returns a piece.
func (w *writer) reply(text, thinking string, calls []call) reply {
	r := reply{Model: w.model, Created: w.c.Server().Now().UTC().Format(time.RFC3339Nano)}
	if w.chat {
		r.Message = &message{Role: "assistant", Content: text, Thinking: thinking, ToolCalls: calls}
		return r
	}
	r.Response, r.Thinking = &text, thinking
	return r
}

// end returns the last piece, with the counts.
func (w *writer) end(r *api.Result, last reply) reply {
	last.Done, last.Reason, last.counts = true, "stop", countsOf(r)
	if r.Finish == api.Length {
		last.Reason = "length"
	}
	return last
}

// answer answers at once, or in lines.
func (w *writer) answer(ask *api.Ask, stream bool) error {
	if !stream {
		r, err := w.c.Answer(ask, nil)
		if err != nil {
			return err
		}
		return w.c.Reply(w.end(r, w.reply(r.Text, r.Reasoning, callsOf(r.Calls))))
	}
	st := w.c.Stream(api.Lines, "")
	defer st.End()
	sent := 0
	ask.Request.Reasoned = func(text string) error { return st.Send("", w.reply("", text, nil)) }
	r, err := w.c.Answer(ask, func(text string) error {
		sent += len(text)
		return st.Send("", w.reply(text, "", nil))
	})
	if err != nil {
		return st.Fail("", err)
	}
	if rest := r.Text[min(sent, len(r.Text)):]; rest != "" || len(r.Calls) > 0 {
		if err := st.Send("", w.reply(rest, "", callsOf(r.Calls))); err != nil {
			return err
		}
	}
	return st.Send("", w.end(r, w.reply("", "", nil)))
}
