package starlark

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sort"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"mm-abi.org/mm/skills/sandbox"
)

// Minimal sizes of values in bytes, as charged, and limits.
const (
	word       = 16      // a value in a list
	grown      = 48      // a value appended to a list, while its array grows
	pair       = 192     // an entry of a dict or a set, while its table grows
	object     = 64      // a list, a tuple, a large number
	emptyTable = 576     // a dict or a set without its entries
	function   = 256     // a function with its defaults and closure
	maxBits    = 1 << 19 // of a number
	maxLevel   = 200     // nested values that are compared or printed

	collectEvery = 32 << 20 // charged bytes between garbage collections
)

// meter charges one call for its memory and its work.
type meter struct {
	ctx    context.Context
	name   string
	limit  int64 // bytes
	used   int64
	worked int64
	assets []sandbox.Asset
}

// take charges n bytes before they are allocated.
func (m *meter) take(n int64) error {
	if n > m.limit-m.used {
		return sandbox.Faultf(sandbox.Memory, "%s exceeded its memory limit of %d bytes", m.name, m.limit)
	}
	before := m.used / collectEvery
	if m.used += n; m.used/collectEvery != before {
		runtime.GC() // otherwise the process may grow to twice the memory in use
	}
	return nil
}

// item charges for an element of a list.
func (m *meter) item(v starlark.Value) error {
	if i, ok := v.(starlark.Int); ok { // computing a number of up to 64 bits is free
		if n, ok := i.Int64(); ok && n != int64(int32(n)) {
			return m.take(grown + object)
		}
	}
	return m.take(grown)
}

// work counts n operations that are not steps of the interpreter, and checks
// whether the call must end.
func (m *meter) work(n int64) error {
	before := m.worked >> 12
	if m.worked += n; m.worked>>12 != before && m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	return nil
}

// size returns the bytes needed to print v with everything in it, as often as
// it occurs: the cost of comparing, printing and hashing it.
func (m *meter) size(v starlark.Value) (int64, error) {
	s := sizer{m: m}
	err := s.add(v, 0)
	return s.total, err
}

type sizer struct {
	m     *meter
	total int64
}

