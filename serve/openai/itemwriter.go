package openai

import (
	"maps"

	"mm-abi.org/mm/serve/api"
)

// itemWriter writes a response, at once or in events.
type itemWriter struct {
	c        *api.Call
	response *response
	st       *api.Stream // nil: at once

	number  int         // of the next event
	begun   bool        // response.created was sent
	thought *outputItem // the open reasoning
	reason  string      // its text
	late    string      // reasoning that came within the message
	message *outputItem // the open message
	sent    string      // its text
}

// event sends an event.
func (w *itemWriter) event(kind string, fields map[string]any) error {
	if w.st == nil {
		return nil
	}
	v := map[string]any{"type": kind, "sequence_number": w.number}
	maps.Copy(v, fields)
	w.number++
	return w.st.Send(kind, v)
}

func (w *itemWriter) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	if err := w.event("response.created", map[string]any{"response": w.response}); err != nil {
		return err
	}
	return w.event("response.in_progress", map[string]any{"response": w.response})
}

// add opens an item at the end of the output.
func (w *itemWriter) add(o outputItem) error {
	return w.event("response.output_item.added", map[string]any{"output_index": len(w.response.Output), "item": o})
}

// done closes the item at the end of the output.
func (w *itemWriter) done(o outputItem) error {
	err := w.event("response.output_item.done", map[string]any{"output_index": len(w.response.Output), "item": o})
	w.response.Output = append(w.response.Output, o)
	return err
}

// think writes a piece of the reasoning, which is an item before the message.
func (w *itemWriter) think(text string) error {
	if err := w.begin(); err != nil {
		return err
	}
	if w.message != nil { // an item ends before the next one begins
		w.late += text
		return nil
	}
	if w.thought == nil {
		w.thought = &outputItem{ID: w.c.Server().ID("rs_"), Type: "reasoning"}
		if err := w.add(*w.thought); err != nil {
			return err
		}
	}
	w.reason += text
	return w.event("response.reasoning_text.delta", w.at(w.thought, map[string]any{"delta": text}))
}

// reasoned ends the reasoning.
func (w *itemWriter) reasoned() error {
	if w.thought == nil {
		return nil
	}
	if err := w.event("response.reasoning_text.done", w.at(w.thought, map[string]any{"text": w.reason})); err != nil {
		return err
	}
	o := *w.thought
	o.Content = []outputPart{{Type: "reasoning_text", Text: w.reason, Annotations: []any{}, Logprobs: []any{}}}
	w.reason, w.thought = "", nil
	return w.done(o)
}

// at returns the fields of the only part of an item.
func (w *itemWriter) at(o *outputItem, more map[string]any) map[string]any {
	more["item_id"], more["output_index"], more["content_index"] = o.ID, len(w.response.Output), 0
	return more
}

// text writes a piece of the message.
func (w *itemWriter) text(text string) error {
	if err := w.begin(); err != nil {
		return err
	}
	if w.message == nil {
		if err := w.reasoned(); err != nil {
			return err
		}
		w.message = &outputItem{ID: w.c.Server().ID("msg_"), Type: "message", Status: "in_progress", Role: "assistant"}
		if err := w.add(*w.message); err != nil {
			return err
		}
		if err := w.event("response.content_part.added", w.at(w.message, map[string]any{"part": textPart("")})); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	w.sent += text
	return w.event("response.output_text.delta", w.at(w.message, map[string]any{"delta": text, "logprobs": []any{}}))
}

// close ends the message.
func (w *itemWriter) close(status string) error {
	if w.message == nil {
		return nil
	}
	part := textPart(w.sent)
	if err := w.event("response.output_text.done", w.at(w.message, map[string]any{"text": w.sent, "logprobs": []any{}})); err != nil {
		return err
	}
	if err := w.event("response.content_part.done", w.at(w.message, map[string]any{"part": part})); err != nil {
		return err
	}
	o := *w.message
	o.Status, o.Content = status, []outputPart{part}
	if w.message = nil; w.late == "" {
		return w.done(o)
	}
	if err := w.done(o); err != nil {
		return err
	}
	if err := w.think(w.late); err != nil {
		return err
	}
	return w.reasoned()
}

// calls writes the calls.
func (w *itemWriter) calls(r *api.Result) error {
	for _, one := range r.Calls {
		args := string(one.Arguments)
		o := outputItem{ID: w.c.Server().ID("fc_"), Type: "function_call", Status: "in_progress", CallID: one.ID, Name: one.Name, Arguments: new(string)}
		if err := w.add(o); err != nil {
			return err
		}
		at := map[string]any{"item_id": o.ID, "output_index": len(w.response.Output), "delta": args}
		if err := w.event("response.function_call_arguments.delta", at); err != nil {
			return err
		}
		delete(at, "delta")
		at["arguments"], at["name"] = args, one.Name
		if err := w.event("response.function_call_arguments.done", at); err != nil {
			return err
		}
		o.Status, o.Arguments = "completed", &args
		if err := w.done(o); err != nil {
			return err
		}
	}
	return nil
}

// answer answers a request. If an error was written as an event, it returns neither.
func (w *itemWriter) answer(ask *api.Ask, stream bool) (*api.Result, error) {
	if stream {
		w.st = w.c.Stream(api.SSE, ": ping\n\n")
		defer w.st.End()
	}
	ask.Request.Reasoned = w.think
	r, err := w.c.Answer(ask, w.text)
	if err != nil {
		return nil, w.fail(err)
	}
	return r, w.end(r)
}

// fail writes an error.
func (w *itemWriter) fail(err error) error {
	if w.st == nil {
		return err
	}
	return w.st.Fail("error", err)
}

// end writes the end of an answer.
func (w *itemWriter) end(r *api.Result) error {
	if err := w.begin(); err != nil {
		return err
	}
	if rest := r.Text[min(len(w.sent), len(r.Text)):]; rest != "" || len(r.Calls) == 0 {
		if err := w.text(rest); err != nil {
			return err
		}
	}
	if err := w.reasoned(); err != nil {
		return err
	}
	status := "completed"
	if r.Finish == api.Length {
		status = "incomplete"
	}
	if err := w.close(status); err != nil {
		return err
	}
	if err := w.calls(r); err != nil {
		return err
	}
	w.response.end(r)
	if w.st == nil {
		return w.c.Reply(w.response)
	}
	return w.event("response."+w.response.Status, map[string]any{"response": w.response})
}
