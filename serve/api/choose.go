package api

import (
	"encoding/json"
	"errors"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/grammar/schema"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// The choices of tools.
const (
	Auto     = "auto"     // the model decides
	None     = "none"     // no calls
	Required = "required" // the answer is a call
)

// Choose applies a choice of the client's tools. With Required, a name limits it to one.
// Without tools, those of the build may be called, except with None.
func (a *Ask) Choose(list []talk.Definition, mode, name string) error {
	switch {
	case len(list) > maxTools:
		return Invalid("tools", "tools: got %d, want at most %d", len(list), maxTools)
	case mode == None:
		a.Request.ToolsAllowed = []string{}
		return nil
	case mode != Auto && mode != Required:
		return Invalid("tool_choice", "tool_choice: unknown type")
	case len(list) == 0 && mode == Required:
		return Invalid("tool_choice", "tool_choice: requires tools")
	case len(list) == 0:
		return nil
	}
	seen := map[string]bool{}
	for _, d := range list {
		if seen[d.Name] {
			return Invalid("tools", "tools: got two with the name %s", short(d.Name))
		}
		seen[d.Name] = true
	}
	a.Request.Tools, a.Foreign = list, true
	if mode != Required {
		return nil
	}
	if a.Force = list; name == "" {
		return nil
	}
	for _, d := range list {
		if d.Name == name {
			a.Force = []talk.Definition{d}
			return nil
		}
	}
	return Invalid("tool_choice", "tool_choice: unknown tool %.80q", name)
}

// Constrain limits the answer to values of a JSON Schema, which is the field param of the
// body. With tools, it may be a call instead.
func (a *Ask) Constrain(param string, raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] != '{' {
		return Invalid(param, "%s: want a JSON Schema", param)
	}
	g, err := grammar.New(raw, grammar.Options{})
	var faults *schema.Error
	switch {
	case errors.As(err, &faults):
		return Invalid(param, "%s: %v", param, faults)
	case err != nil:
		return Invalid(param, "%s: %v", param, err)
	}
	a.Request.Preferences.Grammar, a.Foreign = g, true
	return nil
}

// GoOn makes the answer continue the last turn, if it is the model's. A grammar would hold the
// continuation alone.
func (a *Ask) GoOn() error {
	list := a.Request.Messages
	if len(list) == 0 || list[len(list)-1].Role != talk.Assistant || len(list[len(list)-1].Calls) > 0 {
		return nil
	}
	if a.Force != nil || a.Request.Preferences.Grammar != nil {
		return Unsupported("messages", "messages: the answer goes on with the last turn, which excludes a format and a required tool")
	}
	a.Request.GoesOn = true
	return nil
}

// AnyObject is the schema of any JSON object.
var AnyObject = json.RawMessage(`{"type":"object"}`)

// StopWord reports whether a stop string ended the answer.
func (r *Result) StopWord() bool { return r.Stop == runner.StopWord }

// Detail returns why an answer ended if the wire formats have no word for it, or "".
func (r *Result) Detail() string {
	switch r.Stop {
	case runtimes.StopEnd, runtimes.StopLength, runner.StopWord, runner.StopCall:
		return ""
	}
	return string(r.Stop)
}

// Certainty is how sure an answer about pictures and sounds is, without a field in the wire
// formats of others.
type Certainty struct {
	Confidence *float64 `json:"confidence,omitempty"` // the probability that the text is right; nil: unknown
	Withheld   string   `json:"withheld,omitempty"`   // the text of the model, if its confidence was too low
}

// Certainty returns how sure the answer is.
func (r *Result) Certainty() Certainty { return Certainty{r.Confidence, r.Withheld} }

// Turns returns the answer as turns of a conversation.
func (r *Result) Turns() []talk.Message {
	turns := r.Answer.Messages()
	turns[len(turns)-1].Calls = r.Calls
	return turns
}
