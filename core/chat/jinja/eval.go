package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// run is one run of a template.
type run struct {
	out    *strings.Builder
	strict bool // undefined values are errors
	scope  *scope
	steps  int
	most   int // limit of steps
	calls  int
}

// scope holds the names of a block.
type scope struct {
	vars map[string]value
	up   *scope
}

func (s *scope) find(name string) value {
	for ; s != nil; s = s.up {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	return undefined{name}
}

// step counts work; every loop of the interpreter calls it.
func (r *run) step(n int) error {
	if r.steps += n; r.steps > r.most {
		return ErrSteps
	}
	return nil
}

// newString checks the size of a new string and counts its cost.
func (r *run) newString(s string) (value, error) {
	if len(s) > maxOutput {
		return nil, ErrOutput
	}
	return s, r.step(len(s) / 64)
}

// newList checks the size of a new list and counts its cost.
func (r *run) newList(items []value) (value, error) {
	if len(items) > maxItems {
		return nil, ErrItems
	}
	return &list{items: items}, r.step(len(items))
}

// expr is an expression.
type expr interface {
	eval(r *run) (value, error)
}

// at adds the line to an error, once.
func at(line int, err error) error {
	var placed *lineError
	if err == nil || errors.As(err, &placed) || errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		return err
	}
	return &lineError{line, err}
}

type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

type constExpr struct{ v value }

func (e constExpr) eval(*run) (value, error) { return e.v, nil }

type nameExpr struct{ name string }

func (e *nameExpr) eval(r *run) (value, error) { return r.scope.find(e.name), r.step(1) }

type listExpr struct {
	items []expr
	tuple bool
}

func (e *listExpr) eval(r *run) (value, error) {
	items, err := r.each(e.items)
	return &list{items, e.tuple}, err
}

// each evaluates expressions in order.
func (r *run) each(exprs []expr) ([]value, error) {
	out := make([]value, len(exprs))
	for i, e := range exprs {
		var err error
		if out[i], err = e.eval(r); err != nil {
			return nil, err
		}
	}
	return out, r.step(len(exprs) + 1)
}

type dictExpr struct {
	keys, values []expr
	line         int
}

func (e *dictExpr) eval(r *run) (value, error) {
	keys, err := r.each(e.keys)
	if err != nil {
		return nil, err
	}
	values, err := r.each(e.values)
	if err != nil {
		return nil, err
	}
	d := newDict()
	for i, k := range keys {
		if !d.set(k, values[i]) {
			return nil, at(e.line, fmt.Errorf("unhashable key of type %s", kindOf(k)))
		}
	}
	return d, nil
}

type condExpr struct{ cond, then, otherwise expr }

func (e *condExpr) eval(r *run) (value, error) {
	c, err := e.cond.eval(r)
	if err != nil {
		return nil, err
	}
	switch {
	case truth(c):
		return e.then.eval(r)
	case e.otherwise != nil:
		return e.otherwise.eval(r)
	}
	return undefined{"the value of an if without else"}, nil
}

type unaryExpr struct {
	op   string
	on   expr
	line int
}

func (e *unaryExpr) eval(r *run) (value, error) {
	v, err := e.on.eval(r)
	if err != nil {
		return nil, err
	}
	if e.op == "not" {
		return !truth(v), r.step(1)
	}
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		return nil, at(e.line, fmt.Errorf("unsupported operand of unary operator: %s", kindOf(v)))
	case e.op == "+" && isInt:
		return i, r.step(1)
	case isInt && i == math.MinInt64:
		return nil, at(e.line, errRange)
	case isInt:
		return -i, r.step(1)
	case e.op == "+":
		return f, r.step(1)
	}
	return -f, r.step(1)
}

type compareExpr struct {
	first expr
	ops   []string
	rest  []expr
	line  int
}

func (e *compareExpr) eval(r *run) (value, error) {
	left, err := e.first.eval(r)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		right, err := e.rest[i].eval(r)
		if err != nil {
			return nil, err
		}
		ok, err := r.compare(op, left, right)
		if err != nil {
			return nil, at(e.line, err)
		}
		if !ok {
			return false, nil
		}
		left = right
	}
	return true, nil
}

