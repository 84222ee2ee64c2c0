package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func batch(r *run, v value, args callArgs) (value, error) {
	n, err := args.int(0, "linecount", 0)
	if err != nil || n < 1 {
		return nil, errors.Join(err, errors.New("bad batch size"))
	}
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	fill, filled := args.arg(1, "fill_with")
	out := &list{}
	for len(items) > 0 {
		k := min(int(min(n, maxItems)), len(items))
		row := slices.Clone(items[:k])
		items = items[k:]
		for filled && fill != nil && int64(len(row)) < n && len(row) < maxItems {
			row = append(row, fill)
		}
		if err := r.step(len(row)); err != nil {
			return nil, err
		}
		out.items = append(out.items, &list{items: row})
	}
	return out, nil
}

func dictsort(r *run, v value, args callArgs) (value, error) {
	d, ok := v.(*dict)
	if !ok {
		return nil, fmt.Errorf("%s is not a dict", kindOf(v))
	}
	by, err := args.str(1, "by", "key")
	if err != nil {
		return nil, err
	}
	cased, _ := args.arg(0, "case_sensitive")
	back, _ := args.arg(2, "reverse")
	pairs := make([]value, len(d.keys))
	for i, k := range d.keys {
		pairs[i] = &list{items: []value{k, d.vals[i]}, tuple: true}
	}
	place := 0
	if by == "value" {
		place = 1
	}
	return r.sort(pairs, truth(cased), truth(back), func(v value) (value, error) { return v.(*list).items[place], nil })
}

// sort sorts values stably by the result of by; case-insensitively unless cased
// is set.
func (r *run) sort(items []value, cased, reversed bool, by func(value) (value, error)) (value, error) {
	type row struct{ key, item value }
	rows := make([]row, len(items))
	for i, item := range items {
		k, err := by(item)
		if err != nil {
			return nil, err
		}
		if s, ok := k.(string); ok && !cased {
			k = strings.ToLower(s)
		}
		rows[i] = row{k, item}
	}
	var failed error
	slices.SortStableFunc(rows, func(a, b row) int {
		if failed != nil {
			return 0
		}
		c, err := r.order(a.key, b.key, 0)
		failed = err
		if reversed {
			return -c
		}
		return c
	})
	if failed != nil {
		return nil, failed
	}
	out := make([]value, len(rows))
	for i, row := range rows {
		out[i] = row.item
	}
	return r.newList(out)
}

