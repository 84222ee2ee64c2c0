package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mm-abi.org/mm/internal/diag"
)

// structured returns a result with the content v, as JSON and as text. If it is too large,
// it is an error, since truncated JSON is invalid.
func structured(v any) (*sdk.CallToolResult, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	if len(data) > maxResult {
		return nil, fmt.Errorf("result has %d bytes, limit %d", len(data), maxResult)
	}
	return &sdk.CallToolResult{StructuredContent: json.RawMessage(data), Content: []sdk.Content{&sdk.TextContent{Text: string(data)}}}, nil
}

// failed returns the result of an error: each fault with its position and hint, with paths
// relative to the root.
func (s *Server) failed(err error) *sdk.CallToolResult {
	var b bytes.Buffer
	var faults *diag.Faults
	var h interface{ Hint() string }
	if errors.As(err, &faults) {
		list, left := s.clientFaults(faults.List)
		_ = list.Text(&b) // writes to b do not fail
		if left > 0 {
			fmt.Fprintf(&b, "and %d more\n", left)
		}
	} else {
		fmt.Fprintln(&b, err)
		if errors.As(err, &h) && h.Hint() != "" {
			fmt.Fprintln(&b, "hint:", h.Hint())
		}
	}
	text := strings.ReplaceAll(b.String(), s.root.dir+s.root.separator, "")
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: cut(strings.TrimSpace(text), maxError)}}}
}

const (
	maxError  = 16 << 10 // bytes of an error's text
	maxFaults = 100      // of one result
)

// clientFaults returns faults with the client's paths, and the number of omitted ones.
func (s *Server) clientFaults(list diag.List) (diag.List, int) {
	out := make(diag.List, 0, min(len(list), maxFaults))
	for _, d := range list[:min(len(list), maxFaults)] {
		d.Pos.File = s.root.clientPath(d.Pos.File)
		d.Detail, d.Hint = cut(d.Detail, maxDetail), cut(d.Hint, maxDetail)
		out = append(out, d)
	}
	return out, len(list) - len(out)
}

// maxDetail bounds the bytes of a document quoted in a fault.
const maxDetail = 1 << 10

// cut truncates a text to about most bytes, at a character boundary.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