type binaryExpr struct {
	op          string
	left, right expr
	line        int
}

func (e *binaryExpr) eval(r *run) (value, error) {
	a, err := e.left.eval(r)
	if err != nil {
		return nil, err
	}
	switch {
	case e.op == "and" && !truth(a), e.op == "or" && truth(a):
		return a, r.step(1)
	}
	b, err := e.right.eval(r)
	if err != nil || e.op == "and" || e.op == "or" {
		return b, err
	}
	v, err := r.binary(e.op, a, b)
	return v, at(e.line, errors.Join(err, r.step(1)))
}

type attrExpr struct {
	on   expr
	name string
	line int
}

func (e *attrExpr) eval(r *run) (value, error) {
	v, err := e.on.eval(r)
	if err != nil {
		return nil, err
	}
	v, err = r.attr(v, e.name)
	return v, at(e.line, errors.Join(err, r.step(1)))
}

type indexExpr struct {
	on, index expr
	line      int
}

func (e *indexExpr) eval(r *run) (value, error) {
	v, err := e.on.eval(r)
	if err != nil {
		return nil, err
	}
	if s, ok := e.index.(*sliceExpr); ok {
		part, err := s.slice(r, plain(v))
		return remark(v, part), at(e.line, err)
	}
	i, err := e.index.eval(r)
	if err != nil {
		return nil, err
	}
	item, err := r.index(plain(v), i)
	return remark(v, item), at(e.line, errors.Join(err, r.step(1)))
}

type sliceExpr struct{ parts [3]expr }

func (e *sliceExpr) eval(*run) (value, error) {
	return nil, errors.New("slice outside of square brackets")
}

// slice evaluates v[start:stop:step].
func (e *sliceExpr) slice(r *run, v value) (value, error) {
	var bounds [3]*int64
	for i, part := range e.parts {
		if part == nil {
			continue
		}
		x, err := part.eval(r)
		if err != nil {
			return nil, err
		}
		if x == nil {
			continue
		}
		n, _, isInt, ok := number(x)
		if !ok || !isInt {
			return nil, fmt.Errorf("bad slice bound of type %s", kindOf(x))
		}
		bounds[i] = &n
	}
	switch v := v.(type) {
	case *list:
		at, err := positions(bounds, len(v.items))
		if err != nil {
			return nil, err
		}
		out := &list{tuple: v.tuple}
		for _, i := range at {
			out.items = append(out.items, v.items[i])
		}
		return out, r.step(len(at) + 1)
	case string:
		if err := r.step(len(v) / 16); err != nil {
			return nil, err
		}
		chars := []rune(v)
		at, err := positions(bounds, len(chars))
		if err != nil {
			return nil, err
		}
		var b strings.Builder
		for _, i := range at {
			b.WriteRune(chars[i])
		}
		return r.newString(b.String())
	case undefined:
		return nil, fmt.Errorf("undefined %s", v.what)
	}
	return nil, fmt.Errorf("cannot slice %s", kindOf(v))
}

type arguments struct {
	plain []expr
	names []string
	named []expr
	list  expr // elements are appended to plain, or nil
	dict  expr // entries are added to named, or nil
}

// callArgs holds the values of arguments.
type callArgs struct {
	plain []value
	names []string // of named, in order
	named map[string]value
}

func (a *callArgs) name(name string, v value) {
	if a.named == nil {
		a.named = make(map[string]value)
	}
	if _, have := a.named[name]; !have {
		a.names = append(a.names, name)
	}
	a.named[name] = v
}

func (a arguments) eval(r *run) (callArgs, error) {
	var out callArgs
	var err error
	if out.plain, err = r.each(a.plain); err != nil {
		return out, err
	}
	values, err := r.each(a.named)
	if err != nil {
		return out, err
	}
	for i, v := range values {
		out.name(a.names[i], v)
	}
	return out, a.spread(r, &out)
}