// getter returns an attribute lookup: "a.b" is b of a.
func (r *run) getter(attribute value) func(value) (value, error) {
	if attribute == nil {
		return func(v value) (value, error) { return v, nil }
	}
	var path []value
	if s, ok := attribute.(string); ok {
		for _, part := range strings.Split(s, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil {
				path = append(path, n)
			} else {
				path = append(path, part)
			}
		}
	} else {
		path = []value{attribute}
	}
	return func(v value) (value, error) {
		for _, part := range path {
			var err error
			if err = r.step(1); err != nil {
				return nil, err
			}
			if v, err = r.index(v, part); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
}

// getters returns a lookup of several attributes, as a list.
func (r *run) getters(attributes []string) func(value) (value, error) {
	return func(v value) (value, error) {
		out := &list{}
		for _, a := range attributes {
			x, err := r.getter(strings.TrimSpace(a))(v)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, x)
		}
		return out, nil
	}
}

func sorted(r *run, v value, args callArgs) (value, error) {
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	back, _ := args.arg(0, "reverse")
	cased, _ := args.arg(1, "case_sensitive")
	attribute, _ := args.arg(2, "attribute")
	by := r.getter(attribute)
	if s, ok := attribute.(string); ok && strings.Contains(s, ",") {
		by = r.getters(strings.Split(s, ","))
	}
	return r.sort(items, truth(cased), truth(back), by)
}

func firstOrLast(r *run, v value, first bool) (value, error) {
	items, err := r.iterate(v)
	switch {
	case err != nil:
		return nil, err
	case len(items) == 0:
		return undefined{"an element of an empty sequence"}, nil
	case first:
		return items[0], nil
	}
	return items[len(items)-1], nil
}

func items(r *run, v value, _ callArgs) (value, error) {
	switch v := v.(type) {
	case undefined:
		return &list{}, nil
	case *dict:
		return v.pairs(r)
	}
	return nil, fmt.Errorf("%s is not a dict", kindOf(v))
}

// pairs returns a list of a dict's keys and values.
func (d *dict) pairs(r *run) (value, error) {
	out := make([]value, len(d.keys))
	for i, k := range d.keys {
		out[i] = &list{items: []value{k, d.vals[i]}, tuple: true}
	}
	return r.newList(out)
}

func toList(r *run, v value, _ callArgs) (value, error) {
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	return r.newList(slices.Clone(items))
}

// lazily is iterate for filters that Jinja evaluates lazily: none and undefined
// are empty.
func (r *run) lazily(v value) ([]value, error) {
	if !truth(v) {
		return nil, nil
	}
	return r.iterate(v)
}

// mapFilter is map(attribute=...) or map("filter", arguments).
func mapFilter(r *run, v value, args callArgs) (value, error) {
	items, err := r.lazily(v)
	if err != nil {
		return nil, err
	}
	var apply func(value) (value, error)
	if attribute, ok := args.named["attribute"]; ok {
		get := r.getter(attribute)
		absent, filled := args.named["default"]
		apply = func(v value) (value, error) {
			v, err := get(v)
			if _, missing := v.(undefined); missing && filled {
				return absent, err
			}
			return v, err
		}
	} else {
		name, err := args.str(0, "name", "")
		if err != nil {
			return nil, err
		}
		f := filterNamed(name)
		if f == nil {
			return nil, fmt.Errorf("unknown filter %q", name)
		}
		rest := callArgs{plain: args.plain[min(1, len(args.plain)):], names: args.names, named: args.named}
		apply = func(v value) (value, error) { return f(r, v, rest) }
	}
	out := make([]value, len(items))
	for i, item := range items {
		if err := r.step(1); err != nil {
			return nil, err
		}
		if out[i], err = apply(item); err != nil {
			return nil, err
		}
	}
	return r.newList(out)
}

// selectFilter is select, reject, selectattr or rejectattr: it keeps the elements
// that pass a test, or those that do not; on an attribute if attr is set.
func selectFilter(r *run, v value, args callArgs, attr, keep bool) (value, error) {
	items, err := r.lazily(v)
	if err != nil {
		return nil, err
	}
	get := r.getter(nil)
	if attr {
		if len(args.plain) == 0 {
			return nil, errors.New("missing attribute name")
		}
		get = r.getter(args.plain[0])
		args.plain = args.plain[1:]
	}
	pass := func(v value) (bool, error) { return truth(v), nil }
	if len(args.plain) > 0 {
		name, err := args.str(0, "name", "")
		if err != nil {
			return nil, err
		}
		t := testNamed(name)
		if t == nil {
			return nil, fmt.Errorf("unknown test %q", name)
		}
		rest := callArgs{plain: args.plain[1:], names: args.names, named: args.named}
		pass = func(v value) (bool, error) { return t(r, v, rest) }
	}
	var out []value
	for _, item := range items {
		x, err := get(item)
		if err != nil {
			return nil, err
		}
		ok, err := pass(x)
		if err = errors.Join(err, r.step(1)); err != nil {
			return nil, err
		}
		if ok == keep {
			out = append(out, item)
		}
	}
	return r.newList(out)
}

func extreme(r *run, v value, args callArgs, most bool) (value, error) {
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	attribute, _ := args.arg(1, "attribute")
	l, err := r.sort(items, false, most, r.getter(attribute))
	if err != nil || len(items) == 0 {
		return undefined{"an element of an empty sequence"}, err
	}
	return l.(*list).items[0], nil
}

func reverse(r *run, v value, _ callArgs) (value, error) {
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(items)
	slices.Reverse(out)
	if _, text := v.(string); text {
		var b strings.Builder
		for _, c := range out {
			b.WriteString(c.(string))
		}
		return r.newString(b.String())
	}
	return r.newList(out)
}

func sum(r *run, v value, args callArgs) (value, error) {
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	attribute, _ := args.arg(0, "attribute")
	total, ok := args.arg(1, "start")
	if !ok {
		total = int64(0)
	}
	get := r.getter(attribute)
	for _, item := range items {
		x, err := get(item)
		if err != nil {
			return nil, err
		}
		if total, err = r.binary("+", total, x); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func unique(r *run, v value, args callArgs) (value, error) {
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	cased, _ := args.arg(0, "case_sensitive")
	attribute, _ := args.arg(1, "attribute")
	get := r.getter(attribute)
	seen := make(map[value]bool)
	var out []value
	for _, item := range items {
		x, err := get(item)
		if err != nil {
			return nil, err
		}
		if s, ok := x.(string); ok && !truth(cased) {
			x = strings.ToLower(s)
		}
		k, ok := key(x)
		if !ok {
			return nil, fmt.Errorf("unhashable element of type %s", kindOf(x))
		}
		if !seen[k] {
			seen[k] = true
			out = append(out, item)
		}
	}
	return r.newList(out)
}
