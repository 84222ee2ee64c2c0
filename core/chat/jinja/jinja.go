// Package jinja runs templates in a sandbox, in the subset of the Jinja
// language that chat templates use: text, expressions, if, for, set, macro and
// filter blocks, filters, tests, and the methods of Python's str, list and
// dict. A template has access only to its variables: no attributes beyond data,
// files, imports, clock or reflection. Time, output and nesting are limited,
// each with a distinct error.
//
// [Parse] compiles a template, [Template.Render] runs it. The output is that of
// Jinja 3.1 with trim_blocks, lstrip_blocks and loop controls, and without
// autoescape: the filter safe changes nothing. Generators are lists.
package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Limits of a template and of its run.
const (
	maxTemplate = 64 << 10 // bytes of source
	maxOutput   = 4 << 20  // bytes of text, and of any string
	maxSteps    = 2 << 20  // expressions evaluated, bytes moved counting too; plus
	stepsEach   = 4 << 10  // for each value in the variables, since some
	mostSteps   = 16 << 20 // go over all messages at each, but never more than this
	maxItems    = 1 << 17  // elements of a list
	maxNesting  = 100      // nested blocks and expressions
	maxCalls    = 50       // nested macro calls
)

// Errors of the limits; wrapped.
var (
	ErrTemplate = errors.New("template exceeds 64 KiB")
	ErrOutput   = errors.New("output exceeds 4 MiB")
	ErrSteps    = errors.New("too many steps")
	ErrItems    = errors.New("list too long")
	ErrNesting  = errors.New("nesting too deep")
	// ErrSyntax wraps invalid and unsupported syntax.
	ErrSyntax = errors.New("syntax")
)

// RaisedError is an error raised by a template's raise_exception.
type RaisedError struct{ Message string }

// Error returns the template's message.
func (e *RaisedError) Error() string { return "raised by the template: " + e.Message }

// Object is a dict with ordered keys.
type Object []Field

// Field is a key of an Object.
type Field struct {
	Key   string
	Value any
}

// MarshalJSON encodes the object with its keys in order.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(f.Key)
		if err != nil {
			return nil, err
		}
		v, err := json.Marshal(f.Value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Options configures a run.
type Options struct {
	// Now is the time of strftime_now. If zero, the function is undefined, so
	// that the same variables give the same text.
	Now time.Time
}

// Syntax configures how a template is read. The zero value is that of chat templates.
type Syntax struct {
	// Keep leaves the white space around blocks and the line break at the end, as
	// Jinja does without trim_blocks and lstrip_blocks and with
	// keep_trailing_newline.
	Keep bool
	// Strict makes the output of an undefined value an error (StrictUndefined).
	Strict bool
}

// Template is a compiled template, safe for concurrent use.
type Template struct {
	body   []stmt
	strict bool
}

// Parse compiles a chat template.
func Parse(source string) (*Template, error) { return ParseAs(source, Syntax{}) }

// ParseAs compiles a template.
func ParseAs(source string, syntax Syntax) (*Template, error) {
	if len(source) > maxTemplate {
		return nil, ErrTemplate
	}
	tokens, err := lex(source, syntax.Keep)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, err := p.blocks()
	if err == nil && p.peek().kind != tokenEOF {
		err = p.unexpected()
	}
	if err != nil {
		return nil, err
	}
	return &Template{body, syntax.Strict}, nil
}

// Render runs the template with variables of the types that encoding/json
// decodes into, and of int, int64, [Object], and json.RawMessage, whose objects
// keep the order of their keys. The template can also call raise_exception,
// namespace, dict, range and, if enabled, strftime_now.
func (t *Template) Render(vars map[string]any, opt Options) (string, error) {
	global := &scope{vars: maps.Clone(functions)}
	if !opt.Now.IsZero() {
		global.vars["strftime_now"] = strftimeNow(opt.Now)
	}
	values := 0
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v, err := fromGo(vars[name], 0)
		if err != nil {
			return "", fmt.Errorf("variable %s: %w", name, err)
		}
		global.vars[name] = v
		values += count(v)
	}
	var out strings.Builder
	r := &run{out: &out, strict: t.strict, most: stepLimit(values), scope: &scope{vars: make(map[string]value), up: global}}
	if err := r.all(t.body); err != nil {
		return "", err
	}
	return out.String(), nil
}

// stepLimit returns the limit of steps for variables of so many values.
func stepLimit(values int) int { return min(maxSteps+values*stepsEach, mostSteps) }
