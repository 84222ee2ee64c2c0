package anthropic

import (
	"encoding/json"

	"mm-abi.org/mm/serve/api"
)

// events writes an answer as events.
type events struct {
	st    *api.Stream
	base  answer
	begun bool
	index int    // of the next block
	open  string // the type of the open block; "": none
	sent  int    // bytes of text
}

// event is an event of the API.
type event struct {
	Type    string  `json:"type"`
	Message *answer `json:"message,omitempty"`
	Index   *int    `json:"index,omitempty"`
	Block   *block  `json:"content_block,omitempty"`
	Delta   any     `json:"delta,omitempty"`
	Usage   *usage  `json:"usage,omitempty"`
}

func (e *events) send(v event) error { return e.st.Send(v.Type, v) }

func (e *events) begin() error {
	if e.begun {
		return nil
	}
	e.begun = true
	return e.send(event{Type: "message_start", Message: &e.base})
}

// enter opens a block, unless one of its type is open.
func (e *events) enter(b block) error {
	if err := e.begin(); err != nil {
		return err
	}
	if e.open == b.Type && b.Type != "tool_use" {
		return nil
	}
	if err := e.leave(); err != nil {
		return err
	}
	e.open = b.Type
	at := e.index
	return e.send(event{Type: "content_block_start", Index: &at, Block: &b})
}

// leave closes the open block.
func (e *events) leave() error {
	if e.open == "" {
		return nil
	}
	at := e.index
	e.open, e.index = "", e.index+1
	return e.send(event{Type: "content_block_stop", Index: &at})
}

func (e *events) delta(kind, field, text string) error {
	at := e.index
	return e.send(event{Type: "content_block_delta", Index: &at, Delta: map[string]string{"type": kind, field: text}})
}

func (e *events) text(text string) error {
	if err := e.enter(block{Type: "text", Text: new(string)}); err != nil {
		return err
	}
	e.sent += len(text)
	return e.delta("text_delta", "text", text)
}

func (e *events) thinking(text string) error {
	if err := e.enter(block{Type: "thinking", Thinking: new(string), Sign: new(string)}); err != nil {
		return err
	}
	return e.delta("thinking_delta", "thinking", text)
}

// end writes the calls and the end of an answer.
func (e *events) end(r *api.Result) error {
	if rest := r.Text[min(e.sent, len(r.Text)):]; rest != "" {
		if err := e.text(rest); err != nil {
			return err
		}
	}
	for _, one := range r.Calls {
		if err := e.enter(toolUse(one, json.RawMessage("{}"))); err != nil {
			return err
		}
		if err := e.delta("input_json_delta", "partial_json", string(one.Arguments)); err != nil {
			return err
		}
	}
	if err := e.begin(); err != nil {
		return err
	}
	if err := e.leave(); err != nil {
		return err
	}
	u := usageOf(r)
	stop := map[string]*string{"stop_reason": stopReason(r), "stop_sequence": stopSequence(r)}
	if err := e.send(event{Type: "message_delta", Delta: stop, Usage: &u}); err != nil {
		return err
	}
	return e.send(event{Type: "message_stop"})
}

// stream answers in events.
func stream(c *api.Call, ask *api.Ask, base answer) error {
	e := &events{st: c.Stream(api.SSE, "event: ping\ndata: {\"type\":\"ping\"}\n\n"), base: base}
	defer e.st.End()
	ask.Request.Reasoned = e.thinking
	ask.Request.Prompted = func(prompt, reused int) { e.base.Usage = usage{Input: prompt - reused, Cached: reused} }
	r, err := c.Answer(ask, e.text)
	if err != nil {
		return e.st.Fail("error", err)
	}
	return e.end(r)
}
