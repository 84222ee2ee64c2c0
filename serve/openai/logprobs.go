package openai

import (
	"strings"

	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/api"
)

// maxAlternatives bounds top_logprobs.
const maxAlternatives = 20

// logprobs collects the log probabilities of an answer. A nil one collects none.
type logprobs struct {
	waiting []scored // not yet written
}

// scored is a token with its log probability.
type scored struct {
	Token   string   `json:"token"`
	LogProb float64  `json:"logprob"`
	Bytes   []int    `json:"bytes"`
	Top     []scored `json:"top_logprobs,omitempty"`
}

// first is a token of an answer, with the list of alternatives, which may be empty.
type first struct {
	scored
	Top []scored `json:"top_logprobs"`
}

// logprobs adds the collection of log probabilities to a request that wants them.
func (q *chatRequest) logprobs(ask *api.Ask) *logprobs {
	if q.Logprobs == nil || !*q.Logprobs {
		return nil
	}
	l := &logprobs{}
	if q.TopLogprobs != nil {
		ask.Request.Alternatives = *q.TopLogprobs
	}
	ask.Request.Scored = func(s runner.TokenScore) { l.waiting = append(l.waiting, scoredOf(s)) }
	return l
}

func scoredOf(s runner.TokenScore) scored {
	out := scored{Token: strings.ToValidUTF8(s.Piece, "\uFFFD"), LogProb: max(s.LogProb, -9999), Bytes: []int{}, Top: []scored{}}
	for i := range len(s.Piece) {
		out.Bytes = append(out.Bytes, int(s.Piece[i]))
	}
	for _, t := range s.Top {
		out.Top = append(out.Top, scoredOf(t))
	}
	return out
}

// take returns the log probabilities collected since the last call, or nil without any.
func (l *logprobs) take() any {
	if l == nil || len(l.waiting) == 0 {
		return nil
	}
	list := make([]first, len(l.waiting))
	for i, s := range l.waiting {
		list[i] = first{s, s.Top}
	}
	l.waiting = nil
	return map[string]any{"content": list, "refusal": nil}
}

// taken returns those of a chunk, if it has text or ends the answer.
func (l *logprobs) taken(d delta) any {
	if d.Role != "" {
		return nil
	}
	return l.take()
}
