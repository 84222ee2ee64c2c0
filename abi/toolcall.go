package abi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// The special tokens around a tool call (MM-ABI 1.0 §2.3).
const (
	ToolCallOpen  = "<tool_call>"
	ToolCallClose = "</tool_call>"
)

// MaxToolCall is the maximum length of a tool call in bytes.
const MaxToolCall = 64 << 10

// ToolCall is the JSON block with which the core calls a skill.
type ToolCall struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args,omitempty"`
}

// FormatToolResult encodes a tool's answer as the line of JSON that the core receives: compact, without newlines, HTML
// characters unescaped.
func FormatToolResult(result any) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(result); err != nil {
		return "", fmt.Errorf("writing tool result: %w", err)
	}
	return strings.TrimRight(buf.String(), "\n"), nil
}
