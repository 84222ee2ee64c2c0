package ollama

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// common are the fields of chat and generate.
type common struct {
	Model   string          `json:"model"`
	Stream  *bool           `json:"stream"` // absent: true
	Format  json.RawMessage `json:"format"`
	Options options         `json:"options"`

	Think json.RawMessage `json:"think"` // true, false or a level
	Keep  json.RawMessage `json:"keep_alive"`

	Logprobs bool `json:"logprobs"` // not supported
}

type options struct {
	NumPredict  *int            `json:"num_predict"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	MinP        *float64        `json:"min_p"`
	TopK        *int            `json:"top_k"`
	Repeat      *float64        `json:"repeat_penalty"`
	RepeatLast  *int            `json:"repeat_last_n"`
	Seed        *int64          `json:"seed"`
	Stop        json.RawMessage `json:"stop"`

	// Not supported, except values without an effect.
	Presence  float64  `json:"presence_penalty"`
	Frequency float64  `json:"frequency_penalty"`
	Mirostat  float64  `json:"mirostat"`
	TypicalP  *float64 `json:"typical_p"`
	TFS       *float64 `json:"tfs_z"`
}

// chatRequest is the body of /api/chat.
type chatRequest struct {
	common
	Messages []message `json:"messages"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

// generateRequest is the body of /api/generate.
type generateRequest struct {
	common
	Prompt string   `json:"prompt"`
	Suffix string   `json:"suffix"`
	System string   `json:"system"`
	Images []string `json:"images"`
	Raw    bool     `json:"raw"`

	Template string  `json:"template"` // not supported
	Context  []int32 `json:"context"`  // not supported
}

func chat(c *api.Call) error {
	var q chatRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	ask, err := q.ask(c.Server())
	if err != nil {
		return err
	}
	for i, m := range q.Messages {
		if err := turn(ask, i, m); err != nil {
			return err
		}
	}
	var list []talk.Definition
	for i, t := range q.Tools {
		params := t.Function.Parameters
		if len(params) == 0 {
			params = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if t.Function.Name == "" || params[0] != '{' {
			return api.Invalid("tools", "tools[%d]: want a name, and a JSON Schema as parameters", i)
		}
		list = append(list, talk.Definition{Name: t.Function.Name, Description: t.Function.Description, Parameters: params})
	}
	if err := ask.Choose(list, api.Auto, ""); err != nil {
		return err
	}
	if err := q.constrain(ask); err != nil {
		return err
	}
	if len(q.Messages) == 0 {
		return q.loaded(c, ask, true)
	}
	if err := ask.GoOn(); err != nil {
		return err
	}
	w := &writer{c: c, model: ask.Model.Name(), chat: true}
	return w.answer(ask, q.Stream == nil || *q.Stream)
}

func generate(c *api.Call) error {
	var q generateRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	ask, err := q.ask(c.Server())
	if err != nil {
		return err
	}
	switch {
	case q.Suffix != "":
		return api.Unsupported("suffix", "suffix: not supported")
	case q.Template != "":
		return api.Unsupported("template", "template: not supported; raw sends the prompt without a template")
	case len(q.Context) > 0:
		return api.Unsupported("context", "context: not supported; /api/chat takes the conversation")
	case q.Raw && q.System != "":
		return api.Unsupported("system", "system: excluded by raw")
	case q.Prompt == "" && len(q.Images) == 0:
		if err := q.constrain(ask); err != nil {
			return err
		}
		return q.loaded(c, ask, false)
	case q.Raw && len(q.Images) > 0:
		return api.Unsupported("images", "images: excluded by raw")
	case q.Raw:
		ask.Request.Plain, ask.Request.Inputs = true, []talk.Part{{Type: abi.Text, Text: q.Prompt}}
	default:
		if q.System != "" {
			ask.Request.Messages = append(ask.Request.Messages, talk.Text(talk.System, q.System))
		}
		if err := turn(ask, 0, message{Role: "user", Content: q.Prompt, Images: q.Images}); err != nil {
			return err
		}
	}
	if err := q.constrain(ask); err != nil {
		return err
	}
	w := &writer{c: c, model: ask.Model.Name()}
	return w.answer(ask, q.Stream == nil || *q.Stream)
}

// loaded answers a request without a prompt, which asks to load the model, or with a
// keep_alive of zero to unload it.
func (q *common) loaded(c *api.Call, ask *api.Ask, chat bool) error {
	if keep, _ := q.keep(); keep == 0 {
		return api.Unsupported("keep_alive", "keep_alive: got 0 without a prompt; models are unloaded by --loaded and --model-memory")
	}
	if err := ask.Request.Preferences.Check(); err != nil {
		return api.Invalid("options", "%v", err)
	}
	if err := ask.Model.Load(c.R.Context()); err != nil {
		return err
	}
	w := &writer{c: c, model: ask.Model.Name(), chat: chat}
	r := w.reply("", "", nil)
	r.Done, r.Reason = true, "load"
	return c.Reply(r)
}

// turn translates a message.
func turn(ask *api.Ask, i int, m message) error {
	one := talk.Message{Role: talk.Role(m.Role), Reasoning: m.Thinking, Name: m.ToolName}
	switch one.Role {
	case talk.System, talk.User, talk.Assistant, talk.Tool:
	default:
		return api.Invalid("messages", "messages[%d].role: got %.40q, want system, user, assistant or tool", i, m.Role)
	}
	for _, text := range m.Images {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(data) == 0 {
			return api.Invalid("images", "messages[%d].images: malformed base64", i)
		}
		one.Parts, ask.Foreign = append(one.Parts, talk.Part{Type: abi.Image, Data: data}), true
	}
	if m.Content != "" || len(one.Parts) == 0 && len(m.ToolCalls) == 0 {
		one.Parts = append(one.Parts, talk.Part{Type: abi.Text, Text: m.Content})
	}
	for _, c := range m.ToolCalls {
		args := c.Function.Arguments
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		if c.Function.Name == "" || args[0] != '{' {
			return api.Invalid("messages", "messages[%d].tool_calls: want a name, and an object as arguments", i)
		}
		one.Calls = append(one.Calls, talk.Call{Name: c.Function.Name, Arguments: args})
	}
	ask.Request.Messages = append(ask.Request.Messages, one)
	return nil
}

// ask translates the model and the sampling.
func (q *common) ask(s *api.Server) (*api.Ask, error) {
	m, err := s.Model(q.Model)
	if err != nil {
		return nil, err
	}
	if err := q.refused(); err != nil {
		return nil, err
	}
	ask := &api.Ask{Model: m}
	if _, err := q.keep(); err != nil {
		return nil, err
	}
	if err := q.think(ask); err != nil {
		return nil, err
	}
	p, o := &ask.Request.Preferences, &q.Options
	for _, f := range []struct {
		name  string
		value *float64
		high  float64
		into  *float32
	}{
		{"temperature", o.Temperature, 100, &p.Temperature}, {"top_p", o.TopP, 1, &p.TopP}, {"min_p", o.MinP, 1, &p.MinP}, {"repeat_penalty", o.Repeat, 10, &p.RepeatPenalty},
	} {
		if f.value == nil {
			continue
		}
		if !(*f.value >= 0 && *f.value <= f.high) {
			return nil, api.Invalid("options", "options.%s: got %v, want 0 to %v", f.name, *f.value, f.high)
		}
		*f.into = float32(*f.value)
	}
	if o.TopK != nil {
		p.TopK = max(*o.TopK, 0)
	}
	if o.RepeatLast != nil {
		p.RepeatLast = *o.RepeatLast
	}
	p.Seed = api.Seed(o.Seed)
	if o.NumPredict != nil {
		p.MaxTokens = max(*o.NumPredict, 0) // -1: until the end of the text
	}
	p.Stop, err = stops(o.Stop)
	return ask, err
}

// refused reports fields that would change the answer and that are not supported.
func (q *common) refused() error {
	o := &q.Options
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"options.presence_penalty", o.Presence != 0}, {"options.frequency_penalty", o.Frequency != 0}, {"options.mirostat", o.Mirostat != 0},
		{"options.typical_p", o.TypicalP != nil && *o.TypicalP != 1}, {"options.tfs_z", o.TFS != nil && *o.TFS != 1}, {"logprobs", q.Logprobs},
	} {
		if f.set {
			return api.Unsupported(f.name, "%s: not supported", f.name)
		}
	}
	return nil
}

