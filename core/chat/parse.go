package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"mm-abi.org/mm/abi"
)

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

// maxCalls bounds the calls of a list.
const maxCalls = 64

// keys are the names of the members of a call, in every known form.
var keys = [][2]string{{"tool", "args"}, {"name", "arguments"}, {"name", "parameters"}}

// ParseCalls parses a block: an object, a list of objects, a name before its arguments, or the
// functions of Qwen3-Coder. Calls between an object's own markers have no id; those of a list may.
func ParseCalls(block string) ([]Call, error) {
	if len(block) > abi.MaxToolCall {
		return nil, fmt.Errorf("tool call has %d bytes, limit %d", len(block), abi.MaxToolCall)
	}
	switch text := strings.TrimSpace(block); {
	case strings.HasPrefix(text, functionOpen):
		return functions(text)
	case strings.HasPrefix(text, Args), strings.HasPrefix(text, CallID):
		return nil, errors.New("parsing tool call: missing tool name")
	case strings.HasPrefix(text, "["):
		return list(text)
	case !strings.HasPrefix(text, "{") && strings.Contains(text, Args):
		return named(text)
	}
	c, err := ParseCall(block)
	if err != nil {
		return nil, err
	}
	return []Call{c}, nil
}

// ParseCall parses one object, with the keys of any dialect. The text comes from a
// model and is untrusted: unknown and duplicate keys, trailing data, arguments that
// are not an object, and blocks over [abi.MaxToolCall] are errors.
func ParseCall(block string) (Call, error) {
	if len(block) > abi.MaxToolCall {
		return Call{}, fmt.Errorf("tool call has %d bytes, limit %d", len(block), abi.MaxToolCall)
	}
	fields, err := object(block)
	if err != nil {
		return Call{}, fmt.Errorf("parsing tool call: %w", err)
	}
	return fromFields(fields)
}

// ParseArguments parses the arguments of a call whose tool is named elsewhere.
func ParseArguments(name, block string) (Call, error) {
	if len(block) > abi.MaxToolCall {
		return Call{}, fmt.Errorf("tool call has %d bytes, limit %d", len(block), abi.MaxToolCall)
	}
	if _, err := object(block); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Call{}, fmt.Errorf("parsing the arguments of %.40q: incomplete JSON", name)
	} else if err != nil {
		return Call{}, fmt.Errorf("parsing the arguments of %.40q: %w", name, err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(block)); err != nil {
		return Call{}, fmt.Errorf("parsing the arguments of %.40q: %w", name, err)
	}
	return Call{Name: name, Arguments: b.Bytes()}, nil
}

// named parses a name, which a marker and an id may follow, and the arguments after their
// marker.
func named(text string) ([]Call, error) {
	head, args, _ := strings.Cut(text, Args)
	name, id, _ := strings.Cut(head, CallID)
	name, id = strings.TrimSpace(name), strings.TrimSpace(id)
	c, err := ParseArguments(name, args)
	if err != nil {
		return nil, err
	}
	c.ID = id
	return []Call{c}, nil
}

// fromFields returns the call of an object's members.
func fromFields(fields map[string]json.RawMessage) (Call, error) {
	if string(fields["type"]) == `"function"` {
		delete(fields, "type")
	}
	for _, k := range keys {
		name, ok := fields[k[0]]
		_, has := fields[k[1]]
		if _, other := fields["parameters"]; !ok || !has && other && k[1] == "arguments" {
			continue
		}
		c := Call{Arguments: json.RawMessage("{}")}
		if json.Unmarshal(name, &c.Name) != nil || c.Name == "" {
			return Call{}, errors.New("parsing tool call: missing tool name")
		}
		if has {
			var b bytes.Buffer
			if err := json.Compact(&b, fields[k[1]]); err != nil || b.Bytes()[0] != '{' {
				return Call{}, fmt.Errorf("parsing tool call: %s is not an object", k[1])
			}
			c.Arguments = b.Bytes()
		}
		for key := range fields {
			if key != k[0] && key != k[1] {
				return Call{}, fmt.Errorf("parsing tool call: unknown key %.40q", key)
			}
		}
		return c, nil
	}
	return Call{}, errors.New("parsing tool call: missing tool name")
}

// list parses a list of objects, which may have an id each.
func list(text string) ([]Call, error) {
	var items []json.RawMessage
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&items); err != nil {
		return nil, fmt.Errorf("parsing tool calls: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("parsing tool calls: trailing data after the list")
	}
	if len(items) == 0 || len(items) > maxCalls {
		return nil, fmt.Errorf("parsing tool calls: got %d calls, want 1 to %d", len(items), maxCalls)
	}
	var out []Call
	for _, item := range items {
		fields, err := object(string(item))
		if err != nil {
			return nil, fmt.Errorf("parsing tool call: %w", err)
		}
		id := ""
		if raw, ok := fields["id"]; ok {
			if json.Unmarshal(raw, &id) != nil {
				return nil, errors.New("parsing tool call: id is not a string")
			}
			delete(fields, "id")
		}
		c, err := fromFields(fields)
		if err != nil {
			return nil, err
		}
		c.ID = id
		out = append(out, c)
	}
	return out, nil
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
