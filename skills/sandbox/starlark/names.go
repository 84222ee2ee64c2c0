package starlark

import (
	"errors"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"mm-abi.org/mm/skills/sandbox"
)

// predeclared holds the names a program may use in addition to True, False and
// None.
var predeclared = func() map[string]bool {
	names := map[string]bool{"read": true, "sum": true}
	for name, v := range starlark.Universe {
		if _, ok := v.(*starlark.Builtin); ok {
			names[name] = true
		}
	}
	for name := range libraries {
		names[name] = true
	}
	return names
}()

// price charges for a call of a builtin before it is made. self is the
// receiver of a method, nil for a function.
type price func(m *meter, self starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error

// prices holds the builtins that do not cost two traversals of all their
// arguments. Methods are keyed by the type of their receiver.
var prices = map[string]price{
	"len": free, "type": free, "bool": free, "range": flat(object), "dict": priceTable, "set": priceTable, "hasattr": free, "getattr": free, "ord": free, "float": free, "any": through, "all": through,
	"list": copies(word), "tuple": copies(word), "reversed": copies(word), "enumerate": copies(2*object + word), "zip": copies(2*object + word),
	"dict.get": priceKey, "dict.pop": priceKey, "dict.setdefault": priceKey, "set.add": priceKey, "set.discard": priceKey, "set.remove": priceKey,
	"dict.keys": perItem(word), "dict.values": perItem(word), "dict.items": perItem(object + 3*word), "dict.clear": free, "dict.popitem": perItem(1),
	"list.append": priceAppend, "list.clear": free, "list.pop": perItem(1), "list.insert": perItem(1), "list.extend": copies(grown),
	"string.startswith": free, "string.endswith": free, "string.find": free, "string.rfind": free, "string.index": free, "string.rindex": free, "string.count": free,
	"string.replace": priceReplace, "string.format": priceFormatCall, "string.join": priceJoin, "string.split": perItem(word), "string.rsplit": perItem(word), "string.splitlines": perItem(word),
	"string.elems": perItem(word), "string.elem_ords": perItem(word), "string.codepoints": perItem(word), "string.codepoint_ords": perItem(word), "bytes.elems": perItem(word),
	"string.strip": free, "string.lstrip": free, "string.rstrip": free, "string.isalnum": free, "string.isalpha": free, "string.isdigit": free, "string.islower": free, "string.isspace": free, "string.isupper": free, "string.istitle": free,
	"decode": priceDecode,
}

func free(m *meter, self starlark.Value, _ starlark.Tuple, _ []starlark.Tuple) error {
	if s, ok := self.(starlark.String); ok {
		return m.work(int64(len(s)) / 64)
	}
	return nil
}

func flat(n int64) price {
	return func(m *meter, _ starlark.Value, _ starlark.Tuple, _ []starlark.Tuple) error { return m.take(n) }
}

// priceAppend charges for an element of a list.
func priceAppend(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	return m.item(args[0])
}

// priceTable charges for a new dict or set and its elements.
func priceTable(m *meter, self starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
	if err := m.take(emptyTable); err != nil {
		return err
	}
	return all(m, self, args, kwargs)
}

// priceKey charges for a lookup of the first argument in a dict or a set.
func priceKey(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	return m.store(args[0])
}

// perItem charges n bytes for each item or letter of the receiver.
func perItem(n int64) price {
	return func(m *meter, self starlark.Value, _ starlark.Tuple, _ []starlark.Tuple) error {
		size := int64(max(0, starlark.Len(self)))
		if err := m.work(size / 16); err != nil {
			return err
		}
		return m.take(object + n*size)
	}
}

// copies charges n bytes for each item of the arguments.
func copies(n int64) price {
	return func(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
		for _, a := range args {
			size := int64(max(0, starlark.Len(a)))
			if size > m.limit/n {
				return m.take(m.limit + 1)
			}
			if err := m.take(object + n*size); err != nil {
				return err
			}
			if err := m.work(size / 16); err != nil {
				return err
			}
		}
		return nil
	}
}

func through(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	for _, a := range args {
		if err := m.work(int64(max(0, starlark.Len(a)))); err != nil {
			return err
		}
	}
	return nil
}

// all charges for a traversal of everything and for printing it twice.
func all(m *meter, self starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
	values := args
	if self != nil {
		values = append(starlark.Tuple{self}, args...)
	}
	for _, kw := range kwargs {
		values = append(values, kw...)
	}
	for _, v := range values {
		n, err := m.size(v)
		if err == nil {
			err = m.take(2 * n)
		}
		if err == nil {
			err = m.work(n / 16)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func priceReplace(m *meter, self starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	s, _ := starlark.AsString(self)
	n := int64(len(s))
	if len(args) >= 2 {
		old, _ := starlark.AsString(args[0])
		new, _ := starlark.AsString(args[1])
		times := int64(strings.Count(s, old))
		if size := int64(len(new)) + 1; times > m.limit/size {
			return m.take(m.limit + 1)
		} else {
			n += times * size
		}
	}
	return m.take(n)
}

func priceFormatCall(m *meter, self starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
	s, _ := starlark.AsString(self)
	for _, kw := range kwargs {
		args = append(args, kw...)
	}
	return m.priceFormat(s, "{", args...)
}

func priceJoin(m *meter, self starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	s, _ := starlark.AsString(self)
	for _, a := range args {
		n, err := m.size(a)
		if err != nil {
			return err
		}
		items := int64(max(0, starlark.Len(a)))
		if size := int64(len(s)) + 1; items > m.limit/size {
			return m.take(m.limit + 1)
		} else if err := m.take(n + items*size); err != nil {
			return err
		}
	}
	return nil
}

var errNesting = errors.New("json.decode: values nested too deeply")

func priceDecode(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	for _, a := range args {
		s, _ := starlark.AsString(a)
		if nesting([]byte(s)) > maxLevel {
			return errNesting
		}
		if err := m.work(int64(len(s))); err != nil {
			return err
		}
		if err := m.take(object*int64(len(s)) + emptyTable*int64(strings.Count(s, "{"))); err != nil {
			return err
		}
	}
	return nil
}

// guard returns a builtin that charges its price first.
func (m *meter) guard(key string, b *starlark.Builtin) *starlark.Builtin {
	p := prices[key]
	if p == nil {
		p = all
	}
	wrapped := starlark.NewBuiltin(b.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if err := p(m, b.Receiver(), args, kwargs); err != nil {
			return nil, err
		}
		v, err := b.CallInternal(thread, args, kwargs)
		if it, ok := v.(starlark.Iterable); ok && starlark.Len(v) < 0 { // without a length, it has no price
			return m.collect(it)
		}
		return v, err
	})
	if self := b.Receiver(); self != nil {
		return wrapped.BindReceiver(self)
	}
	return wrapped
}

// collect makes a list of an iterable without a length.
func (m *meter) collect(it starlark.Iterable) (starlark.Value, error) {
	var list []starlark.Value
	for v := range starlark.Elements(it) {
		if err := m.take(grown); err != nil {
			return nil, err
		}
		if err := m.work(1); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return starlark.NewList(list), nil
}

// attr returns x.name.
func (m *meter) attr(x starlark.Value, name string) (starlark.Value, error) {
	has, ok := x.(starlark.HasAttrs)
	if !ok {
		return nil, errors.New(x.Type() + " has no ." + name + " field or method")
	}
	v, err := has.Attr(name)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errors.New(x.Type() + " has no ." + name + " field or method")
	}
	if b, ok := v.(*starlark.Builtin); ok {
		key := name
		if b.Receiver() != nil {
			key = x.Type() + "." + name
		}
		return m.guard(key, b), nil
	}
	return v, nil
}

// keepAttr returns x.name and charges for it: a method may be stored.
func (m *meter) keepAttr(x starlark.Value, name string) (starlark.Value, error) {
	if err := m.take(function); err != nil {
		return nil, err
	}
	return m.attr(x, name)
}

// names returns the globals of a program: builtins that charge their prices,
// and the functions that rewritten code calls.
func (m *meter) names() starlark.StringDict {
	names := starlark.StringDict{}
	for name, v := range starlark.Universe {
		if b, ok := v.(*starlark.Builtin); ok {
			names[name] = m.guard(name, b)
		}
	}
	for name, v := range libraries {
		names[name] = v
	}
	type args = starlark.Tuple
	def := func(name string, f func(t *starlark.Thread, a args) (starlark.Value, error)) {
		names[name] = starlark.NewBuiltin(name, func(t *starlark.Thread, _ *starlark.Builtin, a args, _ []starlark.Tuple) (starlark.Value, error) {
			return f(t, a)
		})
	}
	same := func(charge func(v starlark.Value) error) func(*starlark.Thread, args) (starlark.Value, error) {
		return func(_ *starlark.Thread, a args) (starlark.Value, error) { return a[0], charge(a[0]) }
	}
	names["sorted"] = starlark.NewBuiltin("sorted", func(t *starlark.Thread, _ *starlark.Builtin, a args, kw []starlark.Tuple) (starlark.Value, error) {
		return m.sorted(t, a, kw)
	})
	names["getattr"] = starlark.NewBuiltin("getattr", func(_ *starlark.Thread, _ *starlark.Builtin, a args, kw []starlark.Tuple) (starlark.Value, error) {
		var x, otherwise starlark.Value
		var name string
		if err := starlark.UnpackPositionalArgs("getattr", a, kw, 2, &x, &name, &otherwise); err != nil {
			return nil, err
		}
		v, err := m.keepAttr(x, name)
		if err != nil && otherwise != nil {
			return otherwise, nil
		}
		return v, err
	})
	names["read"] = starlark.NewBuiltin("read", func(_ *starlark.Thread, _ *starlark.Builtin, a args, kw []starlark.Tuple) (starlark.Value, error) {
		var name string
		if err := starlark.UnpackPositionalArgs("read", a, kw, 1, &name); err != nil {
			return nil, err
		}
		return m.read(name)
	})
	names["sum"] = starlark.NewBuiltin("sum", func(_ *starlark.Thread, _ *starlark.Builtin, a args, kw []starlark.Tuple) (starlark.Value, error) {
		return m.sum(a, kw)
	})
	def(hidden+"binary", func(_ *starlark.Thread, a args) (starlark.Value, error) { return m.binary(token(a[0]), a[1], a[2]) })
	def(hidden+"unary", func(_ *starlark.Thread, a args) (starlark.Value, error) { return m.unary(token(a[0]), a[1]) })
	def(hidden+"aug", func(t *starlark.Thread, a args) (starlark.Value, error) { return m.augment(t, token(a[0]), a[1], a[2]) })
	def(hidden+"augindex", func(t *starlark.Thread, a args) (starlark.Value, error) {
		return starlark.None, m.augmentIndex(t, token(a[0]), a[1], a[2], a[3])
	})
	def(hidden+"attr", func(_ *starlark.Thread, a args) (starlark.Value, error) {
		return m.keepAttr(a[0], string(a[1].(starlark.String)))
	})
	def(hidden+"method", func(_ *starlark.Thread, a args) (starlark.Value, error) {
		return m.attr(a[0], string(a[1].(starlark.String)))
	})
	def(hidden+"key", same(m.key))
	def(hidden+"store", same(m.store))
	def(hidden+"item", same(m.item))
	def(hidden+"made", same(func(v starlark.Value) error {
		switch v.(type) {
		case *starlark.Function:
			return m.take(function)
		case *starlark.Dict:
			return m.take(emptyTable)
		}
		return m.take(shallowSize(v))
	}))
	def(hidden+"star", same(func(v starlark.Value) error { return m.take(pair / word * shallowSize(v)) }))
	def(hidden+"slice", func(_ *starlark.Thread, a args) (starlark.Value, error) {
		if _, ok := a[1].(starlark.String); ok && token(a[0]) == 0 {
			return a[1], nil // shares its bytes
		}
		return a[1], m.take(shallowSize(a[1]))
	})
	def(hidden+"fn", func(*starlark.Thread, args) (starlark.Value, error) { return starlark.None, m.take(function) })
	def(hidden+"enter", func(t *starlark.Thread, a args) (starlark.Value, error) {
		for _, v := range a {
			n := shallowSize(v)
			if d, ok := v.(*starlark.Dict); ok {
				n = emptyTable + pair*int64(d.Len())
			}
			if err := m.take(n); err != nil {
				return nil, err
			}
		}
		if t.CallStackDepth() > maxDepth {
			return nil, sandbox.Faultf(sandbox.Trap, "%s recurses more than %d deep", m.name, maxDepth)
		}
		return starlark.False, nil
	})
	return names
}

// token returns an operator written by the rewriter.
func token(v starlark.Value) syntax.Token {
	n, _ := starlark.AsInt32(v)
	return syntax.Token(n)
}

// sum is Python's sum, which models use although Starlark lacks it.
func (m *meter) sum(args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var it starlark.Iterable
	var total starlark.Value = starlark.MakeInt(0)
	if err := starlark.UnpackPositionalArgs("sum", args, kwargs, 1, &it, &total); err != nil {
		return nil, err
	}
	for v := range starlark.Elements(it) {
		if err := m.work(1); err != nil {
			return nil, err
		}
		var err error
		if total, err = m.binary(syntax.PLUS, total, v); err != nil {
			return nil, err
		}
	}
	return total, nil
}
