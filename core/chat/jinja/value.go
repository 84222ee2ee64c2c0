package jinja

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// value is the value of an expression: nil (None), undefined, bool, int64,
// bigInt, float64, string, markup, *list, *dict, *namespace, *loop or *function.
type value any

// bigInt is the decimal text of an integer outside of int64, which is printed as it is. Arithmetic
// on it is an error.
type bigInt string

// undefined is a name or a key without a value. It renders as "", and its
// attributes are an error.
type undefined struct{ what string }

// list is a list or a tuple.
type list struct {
	items []value
	tuple bool
}

// dict keeps its keys in insertion order.
type dict struct {
	keys []value
	at   map[value]int
	vals []value
}

// namespace is an object with attributes that a template may set.
type namespace struct{ vars map[string]value }

// function is a callable value.
type function struct {
	name string
	call func(r *run, args callArgs) (value, error)
}

// newDict returns a dict of alternating names and values.
func newDict(pairs ...value) *dict {
	d := &dict{at: make(map[value]int)}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.set(pairs[i], pairs[i+1])
	}
	return d
}

// key returns the normalized form of a dict key: equal numbers are one key.
// Lists and dicts are not hashable.
func key(v value) (value, bool) {
	switch v := plain(v).(type) {
	case nil, string, int64, bigInt:
		return v, true
	case bool:
		if v {
			return int64(1), true
		}
		return int64(0), true
	case float64:
		if i := int64(v); float64(i) == v {
			return i, true
		}
		return v, true
	}
	return nil, false
}

func (d *dict) get(k value) (value, bool) {
	k, ok := key(k)
	if !ok {
		return nil, false
	}
	i, ok := d.at[k]
	if !ok {
		return nil, false
	}
	return d.vals[i], true
}

func (d *dict) set(k, v value) bool {
	norm, ok := key(k)
	if !ok {
		return false
	}
	if i, have := d.at[norm]; have {
		d.vals[i] = v
		return true
	}
	d.at[norm] = len(d.keys)
	d.keys, d.vals = append(d.keys, k), append(d.vals, v)
	return true
}

func (d *dict) remove(k value) {
	k, _ = key(k)
	i, have := d.at[k]
	if !have {
		return
	}
	d.keys, d.vals = slices.Delete(d.keys, i, i+1), slices.Delete(d.vals, i, i+1)
	delete(d.at, k)
	for other, j := range d.at {
		if j > i {
			d.at[other] = j - 1
		}
	}
}

// fromJSON parses JSON with ordered objects.
func fromJSON(raw json.RawMessage) (value, error) {
	if len(raw) == 0 {
		return newDict(), nil
	}
	if len(raw) > maxOutput {
		return nil, fmt.Errorf("JSON too large: got %d bytes, limit %d", len(raw), maxOutput)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := readJSON(dec, 0)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("extra data after the JSON value")
	}
	return v, nil
}

func readJSON(dec *json.Decoder, depth int) (value, error) {
	if depth > maxNesting {
		return nil, ErrNesting
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '[' {
			l := &list{}
			for dec.More() {
				v, err := readJSON(dec, depth+1)
				if err != nil {
					return nil, err
				}
				l.items = append(l.items, v)
			}
			_, err := dec.Token()
			return l, err
		}
		d := newDict()
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := readJSON(dec, depth+1)
			if err != nil {
				return nil, err
			}
			d.set(name.(string), v) // the decoder guarantees a string here
		}
		_, err := dec.Token()
		return d, err
	case json.Number:
		if i, err := strconv.ParseInt(tok.String(), 10, 64); err == nil {
			return i, nil
		}
		if !strings.ContainsAny(tok.String(), ".eE") {
			return bigInt(tok), nil
		}
		return tok.Float64()
	case string:
		return tok, nil
	case bool:
		return tok, nil
	}
	return nil, nil
}

