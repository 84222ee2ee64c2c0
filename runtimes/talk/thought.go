package talk

import (
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
)

// Thought is how much a model is to reason before it answers. The zero value leaves it to the
// chat template.
type Thought struct {
	Mode   Mode
	Effort string // a level of [Efforts] with [ThinkOn]; "": the template's
	// Most is the number of tokens of reasoning after which it ends, if a token ends it; 0: no
	// limit.
	Most int
	// Lenient ignores the limits of the model, instead of a [ThoughtError].
	Lenient bool
	// Vars are further variables of the template: truths, numbers and texts.
	Vars map[string]any
}

// Mode turns reasoning on or off.
type Mode int

// The modes.
const (
	ThinkDefault Mode = iota
	ThinkOn
	ThinkOff
)

// Efforts returns the levels of reasoning of chat templates, from none on.
func Efforts() []string { return []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"} }

// ThoughtError reports reasoning that a model does not support.
type ThoughtError struct{ Why string }

// Error returns the reason.
func (e *ThoughtError) Error() string { return e.Why }

// Reasoning describes how the chat template of a model turns on reasoning.
type Reasoning struct {
	Reasons bool     // answers may begin with reasoning
	Switch  string   // the variable that turns it on and off; "": none
	Efforts []string // values of reasoning_effort; nil: the template does not read it
}

// effort is the variable of templates with levels of reasoning.
const effort = "reasoning_effort"

// reserved are the variables of templates that a conversation has.
var reserved = []string{"messages", "add_generation_prompt", "bos_token", "eos_token", "tools", "documents"}

// With returns a Talk whose template reasons as wanted.
func (t *Talk) With(want Thought) (*Talk, error) {
	vars := maps.Clone(want.Vars)
	if vars == nil {
		vars = map[string]any{}
	}
	for name, v := range vars {
		switch v.(type) {
		case nil, bool, float64, string:
		default:
			return nil, &ThoughtError{"variable " + name + ": want a text, a number, true or false"}
		}
		if slices.Contains(reserved, name) {
			return nil, &ThoughtError{"variable " + name + ": set by the conversation"}
		}
	}
	if err := t.decide(want, vars); err != nil && !want.Lenient {
		return nil, err
	}
	if len(vars) == 0 {
		return t, nil
	}
	out := *t
	out.vars = vars
	return &out, nil
}

// GoesOn returns a Talk whose answers continue the last turn of a conversation, if it is the
// model's, instead of starting another one.
func (t *Talk) GoesOn() *Talk {
	out := *t
	out.goesOn = true
	return &out
}

// unended marks the end of the last turn of a conversation that goes on with it.
func (d *draft) unended(messages []Message) ([]Message, bool) {
	last := len(messages) - 1
	if !d.goesOn || messages[last].Role != Assistant || len(messages[last].Parts) == 0 || len(messages[last].Calls) > 0 {
		return messages, false
	}
	messages = slices.Clone(messages)
	m := &messages[last]
	m.Parts = append(slices.Clone(m.Parts[:len(m.Parts)-1]), Part{Type: abi.Text, Text: m.Parts[len(m.Parts)-1].Text + string(d.cut)})
	return messages, true
}

// decide sets the variables of a thought.
func (t *Talk) decide(want Thought, vars map[string]any) error {
	if want.Mode == ThinkDefault {
		return nil
	}
	can := t.reasoning()
	on := want.Mode == ThinkOn
	if can.Switch != "" {
		vars[can.Switch] = on
	}
	level := want.Effort
	if !on {
		level = "none"
	}
	switch {
	case level != "" && slices.Contains(can.Efforts, level):
		vars[effort] = level
	case can.Switch != "" && (!on || can.Efforts == nil):
	case !can.Reasons && on:
		return &ThoughtError{"the model does not reason"}
	case can.Reasons && !on:
		return &ThoughtError{"the model always reasons"}
	case can.Efforts != nil && level != "":
		return &ThoughtError{"got " + level + ", the model has " + strings.Join(can.Efforts, ", ")}
	}
	return nil
}

// CanReason returns how the template turns on reasoning.
func (t *Talk) CanReason() Reasoning { return t.reasoning() }

// probeReasoning renders a short conversation with the variables that turn reasoning on and
// off, and compares the texts.
func (t *Talk) probeReasoning() (r Reasoning) {
	if t.template == nil {
		return r
	}
	text := func(vars map[string]any) (string, bool) {
		return t.try(chat.Options{AddGenerationPrompt: true, Vars: vars}, chat.Message{Role: "user", Content: "u"})
	}
	for _, name := range []string{"enable_thinking", "thinking"} {
		on, a := text(map[string]any{name: true})
		off, b := text(map[string]any{name: false})
		if a && b && on != off {
			r.Switch = name
			break
		}
	}
	usual, _ := text(nil)
	other, valid := text(map[string]any{effort: probeWord})
	switch {
	case valid && strings.Contains(other, probeWord): // written as it is: the levels of harmony
		r.Efforts = []string{"low", "medium", "high"}
	case strings.Contains(t.source, effort):
		for _, level := range Efforts() {
			got, ok := text(map[string]any{effort: level})
			if ok && (!valid || got != other || level == "medium" && got == usual) {
				r.Efforts = append(r.Efforts, level)
			}
		}
		if slices.Equal(r.Efforts, []string{"medium"}) { // the text is the same at every level
			r.Efforts = nil
		}
	}
	r.Reasons = r.Switch != "" || r.Efforts != nil || t.channel != tokenizer.None || t.thinkMark != "" && strings.Contains(t.source, t.thinkMark)
	return r
}

// variables returns the additional variables of the template, in which texts stay text.
func (d *draft) variables() map[string]any {
	vars := maps.Clone(d.vars)
	for name, v := range vars {
		if text, ok := v.(string); ok {
			vars[name] = d.outside(text)
		}
	}
	return vars
}

// named returns the texts of the additional variables.
func (t *Talk) named() (out []string) {
	for _, v := range t.vars {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}
