package jinja

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

func (r *run) compare(op string, a, b value) (bool, error) {
	a, b = plain(a), plain(b)
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
			return false, fmt.Errorf("unsupported operands: %s in str", kindOf(v))
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

var errRange = errors.New("number out of range")

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
	if v, ok, err := r.markedOp(op, a, b); ok || err != nil {
		return v, err
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
				sum, err := r.newList(append(slices.Clone(x.items), y.items...))
				if l, ok := sum.(*list); ok {
					l.tuple = x.tuple
				}
				return sum, err
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
	return nil, fmt.Errorf("unsupported operands: %s %s %s", kindOf(a), op, kindOf(b))
}

// markedOp joins or repeats text if one operand is marked.
func (r *run) markedOp(op string, a, b value) (v value, ok bool, err error) {
	_, first := a.(markup)
	_, second := b.(markup)
	if !first && !second {
		return nil, false, nil
	}
	_, text1 := plain(a).(string)
	_, text2 := plain(b).(string)
	switch {
	case op == "+" && text1 && text2:
		x, err1 := r.escaped(a)
		y, err2 := r.escaped(b)
		if err := errors.Join(err1, err2); err != nil {
			return nil, true, err
		}
		v, err = r.join(x, y)
	case op == "*" && text1 != text2:
		v, err = r.binary(op, plain(a), plain(b))
	default:
		return nil, false, nil
	}
	return remark(markup(""), v), true, err
}

func (r *run) join(x, y string) (value, error) {
	if len(x)+len(y) > maxOutput {
		return nil, ErrOutput
	}
	return r.newString(x + y)
}

// repeat repeats text or a list n times.
func (r *run) repeat(v value, n int64) (value, error) {
	n = max(n, 0)
	switch v := v.(type) {
	case string:
		if v != "" && n > int64(maxOutput/len(v)) {
			return nil, ErrOutput
		}
		return r.newString(strings.Repeat(v, int(n)*min(len(v), 1)))
	case *list:
		if len(v.items) > 0 && n > int64(maxItems/len(v.items)) {
			return nil, ErrItems
		}
		return r.newList(slices.Repeat(v.items, int(n)*min(len(v.items), 1)))
	}
	return nil, fmt.Errorf("unsupported operands: %s * int", kindOf(v))
}

// intOp computes on 64-bit integers, as Python does.
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
	for ; b > 0; b-- { // stops at an overflow, except for 0, 1 and -1
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

// attr looks up a name: a method of the value's type, then a key.
func (r *run) attr(v value, name string) (value, error) {
	switch v := v.(type) {
	case undefined:
		return nil, fmt.Errorf("undefined %s", v.what)
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
	case markup:
		if m := markupMethod(v, name); m != nil {
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

// index evaluates v[i]: an element, then an attribute.
func (r *run) index(v, i value) (value, error) {
	switch v := v.(type) {
	case undefined:
		return nil, fmt.Errorf("undefined %s", v.what)
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

// positions returns the indexes of a slice of n elements.
func positions(bounds [3]*int64, n int) ([]int, error) {
	step := int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		return nil, errors.New("zero slice step")
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
		if step > size || step < -size { // the next step would leave the list
			break
		}
		i += step
	}
	return out, nil
}

// length returns the number of elements or characters.
func length(v value) (int, bool) {
	switch v := plain(v).(type) {
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
