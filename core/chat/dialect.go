package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
)

// Form is the shape of a block.
type Form int

// The forms.
const (
	Object  Form = iota // {"name": …, "arguments": {…}}
	List                // [{"name": …, "arguments": {…}}, …]
	Bare                // an object that begins the turn, with or without the opening marker
	Channel             // the arguments alone, in a message whose header names the tool
	Named               // the name and, after a marker, the arguments
)

// Dialect describes how a model writes a tool call: JSON between two markers.
// Blocks of any known form are parsed, whichever the model was asked to use.
type Dialect struct {
	Label           string // its name in messages
	Open, Close     string // the texts of the markers; an empty Close: the block ends with its value
	Name, Arguments string // the keys of the object
	Form            Form
	// Guided dialects describe the tools in the system turn, and write calls and
	// results as text, where the chat template does not.
	Guided bool
	// IDs is the length of the ids of calls that the template needs; 0: none.
	IDs int
}

// MMABI returns the dialect of MM-ABI 1.0 §2.3: {"tool": …, "args": {…}}.
func MMABI() Dialect {
	return Dialect{Label: "mm-abi", Open: abi.ToolCallOpen, Close: abi.ToolCallClose, Name: "tool", Arguments: "args"}
}

// Hermes returns the dialect of Hermes, Qwen2.5 and Qwen3: {"name": …, "arguments": {…}}.
func Hermes() Dialect {
	return Dialect{Label: "hermes", Open: "<tool_call>", Close: "</tool_call>", Name: "name", Arguments: "arguments"}
}

// Text returns the dialect of a model that was not trained to call tools: that of
// Hermes in ordinary text.
func Text() Dialect {
	d := Hermes()
	d.Label, d.Guided = "text", true
	return d
}

// Llama returns the dialect of Llama 3.1, 3.2 and 3.3: one object that is the whole
// turn, {"name": …, "parameters": {…}}.
func Llama() Dialect {
	return Dialect{Label: "llama3", Open: "<|python_tag|>", Name: "name", Arguments: "parameters", Form: Bare, Guided: true}
}

// Mistral returns the dialect of Mistral 7B v0.3, Nemo and Small 3.1: a list after
// one token.
func Mistral() Dialect {
	return Dialect{Label: "mistral", Open: "[TOOL_CALLS]", Name: "name", Arguments: "arguments", Form: List, Guided: true, IDs: 9}
}

// The markers within a call of [MistralNamed].
const (
	Args   = "[ARGS]"    // before the arguments
	CallID = "[CALL_ID]" // before the id, which may follow the name
)

// MistralNamed returns the dialect of Mistral Small 3.2, Magistral, Devstral and
// Ministral 3: [TOOL_CALLS]NAME[ARGS]{…}, once for each call.
func MistralNamed() Dialect {
	return Dialect{Label: "mistral-named", Open: "[TOOL_CALLS]", Form: Named, Guided: true, IDs: 9}
}

// Granite returns the dialect of Granite 3: a list after one token.
func Granite() Dialect {
	return Dialect{Label: "granite", Open: "<|tool_call|>", Name: "name", Arguments: "arguments", Form: List, Guided: true}
}

// Phi returns the dialect of Phi-4-mini: an object between two tokens.
func Phi() Dialect {
	return Dialect{Label: "phi4", Open: "<|tool_call|>", Close: "<|/tool_call|>", Name: "name", Arguments: "arguments", Guided: true}
}

// Harmony returns the dialect of gpt-oss: a turn is messages, and the header of a
// message names its channel and its recipient.
func Harmony() Dialect {
	return Dialect{Label: "harmony", Open: "<|channel|>", Close: "<|call|>", Form: Channel}
}

// harmonyTokens are the tokens of Harmony's messages; <|constrain|> may precede the
// type of a message.
var harmonyTokens = []string{"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>"}

// namespace is that of tools in recipients of harmony.
const namespace = "functions."

// Recipient returns the tool that the header of a message of harmony names, or "":
//
//	assistant to=functions.NAME commentary json
//	assistant commentary to=functions.NAME json
func Recipient(header string) string {
	for _, word := range strings.Fields(header) {
		if to, ok := strings.CutPrefix(word, "to="); ok && to != "assistant" {
			return strings.TrimPrefix(to, namespace)
		}
	}
	return ""
}

