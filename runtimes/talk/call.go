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

// Dialect describes how a model writes a tool call: a JSON object between two
// markers. Calls of any known dialect are parsed, whichever the model was asked to
// use.
type Dialect struct {
	Open, Close     string // the texts of the markers' tokens
	Name, Arguments string // the keys of the object
}

// MMABI returns the dialect of MM-ABI 1.0 §2.3: {"tool": …, "args": {…}}.
func MMABI() Dialect {
	return Dialect{Open: abi.ToolCallOpen, Close: abi.ToolCallClose, Name: "tool", Arguments: "args"}
}

// Hermes returns the dialect of Hermes, Qwen2.5 and Qwen3: {"name": …, "arguments": {…}}.
func Hermes() Dialect {
	return Dialect{Open: "<tool_call>", Close: "</tool_call>", Name: "name", Arguments: "arguments"}
}

// Guarded returns further markers that user text must not produce.
func (d Dialect) Guarded() []string {
	return []string{d.Open, d.Close, "<tool_response>", "</tool_response>", "<tools>", "</tools>"}
}

// Call is a tool call of the model.
type Call struct {
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object, compact
	// Fault is the reason why the block between the markers is malformed; if set,
	// the other fields are empty and Block is the raw text.
	Fault string `json:"fault,omitempty"`
	Block string `json:"block,omitempty"`
}

// Format returns the object between the markers.
func (d Dialect) Format(c Call) json.RawMessage {
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"%s":%s,"%s":%s}`, d.Name, quote(c.Name), d.Arguments, args)
	return b.Bytes()
}

// ParseCall parses the text between the markers, in any of the dialects. The text
// comes from a model and is untrusted: unknown and duplicate keys, trailing data,
// arguments that are not an object, and blocks over [abi.MaxToolCall] are errors.
func ParseCall(block string) (Call, error) {
	if len(block) > abi.MaxToolCall {
		return Call{}, fmt.Errorf("tool call has %d bytes, limit %d", len(block), abi.MaxToolCall)
	}
	fields, err := object(block)
	if err != nil {
		return Call{}, fmt.Errorf("parsing tool call: %w", err)
	}
	for _, d := range []Dialect{MMABI(), Hermes()} {
		raw, ok := fields[d.Name]
		if !ok {
			continue
		}
		c := Call{Arguments: json.RawMessage("{}")}
		if json.Unmarshal(raw, &c.Name) != nil || c.Name == "" {
			return Call{}, errors.New("parsing tool call: missing tool name")
		}
		args, has := fields[d.Arguments]
		if has {
			var b bytes.Buffer
			if err := json.Compact(&b, args); err != nil || b.Bytes()[0] != '{' {
				return Call{}, fmt.Errorf("parsing tool call: %s is not an object", d.Arguments)
			}
			c.Arguments = b.Bytes()
		}
		for key := range fields {
			if key != d.Name && (key != d.Arguments || !has) {
				return Call{}, fmt.Errorf("parsing tool call: unknown key %.40q", key)
			}
		}
		return c, nil
	}
	return Call{}, errors.New("parsing tool call: missing tool name")
}

// object parses the keys of a JSON object and refuses duplicates.
func object(text string) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	out := make(map[string]json.RawMessage)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("duplicate key %.40q", name)
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
		return nil, errors.New("trailing data after the JSON object")
	}
	return out, nil
}
