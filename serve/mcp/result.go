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

// structured is the result whose content is v, as JSON and as text. One that is
// too large is an error: half of a document is none.
func structured(v any) (*sdk.CallToolResult, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing the result: %w", err)
	}
	if len(data) > maxResult {
		return nil, fmt.Errorf("the result has %d bytes; the limit is %d", len(data), maxResult)
	}
	return &sdk.CallToolResult{StructuredContent: json.RawMessage(data), Content: []sdk.Content{&sdk.TextContent{Text: string(data)}}}, nil
}

// failed is the result that tells an error: each fault with its place and its
// way out, paths below the root as a client writes them.
func (s *Server) failed(err error) *sdk.CallToolResult {
	var b bytes.Buffer
	var faults *diag.Faults
	var h interface{ Hint() string }
	if errors.As(err, &faults) {
		list, left := s.told(faults.List)
		_ = list.Text(&b) // it cannot fail for what b is
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

// told are faults as a client is told them, and how many were left out.
func (s *Server) told(list diag.List) (diag.List, int) {
	out := make(diag.List, 0, min(len(list), maxFaults))
	for _, d := range list[:min(len(list), maxFaults)] {
		d.Pos.File = s.root.told(d.Pos.File)
		d.Detail, d.Hint = cut(d.Detail, maxDetail), cut(d.Hint, maxDetail)
		out = append(out, d)
	}
	return out, len(list) - len(out)
}

// maxDetail bounds what of a document stands in a fault, in bytes.
const maxDetail = 1 << 10

// cut shortens a text to about most bytes, at the beginning of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