// Detect returns the dialect of a model with a chat template, "" if it has none.
// Router lists the tokens that a router names; special reports whether a text is a
// special token of the vocabulary. The error reports a form that mm does not read.
//
// A vocabulary with both tokens of the router, by default those of MM-ABI, uses
// them. Otherwise the template and the special tokens decide.
func Detect(template string, router []string, special func(text string) bool) (Dialect, error) {
	d := MMABI()
	if strings.Contains(template, "<tool_response>") {
		d = Hermes()
	}
	if len(router) == 2 {
		d.Open, d.Close = router[0], router[1]
	}
	if special(d.Open) && special(d.Close) {
		if strings.Contains(template, "<function=") {
			d.Label = "qwen3-coder"
		}
		return d, nil
	}
	holds := func(text string) bool { return strings.Contains(template, text) }
	switch {
	case holds("<|channel|>") && special("<|channel|>"):
		if i := slices.IndexFunc(harmonyTokens, func(s string) bool { return !special(s) }); i >= 0 {
			return d, fmt.Errorf("the chat template writes calls in the channels of harmony, and the vocabulary has no token %s", harmonyTokens[i])
		}
		return Harmony(), nil
	case holds("[TOOL_CALLS]") && special("[TOOL_CALLS]"):
		if holds("[ARGS]") {
			if !special(Args) {
				return d, fmt.Errorf("the chat template writes calls as NAME%s, and the vocabulary has no such token", Args)
			}
			return MistralNamed(), nil
		}
		return Mistral(), nil
	case special("<|tool_call|>") && special("<|/tool_call|>"):
		return Phi(), nil
	case holds("<|tool_call|>") && special("<|tool_call|>"):
		return Granite(), nil
	case holds("ipython") && (holds(`"parameters"`) || holds("<|python_tag|>")):
		return Llama(), nil
	}
	t := Text()
	if holds("<tool_response>") && holds("<tool_call>") {
		t.Label = "hermes"
	}
	return t, nil
}

// Guarded returns further markers that user text must not produce.
func (d Dialect) Guarded() []string {
	return []string{d.Open, d.Close, "<tool_response>", "</tool_response>", "<tools>", "</tools>"}
}

// Repeats reports whether a turn may have several blocks.
func (d Dialect) Repeats() bool { return d.Form == Object || d.Form == Named }

// String shows the form of a call.
func (d Dialect) String() string {
	call := fmt.Sprintf(`{"%s": …, "%s": {…}}`, d.Name, d.Arguments)
	switch d.Form {
	case Bare:
		return call
	case Channel:
		return "<|channel|>commentary to=" + namespace + "…<|message|>{…}" + d.Close
	case Named:
		return d.Open + "…" + Args + "{…}"
	case List:
		call = "[" + call + ", …]"
	}
	return d.Open + call + d.Close
}

// Format returns the object of a call.
func (d Dialect) Format(c Call) json.RawMessage {
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"%s":%s,"%s":%s}`, d.Name, quote(c.Name), d.Arguments, args)
	return b.Bytes()
}

// quote returns a JSON string without HTML escapes.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return []byte(`""`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Around returns the texts between the markers and the value of a block.
func (d Dialect) Around() (before, after string) {
	if d.Close == Hermes().Close {
		return "\n", "\n"
	}
	return "", ""
}

// Write returns calls as a model of the dialect writes them, in blocks with open and
// closing as the markers. Raw converts the JSON of a call.
func (d Dialect) Write(calls []Call, open, closing string, raw func(json.RawMessage) json.RawMessage) string {
	var items []string
	for _, c := range calls {
		if d.Form == Named {
			items = append(items, open+d.named(c, raw))
			continue
		}
		items = append(items, string(raw(spaced(d.Format(c)))))
	}
	before, after := d.Around()
	switch {
	case len(items) == 0:
		return ""
	case d.Form == Named:
		return strings.Join(items, "")
	case d.Form == List:
		return open + before + "[" + strings.Join(items, ", ") + "]" + after + closing
	case d.Form == Bare:
		return strings.Join(items, "\n")
	}
	return open + before + strings.Join(items, after+closing+"\n"+open+before) + after + closing
}

// named returns the name and the arguments of a call.
func (d Dialect) named(c Call, raw func(json.RawMessage) json.RawMessage) string {
	var name string
	if json.Unmarshal(raw(quote(c.Name)), &name) != nil {
		return "" // unreachable: raw returns a string for a string
	}
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return name + Args + string(raw(spaced(args)))
}

// spaced returns compact JSON with a space after each comma and colon.
func spaced(raw json.RawMessage) json.RawMessage {
	var out []byte
	quoted, escaped := false, false
	for _, b := range raw {
		out = append(out, b)
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = b == '\\', b != '"'
		case b == '"':
			quoted = true
		case b == ',' || b == ':':
			out = append(out, ' ')
		}
	}
	return out
}