// spread adds the elements of *list and the entries of **dict.
func (a arguments) spread(r *run, out *callArgs) error {
	if a.list != nil {
		v, err := a.list.eval(r)
		if err != nil {
			return err
		}
		if _, missing := v.(undefined); missing {
			return errors.New("undefined argument after *")
		}
		items, err := r.iterate(v)
		if err != nil {
			return err
		}
		if out.plain = append(out.plain, items...); len(out.plain) > maxItems {
			return ErrItems
		}
	}
	if a.dict == nil {
		return nil
	}
	v, err := a.dict.eval(r)
	if err != nil {
		return err
	}
	d, ok := v.(*dict)
	if !ok {
		return fmt.Errorf("bad argument after **: got %s, want dict", kindOf(v))
	}
	for i, k := range d.keys {
		name, ok := plain(k).(string)
		if !ok {
			return fmt.Errorf("bad argument name of type %s", kindOf(k))
		}
		if _, twice := out.named[name]; twice {
			return fmt.Errorf("duplicate argument %s", name)
		}
		out.name(name, d.vals[i])
	}
	return r.step(len(d.keys))
}

// arg returns argument i, positional or by name.
func (a callArgs) arg(i int, name string) (value, bool) {
	if i >= 0 && i < len(a.plain) {
		return a.plain[i], true
	}
	v, ok := a.named[name]
	return v, ok
}

// str returns a string argument.
func (a callArgs) str(i int, name, absent string) (string, error) {
	v, ok := a.arg(i, name)
	if !ok || v == nil {
		return absent, nil
	}
	s, ok := plain(v).(string)
	if !ok {
		return "", fmt.Errorf("argument %s: got %s, want string", name, kindOf(v))
	}
	return s, nil
}

// int returns an integer argument.
func (a callArgs) int(i int, name string, absent int64) (int64, error) {
	v, ok := a.arg(i, name)
	if !ok || v == nil {
		return absent, nil
	}
	n, _, isInt, ok := number(v)
	if !ok || !isInt {
		return 0, fmt.Errorf("argument %s: got %s, want integer", name, kindOf(v))
	}
	return n, nil
}

type callExpr struct {
	on   expr
	args arguments
	line int
}

func (e *callExpr) eval(r *run) (value, error) { return e.with(r, nil) }

// with calls with a caller, or nil.
func (e *callExpr) with(r *run, caller *function) (value, error) {
	f, err := e.on.eval(r)
	if err != nil {
		return nil, err
	}
	fn, ok := f.(*function)
	if !ok {
		if u, missing := f.(undefined); missing {
			return nil, at(e.line, fmt.Errorf("call of undefined %s", u.what))
		}
		return nil, at(e.line, fmt.Errorf("cannot call %s", kindOf(f)))
	}
	args, err := e.args.eval(r)
	if err != nil {
		return nil, at(e.line, err)
	}
	if caller != nil {
		args.name("caller", caller)
	}
	v, err := fn.call(r, args)
	if err != nil {
		err = fmt.Errorf("%s: %w", fn.name, err)
	}
	return v, at(e.line, errors.Join(err, r.step(1)))
}

type filterExpr struct {
	name string
	run  filter
	on   expr // nil for a filter block
	args arguments
	line int
}

func (e *filterExpr) eval(r *run) (value, error) {
	v, err := e.on.eval(r)
	if err != nil {
		return nil, err
	}
	return e.apply(r, v)
}

func (e *filterExpr) apply(r *run, v value) (value, error) {
	args, err := e.args.eval(r)
	if err != nil {
		return nil, err
	}
	v, err = e.marked(r, v, args)
	if err != nil {
		err = fmt.Errorf("filter %s: %w", e.name, err)
	}
	return v, at(e.line, errors.Join(err, r.step(1)))
}

type testExpr struct {
	name   string
	run    test
	on     expr
	args   arguments
	negate bool
	line   int
}

func (e *testExpr) eval(r *run) (value, error) {
	v, err := e.on.eval(r)
	if err != nil {
		return nil, err
	}
	args, err := e.args.eval(r)
	if err != nil {
		return nil, err
	}
	ok, err := e.run(r, plain(v), args.unmarked())
	if err != nil {
		err = fmt.Errorf("test %s: %w", e.name, err)
	}
	return ok != e.negate, at(e.line, errors.Join(err, r.step(1)))
}
