package chat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// run is one run of a template.
type run struct {
	out   *strings.Builder
	scope *scope
	steps int
	calls int
}

// scope is the names known in a block.
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

// step counts work; every loop of the interpreter goes through it.
func (r *run) step(n int) error {
	if r.steps += n; r.steps > maxSteps {
		return ErrSteps
	}
	return nil
}

// made checks the size of a new string and counts its making.
func (r *run) made(s string) (value, error) {
	if len(s) > maxOutput {
		return nil, ErrOutput
	}
	return s, r.step(len(s) / 64)
}

// listed checks the size of a new list and counts its making.
func (r *run) listed(items []value) (value, error) {
	if len(items) > maxItems {
		return nil, ErrItems
	}
	return &list{items: items}, r.step(len(items))
}

// expr gives a value.
type expr interface {
	eval(r *run) (value, error)
}

// at names the line of an error, once.
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
			return nil, at(e.line, fmt.Errorf("%s cannot be a key", kindOf(k)))
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
		return nil, at(e.line, fmt.Errorf("%s has no sign", kindOf(v)))
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

func (r *run) compare(op string, a, b value) (bool, error) {
	switch op {
	case "==":
		return r.equal(a, b, 0)
	case "!=":
		same, err := r.equal(a, b, 0)
		return !same, err
	case "in":
		return r.contains(b, a)
	case "not in":
		in, err := r.contains(b, a)
		return !in, err
	}
	c, err := r.order(a, b, 0)
	switch op {
	case "<":
		return c < 0, err
	case "<=":
		return c <= 0, err
	case ">":
		return c > 0, err
	}
	return c >= 0, err
}

// contains reports whether v is in a container.
func (r *run) contains(in, v value) (bool, error) {
	switch in := in.(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			return false, fmt.Errorf("%s cannot be in a string", kindOf(v))
		}
		return strings.Contains(in, s), r.step(len(in)/16 + 1)
	case *dict:
		_, ok := in.get(v)
		return ok, r.step(1)
	}
	items, err := r.iterate(in)
	if err != nil {
		return false, err
	}
	for _, item := range items {
		if same, err := r.equal(item, v, 0); err != nil || same {
			return same, err
		}
	}
	return false, nil
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

var errRange = errors.New("the number is out of range")

func (r *run) binary(op string, a, b value) (value, error) {
	if op == "~" {
		x, err := r.text(a)
		if err != nil {
			return nil, err
		}
		y, err := r.text(b)
		if err != nil {
			return nil, err
		}
		return r.join(x, y)
	}
	ai, af, aInt, aNum := number(a)
	bi, bf, bInt, bNum := number(b)
	switch {
	case aNum && bNum && aInt && bInt && op != "/":
		return intOp(op, ai, bi)
	case aNum && bNum:
		return floatOp(op, af, bf)
	}
	switch op {
	case "+":
		if x, ok := a.(string); ok {
			if y, ok := b.(string); ok {
				return r.join(x, y)
			}
		}
		if x, ok := a.(*list); ok {
			if y, ok := b.(*list); ok && x.tuple == y.tuple {
				return r.listed(append(slices.Clone(x.items), y.items...))
			}
		}
	case "*":
		if aNum && aInt {
			a, b, bi = b, a, ai
			bInt = true
		}
		if bInt {
			return r.repeat(a, bi)
		}
	}
	return nil, fmt.Errorf("%s %s %s is not possible", kindOf(a), op, kindOf(b))
}

func (r *run) join(x, y string) (value, error) {
	if len(x)+len(y) > maxOutput {
		return nil, ErrOutput
	}
	return r.made(x + y)
}

// repeat is text or a list, n times.
func (r *run) repeat(v value, n int64) (value, error) {
	n = max(n, 0)
	switch v := v.(type) {
	case string:
		if v != "" && n > int64(maxOutput/len(v)) {
			return nil, ErrOutput
		}
		return r.made(strings.Repeat(v, int(n)*min(len(v), 1)))
	case *list:
		if len(v.items) > 0 && n > int64(maxItems/len(v.items)) {
			return nil, ErrItems
		}
		return r.listed(slices.Repeat(v.items, int(n)*min(len(v.items), 1)))
	}
	return nil, fmt.Errorf("%s * int is not possible", kindOf(v))
}

