package hosted

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// The limits of an answer.
const (
	maxText  = 16 << 20 // bytes of text, of reasoning and of calls
	maxCalls = 128      // of one turn
)

// exchange is an answer in progress.
type exchange struct {
	emit     func(text string) error
	reasoned func(text string) error
	prefs    runner.Preferences
	turns    []talk.Message
	tools    []talk.Definition
	answer   *runner.Answer
	begun    time.Time
	first    time.Time // of the first text

	text, reasoning strings.Builder // of the answer
	used, thought   int             // bytes of them in earlier turns
	size            int
	calls           []*call // of the turn
	stop            string  // the provider's word
	usage           usage   // of the turn, as the server counted it last
	// signatures are opaque marks of calls that the provider wants back, by id.
	signatures map[string]string
}

// call is a call in progress.
type call struct {
	id         string
	name, args strings.Builder
}

// write adds text.
func (x *exchange) write(text string) error {
	if text == "" {
		return nil
	}
	if err := x.grow(len(text)); err != nil {
		return err
	}
	if x.first.IsZero() {
		x.first = time.Now()
	}
	x.text.WriteString(text)
	if x.emit == nil {
		return nil
	}
	return x.emit(text)
}

// think adds reasoning.
func (x *exchange) think(text string) error {
	if text == "" {
		return nil
	}
	if err := x.grow(len(text)); err != nil {
		return err
	}
	x.reasoning.WriteString(text)
	if x.reasoned == nil {
		return nil
	}
	return x.reasoned(text)
}

// grow counts bytes of the answer.
func (x *exchange) grow(n int) error {
	if x.size += n; x.size > maxText {
		return fmt.Errorf("the answer exceeds %d bytes", maxText)
	}
	return nil
}

// call returns the call at an index of the turn, which is new if it is the next one.
func (x *exchange) call(i int) (*call, error) {
	if i == len(x.calls) && i < maxCalls {
		x.calls = append(x.calls, &call{})
	}
	if i < 0 || i >= len(x.calls) {
		return nil, fmt.Errorf("the answer has a call with the index %d after %d calls, limit %d", i, len(x.calls), maxCalls)
	}
	return x.calls[i], nil
}

// id returns the id of the call at an index of the turn, for a server without ids.
func (x *exchange) id(i int) string { return fmt.Sprintf("call_%d_%d", len(x.turns), i) }

// argue adds pieces of a call's name and arguments.
func (x *exchange) argue(c *call, name, args string) error {
	c.name.WriteString(name)
	c.args.WriteString(args)
	return x.grow(len(name) + len(args))
}

// take returns the calls of the turn. Malformed arguments are a fault, which
// the model reads in place of a result.
func (x *exchange) take() []talk.Call {
	var out []talk.Call
	for i, c := range x.calls {
		one := talk.Call{ID: c.id, Name: c.name.String(), Arguments: json.RawMessage(strings.TrimSpace(c.args.String()))}
		if one.ID == "" {
			one.ID = x.id(i)
		}
		if len(one.Arguments) == 0 {
			one.Arguments = json.RawMessage("{}")
		}
		if object := map[string]json.RawMessage(nil); json.Unmarshal(one.Arguments, &object) != nil {
			one.Block, one.Arguments, one.Fault = string(one.Arguments), json.RawMessage("{}"), "the arguments are not a JSON object"
		}
		out = append(out, one)
	}
	x.calls = nil
	return out
}

// perform performs calls and adds their turns. It returns a reason to stop if they end the
// answer.
func (x *exchange) perform(ctx context.Context, loop *runner.ToolLoop, calls []talk.Call) (runtimes.Stop, error) {
	turn := talk.Message{Role: talk.Assistant, Reasoning: x.reasoning.String()[x.thought:]}
	if text := x.text.String()[x.used:]; text != "" {
		turn.Parts = []talk.Part{{Type: abi.Text, Text: text}}
	}
	var results []talk.Message
	var stop runtimes.Stop
	for _, c := range calls {
		done, end, err := loop.Call(ctx, c)
		if err != nil {
			return "", err
		}
		if stop = end; stop != "" {
			break
		}
		x.answer.Called = append(x.answer.Called, done)
		c.Fault, c.Block = "", "" // the wire has no place for them
		turn.Calls = append(turn.Calls, c)
		results = append(results, talk.Message{Role: talk.Tool, Name: c.Name, CallID: c.ID, Parts: []talk.Part{{Type: abi.Text, Text: done.Line}}})
	}
	if len(results) == 0 {
		return stop, nil
	}
	x.used, x.thought = x.text.Len(), x.reasoning.Len()
	turns := append([]talk.Message{turn}, results...)
	x.turns = append(x.turns, turns...)
	x.answer.Append(turns...)
	return stop, nil
}

// finish returns the answer.
func (x *exchange) finish() *runner.Answer {
	a := x.answer
	a.Text, a.Reasoning = x.text.String(), x.reasoning.String()
	a.Used(x.used, x.thought)
	if !x.first.IsZero() {
		a.Timings.FirstToken, a.Timings.Generate = x.first.Sub(x.begun), time.Since(x.first)
	}
	return a
}

// ended sets the reason of the end from the provider's word.
func (x *exchange) ended(word string) {
	switch strings.ToLower(word) {
	case "":
		return
	case "length", "max_tokens", "model_context_window_exceeded":
		x.answer.Stop = runtimes.StopLength
	case "content_filter", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii", "language":
		x.answer.Stop = StopFilter
	case "stop_sequence":
		x.answer.Stop = runner.StopWord
	default:
		x.answer.Stop = runtimes.StopEnd
	}
	x.stop = word
}

// usage counts the tokens of a turn.
type usage struct{ prompt, cached, generated int }

// count adds the tokens of the turn to the answer.
func (x *exchange) count() {
	t, u := &x.answer.Timings, x.usage
	t.Prompt, t.Reused, t.Generated = t.Prompt+max(u.prompt, 0), t.Reused+max(u.cached, 0), t.Generated+max(u.generated, 0)
}
