package openai

import "mm-abi.org/mm/serve/api"

// chatStream writes the chunks of a choice.
type chatStream struct {
	st     *api.Stream
	base   completion
	index  int
	scores *logprobs
	begun  bool
	sent   int // bytes of text
}

// streamChat answers in chunks. Those of several choices alternate.
func streamChat(c *api.Call, asks []*api.Ask, base completion, scores []*logprobs, count bool) error {
	base.Object = "chat.completion.chunk"
	st := c.Stream(api.SSE, ": ping\n\n")
	defer st.End()
	list := make([]*chatStream, len(asks))
	for i, a := range asks {
		one := &chatStream{st: st, base: base, index: i, scores: scores[i]}
		a.Request.Reasoned, list[i] = one.reasoned, one
	}
	results, err := c.AnswerEach(asks, func(i int, text string) error { return list[i].text(text) })
	if err != nil {
		return st.Fail("", err)
	}
	for i, r := range results {
		if err := list[i].end(r); err != nil {
			return err
		}
	}
	if count {
		base.Choices, base.Usage = []choiceOf{}, usageOf(len(results), results...)
		if err := st.Send("", base); err != nil {
			return err
		}
	}
	return st.Raw("", "[DONE]")
}

// send writes a chunk.
func (s *chatStream) send(d delta, why *string) error {
	s.base.Choices = []choiceOf{{Index: s.index, Delta: &d, Logprobs: s.scores.taken(d), Finish: why}}
	return s.st.Send("", s.base)
}

// begin writes the role once.
func (s *chatStream) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	return s.send(delta{Role: "assistant", Content: new(string)}, nil)
}

func (s *chatStream) reasoned(text string) error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.send(delta{Reasoning: text}, nil)
}

func (s *chatStream) text(text string) error {
	if err := s.begin(); err != nil {
		return err
	}
	s.sent += len(text)
	return s.send(delta{Content: &text}, nil)
}

// end writes what remains of an answer: text that was held back, calls, and the reason of its
// end.
func (s *chatStream) end(r *api.Result) error {
	if err := s.begin(); err != nil {
		return err
	}
	if rest := r.Text[min(s.sent, len(r.Text)):]; rest != "" {
		if err := s.send(delta{Content: &rest}, nil); err != nil {
			return err
		}
	}
	for _, one := range callsOf(r.Calls, true) {
		args := call{Index: one.Index}
		args.Function.Arguments, one.Function.Arguments = one.Function.Arguments, ""
		if err := s.send(delta{ToolCalls: []call{one}}, nil); err != nil {
			return err
		}
		if err := s.send(delta{ToolCalls: []call{args}}, nil); err != nil {
			return err
		}
	}
	why := finish(r)
	s.base.MM = extraOf(r)
	return s.send(delta{}, &why)
}