// intOp computes on whole numbers, as Python does, up to 64 bits.
func intOp(op string, a, b int64) (value, error) {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
		return nil, errRange
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
		return nil, errRange
	case "*":
		if a == 0 || b == 0 {
			return int64(0), nil
		}
		if c := a * b; c/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64) {
			return c, nil
		}
		return nil, errRange
	case "//", "%":
		switch {
		case b == 0:
			return nil, errors.New("division by zero")
		case a == math.MinInt64 && b == -1:
			return nil, errRange
		}
		q, m := a/b, a%b
		if m != 0 && (m < 0) != (b < 0) {
			q, m = q-1, m+b
		}
		if op == "//" {
			return q, nil
		}
		return m, nil
	}
	if b < 0 {
		return floatOp(op, float64(a), float64(b))
	}
	result := value(int64(1))
	for ; b > 0; b-- { // overflow ends it soon, but for 0, 1 and -1
		if a == 0 || a == 1 {
			return a, nil
		}
		if a == -1 {
			return 1 - 2*(b%2), nil
		}
		var err error
		if result, err = intOp("*", result.(int64), a); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func floatOp(op string, a, b float64) (value, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "**":
		return math.Pow(a, b), nil
	}
	if b == 0 {
		return nil, errors.New("division by zero")
	}
	switch op {
	case "/":
		return a / b, nil
	case "//":
		return math.Floor(a / b), nil
	}
	m := math.Mod(a, b)
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m, nil
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

// attr looks a name up: a method of the value's type, then a key.
func (r *run) attr(v value, name string) (value, error) {
	switch v := v.(type) {
	case undefined:
		return nil, fmt.Errorf("%s is undefined", v.what)
	case *dict:
		if m := dictMethod(v, name); m != nil {
			return m, nil
		}
		if x, ok := v.get(name); ok {
			return x, nil
		}
	case *list:
		if m := listMethod(v, name); m != nil {
			return m, nil
		}
	case string:
		if m := stringMethod(v, name); m != nil {
			return m, nil
		}
	case *namespace:
		if x, ok := v.vars[name]; ok {
			return x, nil
		}
	case *loop:
		if x, ok := v.attr(name); ok {
			return x, nil
		}
	}
	return undefined{fmt.Sprintf("%s of %s", name, kindOf(v))}, nil
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
		v, err = s.slice(r, v)
		return v, at(e.line, err)
	}
	i, err := e.index.eval(r)
	if err != nil {
		return nil, err
	}
	v, err = r.index(v, i)
	return v, at(e.line, errors.Join(err, r.step(1)))
}

// index is v[i]: an element, then an attribute.
func (r *run) index(v, i value) (value, error) {
	switch v := v.(type) {
	case undefined:
		return nil, fmt.Errorf("%s is undefined", v.what)
	case *dict:
		if x, ok := v.get(i); ok {
			return x, nil
		}
	case *list:
		if n, _, isInt, ok := number(i); ok && isInt {
			if n < 0 {
				n += int64(len(v.items))
			}
			if n >= 0 && n < int64(len(v.items)) {
				return v.items[n], nil
			}
			return undefined{fmt.Sprintf("element %v", i)}, nil
		}
	case string:
		if n, _, isInt, ok := number(i); ok && isInt {
			return r.character(v, n)
		}
	}
	if name, ok := i.(string); ok {
		return r.attr(v, name)
	}
	return undefined{fmt.Sprintf("an element of %s", kindOf(v))}, nil
}

func (r *run) character(s string, n int64) (value, error) {
	if err := r.step(len(s) / 16); err != nil {
		return nil, err
	}
	chars := []rune(s)
	if n < 0 {
		n += int64(len(chars))
	}
	if n < 0 || n >= int64(len(chars)) {
		return undefined{"a character beyond the string"}, nil
	}
	return string(chars[n]), nil
}

type sliceExpr struct{ parts [3]expr }

