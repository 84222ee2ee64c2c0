package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// stmt is a statement.
type stmt interface {
	exec(r *run) error
}

// all runs statements in order.
func (r *run) all(body []stmt) error {
	for _, s := range body {
		if err := r.step(1); err != nil {
			return err
		}
		if err := s.exec(r); err != nil {
			return err
		}
	}
	return nil
}

// write adds text to the output.
func (r *run) write(s string) error {
	if r.out.Len()+len(s) > maxOutput {
		return ErrOutput
	}
	r.out.WriteString(s)
	return r.step(len(s) / 64)
}

// capture returns the output of a body in a new scope.
func (r *run) capture(body []stmt, s *scope) (string, error) {
	out, before := r.out, r.scope
	r.out, r.scope = &strings.Builder{}, s
	err := r.all(body)
	text := r.out.String()
	r.out, r.scope = out, before
	return text, err
}

// inner returns a new scope within the current one.
func (r *run) inner() *scope { return &scope{make(map[string]value), r.scope} }

type textStmt struct{ text string }

func (s textStmt) exec(r *run) error { return r.write(s.text) }

type outputStmt struct {
	e    expr
	line int
}

func (s outputStmt) exec(r *run) error {
	v, err := s.e.eval(r)
	if err != nil {
		return at(s.line, err)
	}
	text, err := r.text(v)
	if err != nil {
		return at(s.line, err)
	}
	return at(s.line, r.write(text))
}

// scopeStmt is a body with its scope.
type scopeStmt struct{ body []stmt }

func (s scopeStmt) exec(r *run) error {
	before := r.scope
	r.scope = r.inner()
	defer func() { r.scope = before }()
	return r.all(s.body)
}

type ifStmt struct {
	conds     []expr
	bodies    [][]stmt
	otherwise []stmt
	line      int
}

func (s *ifStmt) exec(r *run) error {
	for i, c := range s.conds {
		v, err := c.eval(r)
		if err != nil {
			return at(s.line, err)
		}
		if truth(v) {
			return r.all(s.bodies[i])
		}
	}
	return r.all(s.otherwise)
}

// loop is the value of loop in a template.
type loop struct {
	items []value
	i     int
	seen  *list // the arguments of the last changed
}

func (l *loop) attr(name string) (value, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.i + 1), true
	case "index0":
		return int64(l.i), true
	case "revindex":
		return int64(n - l.i), true
	case "revindex0":
		return int64(n - l.i - 1), true
	case "first":
		return l.i == 0, true
	case "last":
		return l.i == n-1, true
	case "length":
		return int64(n), true
	case "previtem":
		if l.i > 0 {
			return l.items[l.i-1], true
		}
		return undefined{"loop.previtem"}, true
	case "nextitem":
		if l.i+1 < n {
			return l.items[l.i+1], true
		}
		return undefined{"loop.nextitem"}, true
	case "depth", "depth0": // of recursive loops, which are unsupported
		return int64(len(name) % 2), true
	case "changed":
		return &function{name, func(r *run, args callArgs) (value, error) {
			now := &list{items: args.plain, tuple: true}
			if l.seen != nil {
				if same, err := r.equal(l.seen, now, 0); same || err != nil {
					return false, err
				}
			}
			l.seen = now
			return true, nil
		}}, true
	case "cycle":
		return &function{"cycle", func(_ *run, args callArgs) (value, error) {
			if len(args.plain) == 0 {
				return nil, errors.New("cycle without arguments")
			}
			return args.plain[l.i%len(args.plain)], nil
		}}, true
	}
	return nil, false
}

// break and continue propagate as errors to their loop.
var errBreak, errContinue = errors.New("break outside of a loop"), errors.New("continue outside of a loop")

type loopStmt struct{ kind string }

func (s loopStmt) exec(*run) error {
	if s.kind == "break" {
		return errBreak
	}
	return errContinue
}

type forStmt struct {
	targets   []string
	over      expr
	cond      expr // or nil
	body      []stmt
	otherwise []stmt
	line      int
}

func (s *forStmt) exec(r *run) error {
	v, err := s.over.eval(r)
	if err != nil {
		return at(s.line, err)
	}
	items, err := r.iterate(v)
	if err != nil {
		return at(s.line, err)
	}
	before := r.scope
	defer func() { r.scope = before }()
	if s.cond != nil {
		if items, err = s.filtered(r, items); err != nil {
			return at(s.line, err)
		}
	}
	l := &loop{items: items}
	for l.i = range items {
		r.scope = &scope{map[string]value{"loop": l}, before}
		if err := errors.Join(r.assign(s.targets, items[l.i]), r.step(1)); err != nil {
			return at(s.line, err)
		}
		err := r.all(s.body)
		if errors.Is(err, errBreak) {
			return nil
		}
		if err != nil && !errors.Is(err, errContinue) {
			return err
		}
	}
	r.scope = before
	if len(items) == 0 {
		return r.all(s.otherwise)
	}
	return nil
}

// filtered returns the items for which the loop's condition holds.
func (s *forStmt) filtered(r *run, items []value) ([]value, error) {
	before := r.scope
	defer func() { r.scope = before }()
	var out []value
	for _, item := range items {
		r.scope = &scope{make(map[string]value), before}
		if err := r.assign(s.targets, item); err != nil {
			return nil, err
		}
		ok, err := s.cond.eval(r)
		if err != nil {
			return nil, err
		}
		if truth(ok) {
			out = append(out, item)
		}
	}
	return out, nil
}

// assign assigns a value to one name, or its elements to several.
func (r *run) assign(targets []string, v value) error {
	if len(targets) == 1 {
		r.scope.vars[targets[0]] = v
		return nil
	}
	items, err := r.iterate(v)
	if err != nil {
		return err
	}
	if len(items) != len(targets) {
		return fmt.Errorf("cannot unpack %d values to %d names", len(items), len(targets))
	}
	for i, name := range targets {
		r.scope.vars[name] = items[i]
	}
	return nil
}

type setStmt struct {
	targets []string
	attr    string // of a namespace, or "" to set a name
	value   expr   // or nil for a body
	body    []stmt
	filters []*filterExpr
	line    int
}

func (s *setStmt) exec(r *run) error {
	v, err := s.compute(r)
	if err != nil {
		return at(s.line, err)
	}
	if s.attr == "" {
		return at(s.line, r.assign(s.targets, v))
	}
	ns, ok := r.scope.find(s.targets[0]).(*namespace)
	if !ok {
		return at(s.line, fmt.Errorf("%s is not a namespace", s.targets[0]))
	}
	ns.vars[s.attr] = v
	return nil
}

func (s *setStmt) compute(r *run) (value, error) {
	if s.value != nil {
		return s.value.eval(r)
	}
	text, err := r.capture(s.body, r.inner())
	if err != nil {
		return nil, err
	}
	return filtered(r, text, s.filters)
}

// filtered applies filters to text.
func filtered(r *run, text string, filters []*filterExpr) (value, error) {
	v := value(text)
	for _, f := range filters {
		var err error
		if v, err = f.apply(r, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

type filterStmt struct {
	filters []*filterExpr
	body    []stmt
	line    int
}

func (s *filterStmt) exec(r *run) error {
	text, err := r.capture(s.body, r.inner())
	if err != nil {
		return err
	}
	v, err := filtered(r, text, s.filters)
	if err != nil {
		return at(s.line, err)
	}
	if text, err = r.text(v); err != nil {
		return at(s.line, err)
	}
	return at(s.line, r.write(text))
}
