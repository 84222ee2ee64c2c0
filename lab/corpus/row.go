package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"mm-abi.org/mm/internal/diag"
)

// reader converts the rows of a source to documents.
type reader struct {
	source  *Source
	filters []*Filter // of the manifest and of the source
	columns []string  // that fields and filters name, sorted
	keys    []string  // of documents
}

func newReader(m *Manifest, s *Source) (*reader, error) {
	r := &reader{source: s, keys: s.keys()}
	for _, text := range []string{m.Where, s.Where} {
		if text == "" {
			continue
		}
		f, err := NewFilter(text)
		if err != nil {
			return nil, err
		}
		r.filters = append(r.filters, f)
		r.columns = append(r.columns, f.Columns...)
	}
	r.columns = append(r.columns, slices.Collect(maps.Values(s.Fields))...)
	slices.Sort(r.columns)
	r.columns = slices.Compact(r.columns)
	return r, nil
}

// parse returns the named columns of a row of JSON lines or text.
func (r *reader) parse(row []byte) (map[string]any, error) {
	if !utf8.Valid(row) {
		return nil, faultf(diag.RowText, "invalid UTF-8")
	}
	if r.source.Format == Text {
		return map[string]any{textKey: string(row)}, nil
	}
	out := make(map[string]any, len(r.columns))
	err := members(row, func(key, value []byte) error {
		name := key[1 : len(key)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			s, err := decodeText(key)
			if err != nil {
				return err
			}
			name = []byte(s)
		}
		if _, ok := slices.BinarySearch(r.columns, string(name)); !ok {
			return nil
		}
		if _, ok := out[string(name)]; ok {
			return faultf(diag.RowFault, "duplicate key %q", name)
		}
		v, err := decodeValue(value)
		out[string(name)] = v
		return err
	})
	return out, err
}

// keep evaluates the filters.
func (r *reader) keep(row map[string]any) (bool, error) {
	for _, f := range r.filters {
		ok, err := f.Keep(row)
		if err != nil {
			return false, &fault{code: diag.FilterFault, detail: err.Error(), hint: "a missing column is nil: write (column ?? 0) > 1"}
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// document maps the columns of a row to the keys of a document.
func (r *reader) document(row map[string]any) (map[string]any, error) {
	doc := make(map[string]any, len(r.keys))
	for _, key := range r.keys {
		column := r.source.Fields[key]
		v := row[column]
		if key == messagesKey {
			if err := checkMessages(v); err != nil {
				return nil, err
			}
		} else if _, ok := v.(string); !ok {
			return nil, faultf(diag.SourceColumn, "column %q: got %s, want text", column, typeName(v))
		}
		if err := checkText(v); err != nil {
			return nil, err
		}
		doc[key] = v
	}
	return doc, nil
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "text"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a number (%T)", v)
}

// checkMessages checks a conversation: a list of objects with a role.
func checkMessages(v any) error {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return faultf(diag.RowFault, "messages: got %s, want a list of objects", typeName(v))
	}
	for i, one := range list {
		m, _ := one.(map[string]any)
		if role, _ := m["role"].(string); role == "" {
			return faultf(diag.RowFault, "message %d: missing role", i+1)
		}
		switch m["content"].(type) {
		case string, nil:
		default:
			return faultf(diag.RowFault, "message %d: content: got %s, want text", i+1, typeName(m["content"]))
		}
	}
	return nil
}

// checkText refuses NUL in texts.
func checkText(v any) error {
	if !each(v, func(s string) bool { return strings.IndexByte(s, 0) < 0 }) {
		return faultf(diag.RowText, "NUL in text")
	}
	return nil
}

// each calls visit for the strings in v, in the order of keys, until it returns
// false.
func each(v any, visit func(string) bool) bool {
	switch v := v.(type) {
	case string:
		return visit(v)
	case []any:
		for _, one := range v {
			if !each(one, visit) {
				return false
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !each(v[k], visit) {
				return false
			}
		}
	}
	return true
}

// replace returns v with its strings replaced.
func replace(v any, with func(string) string) any {
	switch v := v.(type) {
	case string:
		return with(v)
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = replace(one, with)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[k] = replace(v[k], with)
		}
		return out
	}
	return v
}

// appendValue appends v as JSON, with sorted keys.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendText(b, v)
	case []any:
		b = append(b, '[')
		for i, one := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, one)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, k), ':')
			b = appendValue(b, v[k])
		}
		return append(b, '}')
	}
	data, err := json.Marshal(v)
	if err != nil { // NaN or infinity, which JSON lacks
		return append(b, "null"...)
	}
	return append(b, data...)
}
