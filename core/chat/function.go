package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The tags of Qwen3-Coder's calls.
const (
	functionOpen   = "<function="
	functionClose  = "</function>"
	parameterOpen  = "<parameter="
	parameterClose = "</parameter>"
)

// functions parses the form of Qwen3-Coder:
//
//	<function=NAME>
//	<parameter=KEY>
//	VALUE
//	</parameter>
//	</function>
//
// A value that is JSON, except a string, is that value; any other is a string.
func functions(text string) ([]Call, error) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(text, functionOpen), ">")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return nil, errors.New("parsing tool call: missing tool name")
	}
	args := map[string]json.RawMessage{}
	for {
		rest = strings.TrimSpace(rest)
		if tail, end := strings.CutPrefix(rest, functionClose); end {
			if strings.TrimSpace(tail) != "" {
				return nil, errors.New("parsing tool call: trailing data after the function")
			}
			break
		}
		tail, found := strings.CutPrefix(rest, parameterOpen)
		key, tail, named := strings.Cut(tail, ">")
		value, tail, closed := strings.Cut(tail, parameterClose)
		if !found || !named || !closed || key == "" {
			return nil, errors.New("parsing tool call: malformed parameter")
		}
		if _, twice := args[key]; twice {
			return nil, fmt.Errorf("parsing tool call: duplicate key %.40q", key)
		}
		args[key], rest = parameter(value), tail
	}
	var b bytes.Buffer
	for i, key := range slices.Sorted(maps.Keys(args)) {
		b.WriteByte("{,"[min(i, 1)])
		b.Write(quote(key))
		b.WriteByte(':')
		b.Write(args[key])
	}
	if len(args) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return []Call{{Name: name, Arguments: b.Bytes()}}, nil
}

// parameter returns the value of a parameter, without a newline at either end.
func parameter(text string) json.RawMessage {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "\n"), "\n")
	var b bytes.Buffer
	if t := strings.TrimSpace(text); t != "" && t[0] != '"' && json.Compact(&b, []byte(t)) == nil {
		return b.Bytes()
	}
	return quote(strings.ToValidUTF8(text, "\uFFFD"))
}