// fromGo converts a value of Render. Keys of maps are sorted, since maps are
// unordered.
func fromGo(v any, depth int) (value, error) {
	if depth > maxNesting {
		return nil, ErrNesting
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case bool:
		return v, nil
	case string:
		return v, nil
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case float64:
		return v, nil
	case json.RawMessage:
		return fromJSON(v)
	case Object:
		d := newDict()
		for _, f := range v {
			x, err := fromGo(f.Value, depth+1)
			if err != nil {
				return nil, err
			}
			d.set(f.Key, x)
		}
		return d, nil
	case []any:
		l := &list{}
		for _, item := range v {
			x, err := fromGo(item, depth+1)
			if err != nil {
				return nil, err
			}
			l.items = append(l.items, x)
		}
		return l, nil
	case map[string]any:
		d, keys := newDict(), make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			x, err := fromGo(v[k], depth+1)
			if err != nil {
				return nil, err
			}
			d.set(k, x)
		}
		return d, nil
	}
	return nil, fmt.Errorf("unsupported Go type %T", v)
}

// count returns the number of values within a value.
func count(v value) int {
	n := 1
	switch v := v.(type) {
	case *list:
		for _, item := range v.items {
			n += count(item)
		}
	case *dict:
		for _, item := range v.vals {
			n += count(item)
		}
	}
	return n
}

// kindOf returns Python's name of a value's type.
func kindOf(v value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case undefined:
		return "Undefined"
	case bool:
		return "bool"
	case int64, bigInt:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case *list:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	}
	return "function"
}

// truth reports whether a value is truthy.
func truth(v value) bool {
	switch v := plain(v).(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *list:
		return len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// number converts a value to a number; booleans are 0 and 1.
func number(v value) (i int64, f float64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	}
	return 0, 0, false, false
}

// equal compares by value.
func (r *run) equal(a, b value, depth int) (bool, error) {
	a, b = plain(a), plain(b)
	if err := r.step(1); err != nil {
		return false, err
	}
	if depth > maxNesting {
		return false, ErrNesting
	}
	ai, af, aInt, aNum := number(a)
	bi, bf, bInt, bNum := number(b)
	if aNum && bNum {
		if aInt && bInt {
			return ai == bi, nil
		}
		return af == bf, nil
	}
	switch a := a.(type) {
	case nil:
		return b == nil, nil
	case undefined:
		_, ok := b.(undefined)
		return ok, nil
	case bigInt:
		return a == b, nil
	case string:
		s, ok := b.(string)
		return ok && a == s, r.step(len(a) / 64)
	case *list:
		l, ok := b.(*list)
		if !ok || len(a.items) != len(l.items) || a.tuple != l.tuple {
			return false, nil
		}
		for i := range a.items {
			if same, err := r.equal(a.items[i], l.items[i], depth+1); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case *dict:
		d, ok := b.(*dict)
		if !ok || len(a.keys) != len(d.keys) {
			return false, nil
		}
		for i, k := range a.keys {
			v, ok := d.get(k)
			if !ok {
				return false, nil
			}
			if same, err := r.equal(a.vals[i], v, depth+1); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	}
	return same(a, b), nil
}

// same reports whether two values are identical.
func same(a, b value) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// order compares ordered values.
func (r *run) order(a, b value, depth int) (int, error) {
	a, b = plain(a), plain(b)
	if err := r.step(1); err != nil {
		return 0, err
	}
	if depth > maxNesting {
		return 0, ErrNesting
	}
	ai, af, aInt, aNum := number(a)
	bi, bf, bInt, bNum := number(b)
	switch {
	case aNum && bNum && aInt && bInt:
		return cmp.Compare(ai, bi), nil
	case aNum && bNum:
		return cmp.Compare(af, bf), nil
	}
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), r.step(min(len(x), len(y)) / 64)
		}
	}
	x, ok1 := a.(*list)
	y, ok2 := b.(*list)
	if !ok1 || !ok2 {
		return 0, fmt.Errorf("unordered types %s and %s", kindOf(a), kindOf(b))
	}
	for i := range min(len(x.items), len(y.items)) {
		if c, err := r.order(x.items[i], y.items[i], depth+1); err != nil || c != 0 {
			return c, err
		}
	}
	return cmp.Compare(len(x.items), len(y.items)), nil
}

// iterate returns the elements of an iterable value.
func (r *run) iterate(v value) ([]value, error) {
	switch v := plain(v).(type) {
	case undefined:
		return nil, nil
	case *list:
		return v.items, r.step(len(v.items))
	case *dict:
		return v.keys, r.step(len(v.keys))
	case string:
		if err := r.step(len(v)); err != nil {
			return nil, err
		}
		if len(v) > maxItems {
			return nil, ErrItems
		}
		out := make([]value, 0, len(v))
		for _, c := range v {
			out = append(out, string(c))
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s is not iterable", kindOf(v))
}
