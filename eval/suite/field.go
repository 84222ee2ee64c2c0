package suite

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/chat/jinja"
	"mm-abi.org/mm/internal/diag"
)

// field is a value of a task's key for a document: that of the column with the name, of
// a template, or a constant.
type field struct {
	key      string
	name     string // the text of the key
	template *jinja.Template
	constant json.RawMessage // nil: none
}

// template compiles the value of a key; nil: it is absent.
func (t *Task) template(list *diag.List, key string, raw json.RawMessage) *field {
	if raw == nil || string(raw) == "null" {
		return nil
	}
	f := &field{key: key}
	if json.Unmarshal(raw, &f.name) != nil {
		f.constant = raw
		return f
	}
	var err error
	if f.template, err = jinja.ParseAs(f.name, jinja.Syntax{Keep: true, Strict: true}); err != nil {
		t.fault(list, diag.SuiteTemplate, key, err.Error(), "")
	}
	return f
}

// of returns the value for a document: a template's is text.
func (f *field) of(t *Task, d *item) (json.RawMessage, error) {
	if f.constant != nil {
		return f.constant, nil
	}
	if t.columns[f.name] {
		if v, ok := d.fields[f.name]; ok {
			return v, nil
		}
		return json.RawMessage("null"), nil
	}
	text, err := f.rendered(t, d)
	if err != nil {
		return nil, err
	}
	return json.Marshal(text)
}

// column reports whether the field is a column of the documents.
func (f *field) column(t *Task) bool { return f.constant == nil && t.columns[f.name] }

func (f *field) rendered(t *Task, d *item) (string, error) {
	vars := make(map[string]any, len(t.columns))
	for c := range t.columns {
		vars[c] = nil
	}
	for k, v := range d.fields {
		vars[k] = v
	}
	text, err := f.template.Render(vars, jinja.Options{})
	if err != nil {
		return "", fmt.Errorf("%s of document %d: %w", strings.TrimPrefix(f.key, "/"), d.id, err)
	}
	return text, nil
}

// textOf returns a field as text, as Python's str writes it.
func (f *field) textOf(t *Task, d *item) (string, error) {
	if f == nil {
		return "", nil
	}
	raw, err := f.of(t, d)
	if err != nil {
		return "", err
	}
	return python(raw)
}

// str writes values as Python does.
func python(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		return text, nil
	}
	tmpl, err := jinja.Parse("{{ v }}")
	if err != nil {
		return "", err
	}
	return tmpl.Render(map[string]any{"v": raw}, jinja.Options{})
}

// list returns the texts of a field that is a list: a column, a constant or a template
// that writes a list of Python.
func (f *field) list(t *Task, d *item) ([]string, error) {
	raw, err := f.of(t, d)
	if err != nil {
		return nil, err
	}
	var text string
	if json.Unmarshal(raw, &text) == nil && raw[0] == '"' {
		if raw, err = literal(text); err != nil {
			return nil, fmt.Errorf("%s of document %d: got %.80q, want a list: %w", strings.TrimPrefix(f.key, "/"), d.id, text, err)
		}
	}
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil, fmt.Errorf("%s of document %d: got %.80s, want a list", strings.TrimPrefix(f.key, "/"), d.id, raw)
	}
	out := make([]string, len(all))
	for i, v := range all {
		if out[i], err = python(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// gold is the expected answer to a document.
type gold struct {
	texts   []string
	indexes []int // of choices; nil: the answer is text
	raw     json.RawMessage
}

// goldOf reads the target of a document: text, the index of a choice, or a list of
// either.
func (t *Task) goldOf(target, choice *field, d *item) (g gold, err error) {
	if g.raw, err = target.of(t, d); err != nil {
		return g, err
	}
	if text := ""; !target.column(t) && json.Unmarshal(g.raw, &text) == nil && g.raw[0] == '"' {
		if n, err := strconv.Atoi(text); err == nil && choice != nil && n >= 0 && text[0] != '+' {
			g.raw = json.RawMessage(strconv.Itoa(n))
		} else if len(text) >= 2 && text[0] == '[' && text[len(text)-1] == ']' {
			if v, err := literal(text); err == nil {
				g.raw = v
			}
		}
	}
	all := []json.RawMessage{g.raw}
	var several []json.RawMessage
	if json.Unmarshal(g.raw, &several) == nil && g.raw[0] == '[' {
		all = several
	}
	for _, v := range all {
		var n int
		if choice != nil && json.Unmarshal(v, &n) == nil {
			g.indexes = append(g.indexes, n)
			continue
		}
		text, err := python(v)
		if err != nil {
			return g, err
		}
		g.texts = append(g.texts, text)
	}
	return g, nil
}

// answer returns the text of the first expected answer.
func (g gold) answer(choices []string) (string, error) {
	if len(g.indexes) > 0 {
		if i := g.indexes[0]; i >= 0 && i < len(choices) {
			return choices[i], nil
		}
		return "", fmt.Errorf("target: got choice %d of %d", g.indexes[0], len(choices))
	}
	if len(g.texts) == 0 {
		return "", nil
	}
	return g.texts[0], nil
}
