package talk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"mm-abi.org/mm/abi"
)

// Dialect is how a model writes a tool call: a JSON object between two markers.
// Calls of any known dialect are understood, whichever a model is told to
// write.
type Dialect struct {
	Open, Close     string // the texts of the markers' tokens
	Name, Arguments string // the keys of the object
}

// MMABI is MM-ABI 1.0 §2.3: {"tool": …, "args": {…}}.
func MMABI() Dialect {
	return Dialect{Open: abi.ToolCallOpen, Close: abi.ToolCallClose, Name: "tool", Arguments: "args"}
}

// Hermes is that of Hermes, Qwen2.5 and Qwen3: {"name": …, "arguments": {…}}.
func Hermes() Dialect {
	return Dialect{Open: "<tool_call>", Close: "</tool_call>", Name: "name", Arguments: "arguments"}
}

// Guarded are further markers that words must not become.
func (d Dialect) Guarded() []string {
	return []string{d.Open, d.Close, "<tool_response>", "</tool_response>", "<tools>", "</tools>"}
}

// Call is a tool call of the model.
type Call struct {
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object, compact
	// Fault says why the block between the markers is no call; then the other
	// fields are empty and Block is what stood there.
	Fault string `json:"fault,omitempty"`
	Block string `json:"block,omitempty"`
}

// Format is the object between the markers.
func (d Dialect) Format(c Call) json.RawMessage {
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"%s":%s,"%s":%s}`, d.Name, quote(c.Name), d.Arguments, args)
	return b.Bytes()
}

// ParseCall reads the text between the markers, in any of the dialects. It
// comes from a model and is hostile until read: unknown and repeated keys,
// trailing data, arguments that are no object, and blocks over
// [abi.MaxToolCall] are errors.
func ParseCall(block string) (Call, error) {
	if len(block) > abi.MaxToolCall {
		return Call{}, fmt.Errorf("tool call of %d bytes is over the limit of %d", len(block), abi.MaxToolCall)
	}
	fields, err := object(block)
	if err != nil {
		return Call{}, fmt.Errorf("reading tool call: %w", err)
	}
	for _, d := range []Dialect{MMABI(), Hermes()} {
		raw, ok := fields[d.Name]
		if !ok {
			continue
		}
		c := Call{Arguments: json.RawMessage("{}")}
		if json.Unmarshal(raw, &c.Name) != nil || c.Name == "" {
			return Call{}, errors.New("reading tool call: no tool named")
		}
		args, has := fields[d.Arguments]
		if has {
			var b bytes.Buffer
			if err := json.Compact(&b, args); err != nil || b.Bytes()[0] != '{' {
				return Call{}, fmt.Errorf("reading tool call: %s is no object", d.Arguments)
			}
			c.Arguments = b.Bytes()
		}
		for key := range fields {
			if key != d.Name && (key != d.Arguments || !has) {
				return Call{}, fmt.Errorf("reading tool call: unknown key %.40q", key)
			}
		}
		return c, nil
	}
	return Call{}, errors.New("reading tool call: no tool named")
}

// object reads the keys of a JSON object, each of which may stand once.
func object(text string) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	out := make(map[string]json.RawMessage)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("key %.40q stands twice", name)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		out[name] = v
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the JSON object")
	}
	return out, nil
}