func (e *sliceExpr) eval(*run) (value, error) {
	return nil, errors.New("a slice is only possible in square brackets")
}

// slice is v[start:stop:step].
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
			return nil, fmt.Errorf("%s cannot bound a slice", kindOf(x))
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
		return r.made(b.String())
	case undefined:
		return nil, fmt.Errorf("%s is undefined", v.what)
	}
	return nil, fmt.Errorf("%s cannot be sliced", kindOf(v))
}

// positions lists the places that a slice of n elements takes.
func positions(bounds [3]*int64, n int) ([]int, error) {
	step := int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		return nil, errors.New("the step of a slice is 0")
	}
	size := int64(n)
	lo, hi := int64(0), size
	start, stop := int64(0), size
	if step < 0 {
		lo, hi = -1, size-1
		start, stop = size-1, -1
	}
	clamp := func(p *int64, absent int64) int64 {
		if p == nil {
			return absent
		}
		x := *p
		if x < 0 {
			x = max(x, -size-1) + size
		}
		return min(max(x, lo), hi)
	}
	start, stop = clamp(bounds[0], start), clamp(bounds[1], stop)
	var out []int
	for i := start; step > 0 && i < stop || step < 0 && i > stop; {
		out = append(out, int(i))
		if step > size || step < -size { // one more step would leave the list
			break
		}
		i += step
	}
	return out, nil
}

type arguments struct {
	plain []expr
	names []string
	named []expr
}

// callArgs are the values of arguments.
type callArgs struct {
	plain []value
	named map[string]value
}

func (a arguments) eval(r *run) (callArgs, error) {
	var out callArgs
	var err error
	if out.plain, err = r.each(a.plain); err != nil {
		return out, err
	}
	if len(a.named) > 0 {
		values, err := r.each(a.named)
		if err != nil {
			return out, err
		}
		out.named = make(map[string]value, len(values))
		for i, v := range values {
			out.named[a.names[i]] = v
		}
	}
	return out, nil
}

// arg gives argument i, which may also be given by name.
func (a callArgs) arg(i int, name string) (value, bool) {
	if i >= 0 && i < len(a.plain) {
		return a.plain[i], true
	}
	v, ok := a.named[name]
	return v, ok
}

// str gives a string argument.
func (a callArgs) str(i int, name, absent string) (string, error) {
	v, ok := a.arg(i, name)
	if !ok || v == nil {
		return absent, nil
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("the argument %s is %s, not a string", name, kindOf(v))
	}
	return s, nil
}

// int gives a whole number.
func (a callArgs) int(i int, name string, absent int64) (int64, error) {
	v, ok := a.arg(i, name)
	if !ok || v == nil {
		return absent, nil
	}
	n, _, isInt, ok := number(v)
	if !ok || !isInt {
		return 0, fmt.Errorf("the argument %s is %s, not a whole number", name, kindOf(v))
	}
	return n, nil
}

type callExpr struct {
	on   expr
	args arguments
	line int
}

func (e *callExpr) eval(r *run) (value, error) {
	f, err := e.on.eval(r)
	if err != nil {
		return nil, err
	}
	fn, ok := f.(*function)
	if !ok {
		if u, missing := f.(undefined); missing {
			return nil, at(e.line, fmt.Errorf("%s is undefined and cannot be called", u.what))
		}
		return nil, at(e.line, fmt.Errorf("%s cannot be called", kindOf(f)))
	}
	args, err := e.args.eval(r)
	if err != nil {
		return nil, err
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
	on   expr // nil for a filter of a block
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
	v, err = e.run(r, v, args)
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
	ok, err := e.run(r, v, args)
	if err != nil {
		err = fmt.Errorf("test %s: %w", e.name, err)
	}
	return ok != e.negate, at(e.line, errors.Join(err, r.step(1)))
}

// length is the number of elements or characters.
func length(v value) (int, bool) {
	switch v := v.(type) {
	case undefined:
		return 0, true
	case string:
		return utf8.RuneCountInString(v), true
	case *list:
		return len(v.items), true
	case *dict:
		return len(v.keys), true
	}
	return 0, false
}
