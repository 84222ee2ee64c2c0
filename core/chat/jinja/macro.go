package jinja

import (
	"errors"
	"fmt"
)

type macroStmt struct {
	name     string
	params   []string
	defaults []expr // nil if missing
	body     []stmt

	caller, varargs, kwargs bool // the body uses the name
}

// mention records a name in the body of m, which may be nil.
func (m *macroStmt) mention(name string) {
	if m == nil {
		return
	}
	switch name {
	case "caller":
		m.caller = true
	case "varargs":
		m.varargs = true
	case "kwargs":
		m.kwargs = true
	}
}

func (m *macroStmt) exec(r *run) error {
	r.scope.vars[m.name] = m.in(r.scope)
	return nil
}

// in returns the macro as a function with the names of a scope.
func (m *macroStmt) in(home *scope) *function {
	return &function{m.name, func(r *run, args callArgs) (value, error) { return m.call(r, home, args) }}
}

// call runs the macro's body in a scope within its definition's.
func (m *macroStmt) call(r *run, home *scope, args callArgs) (value, error) {
	if r.calls++; r.calls > maxCalls {
		return nil, ErrNesting
	}
	defer func() { r.calls-- }()
	s := &scope{make(map[string]value), home}
	if err := m.more(s, args); err != nil {
		return nil, err
	}
	for i, name := range m.params {
		v, ok := args.arg(i, name)
		switch {
		case ok:
		case m.defaults[i] != nil:
			before := r.scope
			r.scope = s
			var err error
			v, err = m.defaults[i].eval(r)
			r.scope = before
			if err != nil {
				return nil, err
			}
		default:
			v = undefined{name}
		}
		s.vars[name] = v
	}
	text, err := r.capture(m.body, s)
	if err != nil {
		return nil, err
	}
	return text, nil
}

// more handles the arguments beyond the parameters, if the body uses them.
func (m *macroStmt) more(s *scope, args callArgs) error {
	if m.caller {
		s.vars["caller"] = undefined{"the caller"}
	}
	rest := newDict()
	params := make(map[string]bool, len(m.params))
	for i, name := range m.params {
		params[name] = true
		if _, named := args.named[name]; named && i < len(args.plain) {
			return fmt.Errorf("duplicate argument %s", name)
		}
	}
	for _, name := range args.names {
		switch {
		case params[name]:
		case name == "caller" && m.caller:
			s.vars[name] = args.named[name]
		case name != "caller" && m.kwargs:
			rest.set(name, args.named[name])
		default:
			return errors.New("unknown argument name")
		}
	}
	if m.kwargs {
		s.vars["kwargs"] = rest
	}
	var extra []value
	if len(args.plain) > len(m.params) {
		extra = args.plain[len(m.params):]
	}
	if m.varargs {
		s.vars["varargs"] = &list{items: extra, tuple: true}
	} else if len(extra) > 0 {
		return fmt.Errorf("too many arguments: got %d, want %d", len(args.plain), len(m.params))
	}
	return nil
}

// callStmt calls a macro with the block's body as caller.
type callStmt struct {
	call *callExpr
	body *macroStmt
	line int
}

func (s *callStmt) exec(r *run) error {
	v, err := s.call.with(r, s.body.in(r.scope))
	if err != nil {
		return at(s.line, err)
	}
	text, err := r.text(v)
	if err != nil {
		return at(s.line, err)
	}
	return at(s.line, r.write(text))
}
