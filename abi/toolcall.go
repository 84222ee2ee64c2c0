package abi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The special tokens around a tool call (MM-ABI 1.0 §2.3).
const (
	ToolCallOpen  = "<tool_call>"
	ToolCallClose = "</tool_call>"
)

// MaxToolCall is the largest tool-call block that is read, in bytes.
const MaxToolCall = 64 << 10

// ToolCall is the JSON block by which the core asks for a skill.
type ToolCall struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args,omitempty"`
}

// ParseToolCall reads the text between the two markers. The block comes from
// a model and is hostile until read: unknown keys, trailing data, an empty
// tool name and blocks over [MaxToolCall] are errors.
func ParseToolCall(block string) (ToolCall, error) {
	var c ToolCall
	if len(block) > MaxToolCall {
		return c, fmt.Errorf("tool call of %d bytes is over the limit of %d", len(block), MaxToolCall)
	}
	dec := json.NewDecoder(strings.NewReader(block))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return ToolCall{}, fmt.Errorf("reading tool call: %w", err)
	}
	if dec.More() {
		return ToolCall{}, errors.New("reading tool call: data after the JSON block")
	}
	if c.Tool == "" {
		return ToolCall{}, errors.New("reading tool call: no tool named")
	}
	return c, nil
}

// FormatToolResult renders a tool's answer as the one line of JSON that is fed
// back to the core: compact, no newline, HTML characters as they are.
func FormatToolResult(result any) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(result); err != nil {
		return "", fmt.Errorf("writing tool result: %w", err)
	}
	return strings.TrimRight(buf.String(), "\n"), nil
}