func (s *sizer) add(v starlark.Value, level int) error {
	if level > maxLevel {
		return sandbox.Faultf(sandbox.Memory, "%s nests values %d deep", s.m.name, level)
	}
	s.total += word
	switch v := v.(type) {
	case starlark.String:
		s.total += 6 * int64(len(v)) // a control character is \u0001
	case starlark.Bytes:
		s.total += 4 * int64(len(v))
	case starlark.Int:
		s.total += int64(bits(v)) / 3
	}
	if s.total > s.m.limit {
		return sandbox.Faultf(sandbox.Memory, "%s would process more than %d bytes", s.m.name, s.m.limit)
	}
	if err := s.m.work(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case starlark.Tuple:
		for _, e := range v {
			if err := s.add(e, level+1); err != nil {
				return err
			}
		}
	case *starlark.List:
		for i := range v.Len() {
			if err := s.add(v.Index(i), level+1); err != nil {
				return err
			}
		}
	case *starlark.Dict:
		for _, item := range v.Items() {
			for _, e := range item {
				if err := s.add(e, level+1); err != nil {
					return err
				}
			}
		}
	case *starlark.Set:
		for e := range v.Elements() {
			if err := s.add(e, level+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// simple reports whether v is a short value without elements.
func simple(v starlark.Value) bool {
	switch v := v.(type) {
	case starlark.NoneType, starlark.Bool, starlark.Float:
		return true
	case starlark.Int:
		return bits(v) <= 64
	case starlark.String:
		return len(v) <= 256
	}
	return false
}

// bits returns the length of a number.
func bits(i starlark.Int) int {
	if _, ok := i.Int64(); ok {
		return 64
	}
	return i.BigInt().BitLen()
}

// walk charges for a traversal of values.
func (m *meter) walk(values ...starlark.Value) error {
	for _, v := range values {
		if simple(v) {
			continue
		}
		n, err := m.size(v)
		if err == nil {
			err = m.work(n / 64)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errShift = errors.New("shift count: want 0 to 511")

// binary charges for x op y and computes it.
func (m *meter) binary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	if err := m.priceBinary(op, x, y); err != nil {
		return nil, err
	}
	switch op {
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE:
		ok, err := starlark.Compare(op, x, y)
		return starlark.Bool(ok), err
	case syntax.NOT_IN:
		v, err := starlark.Binary(syntax.IN, x, y)
		if err != nil {
			return nil, err
		}
		return !v.Truth(), nil
	}
	return starlark.Binary(op, x, y)
}

func (m *meter) priceBinary(op syntax.Token, x, y starlark.Value) error {
	xi, xInt := x.(starlark.Int)
	yi, yInt := y.(starlark.Int)
	if xInt && yInt {
		return m.priceInt(op, xi, yi)
	}
	switch op {
	case syntax.PLUS:
		return m.take(shallowSize(x) + shallowSize(y))
	case syntax.STAR:
		if xInt {
			x, yi, yInt = y, xi, true
		}
		if n, ok := yi.Int64(); yInt && ok && n > 0 {
			if size := shallowSize(x); size > 0 && n > m.limit/size {
				return m.take(m.limit)
			} else {
				return m.take(n * size)
			}
		}
		return nil
	case syntax.PERCENT:
		if s, ok := x.(starlark.String); ok {
			return m.priceFormat(string(s), "%", y)
		}
	case syntax.PIPE, syntax.AMP, syntax.CIRCUMFLEX, syntax.MINUS:
		return m.take(pair / word * (shallowSize(x) + shallowSize(y)))
	case syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE, syntax.IN, syntax.NOT_IN:
		return m.walk(x, y)
	}
	return nil
}

func (m *meter) priceInt(op syntax.Token, x, y starlark.Int) error {
	n := max(bits(x), bits(y)) + 1
	switch op {
	case syntax.STAR:
		n = bits(x) + bits(y)
	case syntax.LTLT:
		s, ok := y.Int64()
		if !ok || s < 0 || s >= 512 {
			return errShift
		}
		n += int(s)
	}
	if n <= 128 {
		return nil
	}
	if n > maxBits {
		return sandbox.Faultf(sandbox.Memory, "%s computes a number of %d bits, limit %d", m.name, n, maxBits)
	}
	if err := m.work(int64(n)); err != nil {
		return err
	}
	return m.take(3*object + int64(n)/8)
}

// priceFormat charges for a format with marks, each of which inserts a value.
func (m *meter) priceFormat(format, mark string, args ...starlark.Value) error {
	var most int64
	for _, a := range args {
		n, err := m.size(a)
		if err != nil {
			return err
		}
		most += n
	}
	marks := int64(strings.Count(format, mark)) + 1
	if most > m.limit/marks {
		return m.take(m.limit)
	}
	return m.take(int64(len(format)) + marks*most)
}

// shallowSize returns the bytes of the value itself, without those of its elements.
func shallowSize(v starlark.Value) int64 {
	switch v := v.(type) {
	case starlark.String:
		return int64(len(v))
	case starlark.Bytes:
		return int64(len(v))
	case starlark.Int:
		return int64(bits(v)) / 8
	}
	if n := starlark.Len(v); n >= 0 {
		return object + word*int64(n)
	}
	return object
}

// unary charges for op x and computes it.
func (m *meter) unary(op syntax.Token, x starlark.Value) (starlark.Value, error) {
	if i, ok := x.(starlark.Int); ok && bits(i) > 64 {
		if err := m.take(object + shallowSize(x)); err != nil {
			return nil, err
		}
	}
	return starlark.Unary(op, x)
}

// augment computes x op= y; lists and dicts are changed in place.
func (m *meter) augment(thread *starlark.Thread, op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	method := ""
	switch x.(type) {
	case *starlark.List:
		if _, ok := y.(starlark.Iterable); ok && op == syntax.PLUS {
			method = "extend"
		}
	case *starlark.Dict:
		if _, ok := y.(*starlark.Dict); ok && op == syntax.PIPE {
			method = "update"
		}
	}
	if method == "" {
		return m.binary(op, x, y)
	}
	f, err := m.attr(x, method)
	if err != nil {
		return nil, err
	}
	_, err = starlark.Call(thread, f, starlark.Tuple{y}, nil)
	return x, err
}

// augmentIndex computes a[i] op= y.
func (m *meter) augmentIndex(thread *starlark.Thread, op syntax.Token, a, i, y starlark.Value) error {
	if err := m.store(i); err != nil {
		return err
	}
	switch a := a.(type) {
	case *starlark.Dict:
		old, ok, err := a.Get(i)
		if err != nil {
			return err
		}
		if !ok {
			return errors.New("key " + i.String() + " not in dict")
		}
		v, err := m.augment(thread, op, old, y)
		if err != nil {
			return err
		}
		return a.SetKey(i, v)
	case *starlark.List:
		n, err := starlark.AsInt32(i)
		if err != nil {
			return err
		}
		if n < 0 {
			n += a.Len()
		}
		if n < 0 || n >= a.Len() {
			return errors.New("list index out of range")
		}
		v, err := m.augment(thread, op, a.Index(n), y)
		if err != nil {
			return err
		}
		return a.SetIndex(n, v)
	}
	return errors.New(a.Type() + " value does not support item assignment")
}

// key charges for a lookup key: tuples are hashed.
func (m *meter) key(v starlark.Value) error {
	if _, ok := v.(starlark.Tuple); ok {
		return m.walk(v)
	}
	return nil
}

// store charges for a key that is stored.
func (m *meter) store(v starlark.Value) error {
	if err := m.key(v); err != nil {
		return err
	}
	return m.take(pair)
}

// sorted implements the function of that name so that it can be interrupted.
func (m *meter) sorted(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var iterable starlark.Iterable
	var key starlark.Callable
	var reverse bool
	if err := starlark.UnpackArgs("sorted", args, kwargs, "iterable", &iterable, "key?", &key, "reverse?", &reverse); err != nil {
		return nil, err
	}
	var values, keys []starlark.Value
	for v := range starlark.Elements(iterable) {
		if err := m.take(3 * word); err != nil {
			return nil, err
		}
		k := v
		if key != nil {
			var err error
			if k, err = starlark.Call(thread, key, starlark.Tuple{v}, nil); err != nil {
				return nil, err
			}
		}
		values, keys = append(values, v), append(keys, k)
	}
	s := &sorter{m: m, values: values, keys: keys, reverse: reverse}
	sort.Stable(s)
	return starlark.NewList(values), s.err
}

type sorter struct {
	m            *meter
	values, keys []starlark.Value
	reverse      bool
	err          error
}

// Len implements sort.Interface.
func (s *sorter) Len() int { return len(s.keys) }

// Swap implements sort.Interface.
func (s *sorter) Swap(i, j int) {
	s.keys[i], s.keys[j] = s.keys[j], s.keys[i]
	s.values[i], s.values[j] = s.values[j], s.values[i]
}

// Less implements sort.Interface. After an error, all elements are equal.
func (s *sorter) Less(i, j int) bool {
	if s.err == nil {
		s.err = s.m.work(1)
	}
	if s.err == nil {
		s.err = s.m.walk(s.keys[i], s.keys[j])
	}
	if s.err != nil {
		return false
	}
	if s.reverse {
		i, j = j, i
	}
	var less bool
	less, s.err = starlark.Compare(syntax.LT, s.keys[i], s.keys[j])
	return less
}

// read returns an asset as bytes.
func (m *meter) read(name string) (starlark.Value, error) {
	for _, a := range m.assets {
		if a.Name != strings.TrimPrefix(name, "#") {
			continue
		}
		if err := m.take(2 * a.Size); err != nil {
			return nil, err
		}
		b := make([]byte, a.Size)
		if _, err := io.ReadFull(io.NewSectionReader(a.Data, 0, a.Size), b); err != nil {
			return nil, err
		}
		return starlark.Bytes(b), nil
	}
	return nil, sandbox.Faultf(sandbox.Args, "unknown asset %q", name)
}
