// Package jinja runs templates in the part of the Jinja language that chat
// templates use, as a sandbox: text, expressions, if, for, set, macro and
// filter blocks, filters, tests, and the methods of Python's str, list and
// dict. A template sees the values it is given and nothing else: there are no
// attributes beyond data, no files, no imports, no clock, no reflection. Time,
// output and nesting are bounded, each by an error of its own.
//
// [Parse] compiles a template, [Template.Render] runs it. What is rendered is
// what Jinja 3.1 renders with trim_blocks, lstrip_blocks and loop controls,
// and without autoescape: the filter safe changes nothing. Lists stand where
// Python has generators.
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

// The limits of a template and of its run.
const (
	maxTemplate = 64 << 10 // bytes of source
	maxOutput   = 4 << 20  // bytes of text, also of any one string
	maxSteps    = 2 << 20  // expressions evaluated, bytes moved counting too; more
	stepsEach   = 4 << 10  // for each value that the template is given, as some
	mostSteps   = 16 << 20 // go over all messages at each, but never more than this
	maxItems    = 1 << 17  // elements of a list
	maxNesting  = 100      // blocks and expressions within each other
	maxCalls    = 50       // macros within each other
)

// The errors for what a template may not do. Errors wrap them.
var (
	ErrTemplate = errors.New("the template is larger than 64 KiB")
	ErrOutput   = errors.New("the template makes more than 4 MiB of text")
	ErrSteps    = errors.New("the template takes too many steps")
	ErrItems    = errors.New("the template makes too long a list")
	ErrNesting  = errors.New("the template is nested too deep")
	// ErrSyntax wraps what is not understood: wrong, or outside of the subset.
	ErrSyntax = errors.New("syntax")
)

// RaisedError is what a template says by raise_exception.
type RaisedError struct{ Message string }

// Error gives the template's own words.
func (e *RaisedError) Error() string { return "the template refuses: " + e.Message }

// Object is a dict whose keys keep their order.
type Object []Field

// Field is one key of an Object.
type Field struct {
	Key   string
	Value any
}

// MarshalJSON writes the object with its keys in order.
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

// Options says what a run may know besides its variables.
type Options struct {
	// Now is the time that strftime_now gives; the function is not there when
	// it is zero, so that the same variables give the same text.
	Now time.Time
}

// Template is a compiled template, safe for use by several goroutines.
type Template struct{ body []stmt }

// Parse compiles a template.
func Parse(source string) (*Template, error) {
	if len(source) > maxTemplate {
		return nil, ErrTemplate
	}
	tokens, err := lex(source)
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
	return &Template{body}, nil
}

// Render runs the template with variables of the types that encoding/json
// decodes into, of int, int64, [Object], and json.RawMessage, whose objects
// keep the order of their keys. Besides them it can call raise_exception,
// namespace, dict, range and, if the options allow it, strftime_now.
func (t *Template) Render(vars map[string]any, opt Options) (string, error) {
	global := &scope{vars: maps.Clone(functions)}
	if !opt.Now.IsZero() {
		global.vars["strftime_now"] = strftimeNow(opt.Now)
	}
	given := 0
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v, err := fromGo(vars[name], 0)
		if err != nil {
			return "", fmt.Errorf("variable %s: %w", name, err)
		}
		global.vars[name] = v
		given += count(v)
	}
	var out strings.Builder
	r := &run{out: &out, most: min(maxSteps+given*stepsEach, mostSteps), scope: &scope{vars: make(map[string]value), up: global}}
	if err := r.all(t.body); err != nil {
		return "", err
	}
	return out.String(), nil
}