// keep returns for how long the client wants the model to stay loaded, negative if it does not
// matter. The limits of the server decide.
func (q *common) keep() (time.Duration, error) {
	var seconds float64
	var text string
	switch {
	case len(q.Keep) == 0 || bytes.Equal(q.Keep, []byte("null")):
		return -1, nil
	case json.Unmarshal(q.Keep, &seconds) == nil:
		return time.Duration(seconds * float64(time.Second)), nil
	case json.Unmarshal(q.Keep, &text) == nil:
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return time.Duration(n * float64(time.Second)), nil
		}
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
	}
	return 0, api.Invalid("keep_alive", "keep_alive: got %.40s, want seconds or a duration such as 5m", q.Keep)
}

// think translates the reasoning. As in Ollama, a model that cannot reason refuses to, and
// one that always does ignores false.
func (q *common) think(ask *api.Ask) error {
	var on bool
	var level string
	switch {
	case len(q.Think) == 0 || bytes.Equal(q.Think, []byte("null")):
	case json.Unmarshal(q.Think, &on) == nil:
		ask.Reason("think", on, !on)
	case json.Unmarshal(q.Think, &level) == nil:
		return ask.Effort("think", level)
	default:
		return api.Invalid("think", "think: want true, false or a level")
	}
	return nil
}

// stops reads a string or an array of strings.
func stops(raw json.RawMessage) (list []string, err error) {
	var one string
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		return nil, nil
	case json.Unmarshal(raw, &one) == nil:
		list = []string{one}
	case json.Unmarshal(raw, &list) != nil:
		return nil, api.Invalid("options", "options.stop: want a string or an array of strings")
	}
	return list, nil
}

// constrain applies the format: "json" or a JSON Schema.
func (q *common) constrain(ask *api.Ask) error {
	raw := q.Format
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")) || bytes.Equal(raw, []byte(`""`)):
		return nil
	case bytes.Equal(raw, []byte(`"json"`)):
		raw = api.AnyObject
	case raw[0] != '{':
		return api.Invalid("format", "format: got %.40s, want \"json\" or a JSON Schema", raw)
	}
	return ask.Constrain("format", raw)
}
