package jinja

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// method wraps a method of a value as a function.
func method(name string, call func(r *run, args callArgs) (value, error)) *function {
	return &function{name, call}
}

// stringMethod returns the supported methods of Python's str.
func stringMethod(s, name string) any {
	var call func(r *run, args callArgs) (value, error)
	switch name {
	case "strip", "lstrip", "rstrip":
		call = func(r *run, args callArgs) (value, error) {
			chars, err := args.str(0, "chars", "")
			if err != nil {
				return nil, err
			}
			return r.newString(strip(s, chars, name != "rstrip", name != "lstrip"))
		}
	case "lower", "upper", "title", "capitalize":
		call = func(r *run, _ callArgs) (value, error) { return r.newString(casing(name)(s)) }
	case "startswith", "endswith":
		call = func(r *run, args callArgs) (value, error) { return hasAffix(s, args, name == "startswith") }
	case "removeprefix", "removesuffix":
		call = func(r *run, args callArgs) (value, error) {
			affix, err := args.str(0, "affix", "")
			if name == "removeprefix" {
				return strings.TrimPrefix(s, affix), err
			}
			return strings.TrimSuffix(s, affix), err
		}
	case "split", "rsplit":
		call = func(r *run, args callArgs) (value, error) { return r.split(s, args, name == "rsplit") }
	case "splitlines":
		call = func(r *run, args callArgs) (value, error) { return r.lines(s, args) }
	case "replace":
		call = func(r *run, args callArgs) (value, error) { return replace(r, s, args) }
	case "join":
		call = func(r *run, args callArgs) (value, error) {
			of, _ := args.arg(0, "iterable")
			parts, err := r.iterate(of)
			for _, p := range parts {
				if _, ok := plain(p).(string); !ok {
					return nil, fmt.Errorf("%s is not a string", kindOf(p))
				}
			}
			if err != nil {
				return nil, err
			}
			return join(r, of, callArgs{plain: []value{s}})
		}
	case "find", "rfind", "index", "count":
		call = func(r *run, args callArgs) (value, error) { return r.search(s, name, args) }
	case "isdigit", "isnumeric", "isalpha", "isalnum", "isspace", "isupper", "islower":
		call = func(r *run, _ callArgs) (value, error) { return consists(s, name), r.step(len(s) / 64) }
	case "format":
		call = func(r *run, args callArgs) (value, error) { return r.format(s, args) }
	case "ljust", "rjust", "zfill":
		call = func(r *run, args callArgs) (value, error) { return r.pad(s, name, args) }
	default:
		return nil
	}
	return method(name, call)
}

// hasAffix is startswith or endswith, of one string or any of a tuple.
func hasAffix(s string, args callArgs, start bool) (value, error) {
	v, _ := args.arg(0, "prefix")
	s, _, err := window(s, args)
	if err != nil {
		return nil, err
	}
	options := []value{v}
	if l, ok := v.(*list); ok {
		options = l.items
	}
	for _, o := range options {
		affix, ok := o.(string)
		if !ok {
			return nil, fmt.Errorf("%s is not a string", kindOf(o))
		}
		if start && strings.HasPrefix(s, affix) || !start && strings.HasSuffix(s, affix) {
			return true, nil
		}
	}
	return false, nil
}

// split is Python's split and rsplit: at white space, or at a separator.
func (r *run) split(s string, args callArgs, fromRight bool) (value, error) {
	sep, err1 := args.str(0, "sep", "")
	most, err2 := args.int(1, "maxsplit", -1)
	if err := errors.Join(err1, err2, r.step(len(s)/16)); err != nil {
		return nil, err
	}
	arg, _ := args.arg(0, "sep")
	var parts []string
	switch {
	case arg == nil && most < 0:
		parts = strings.FieldsFunc(s, isSpace)
	case arg == nil:
		parts = splitSpace(s, most, fromRight)
	case sep == "":
		return nil, errors.New("empty separator")
	case most < 0:
		parts = strings.Split(s, sep)
	case fromRight:
		parts = strings.Split(s, sep)
		if extra := len(parts) - int(min(most, maxItems)) - 1; extra > 0 {
			parts = append([]string{strings.Join(parts[:extra+1], sep)}, parts[extra+1:]...)
		}
	default:
		parts = strings.SplitN(s, sep, int(min(most, maxItems))+1)
	}
	if len(parts) > maxItems {
		return nil, ErrItems
	}
	out := make([]value, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return r.newList(out)
}

// splitSpace splits at runs of white space, at most n times.
func splitSpace(s string, n int64, fromRight bool) []string {
	var parts []string
	for s = strip(s, "", !fromRight, fromRight); s != "" && int64(len(parts)) < n; {
		i := -1
		if fromRight {
			i = strings.LastIndexFunc(s, isSpace)
		} else {
			i = strings.IndexFunc(s, isSpace)
		}
		if i < 0 {
			break
		}
		_, width := utf8.DecodeRuneInString(s[i:])
		if fromRight {
			parts = append(parts, s[i+width:])
			s = strip(s[:i], "", false, true)
		} else {
			parts = append(parts, s[:i])
			s = strip(s[i:], "", true, false)
		}
	}
	if s != "" {
		parts = append(parts, s)
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

// lineBreaks are the characters that end a line for Python's str.splitlines.
const lineBreaks = "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029"

func (r *run) lines(s string, args callArgs) (value, error) {
	keep, _ := args.arg(0, "keepends")
	var out []value
	for s != "" {
		end, rest := len(s), ""
		if i := strings.IndexAny(s, lineBreaks); i >= 0 {
			_, n := utf8.DecodeRuneInString(s[i:])
			if strings.HasPrefix(s[i:], "\r\n") {
				n = 2
			}
			if end, rest = i, s[i+n:]; truth(keep) {
				end += n
			}
		}
		out = append(out, s[:end])
		s = rest
		if err := r.step(1); err != nil {
			return nil, err
		}
	}
	return r.newList(out)
}

// search is find, rfind, index or count; positions are in characters.
func (r *run) search(s, name string, args callArgs) (value, error) {
	sub, err := args.str(0, "sub", "")
	if err = errors.Join(err, r.step(len(s)/16)); err != nil {
		return nil, err
	}
	s, skipped, err := window(s, args)
	if err != nil {
		return nil, err
	}
	i := 0
	switch name {
	case "count":
		return int64(strings.Count(s, sub)), nil
	case "rfind":
		i = strings.LastIndex(s, sub)
	default:
		i = strings.Index(s, sub)
	}
	switch {
	case i >= 0:
		return skipped + int64(utf8.RuneCountInString(s[:i])), nil
	case name == "index":
		return nil, errors.New("substring not found")
	}
	return int64(-1), nil
}

// window returns the part of s that the arguments start and end select, and the
// number of characters before it. Beyond the end of s nothing matches.
func window(s string, args callArgs) (string, int64, error) {
	start, err1 := args.int(1, "start", 0)
	end, err2 := args.int(2, "end", math.MaxInt64)
	if err := errors.Join(err1, err2); err != nil || start == 0 && end == math.MaxInt64 {
		return s, 0, err
	}
	n := int64(utf8.RuneCountInString(s))
	clamp := func(i int64) int64 {
		if i < 0 {
			i = max(i+n, 0)
		}
		return min(i, n)
	}
	if start > n {
		return "", n, nil
	}
	start, end = clamp(start), clamp(end)
	runes := []rune(s)
	return string(runes[start:max(start, end)]), start, nil
}

// consists is isdigit and similar methods.
func consists(s, name string) bool {
	cased := false
	for _, c := range s {
		ok := false
		switch name {
		case "isdigit", "isnumeric":
			ok = unicode.IsNumber(c)
		case "isalpha":
			ok = unicode.IsLetter(c)
		case "isalnum":
			ok = unicode.IsLetter(c) || unicode.IsNumber(c)
		case "isspace":
			ok = isSpace(c)
		case "isupper":
			ok = !unicode.IsLower(c)
			cased = cased || unicode.IsUpper(c)
		case "islower":
			ok = !unicode.IsUpper(c)
			cased = cased || unicode.IsLower(c)
		}
		if !ok {
			return false
		}
	}
	if name == "isupper" || name == "islower" {
		return cased
	}
	return s != ""
}

// format replaces {}, {0} and {name}; format specs and attributes are
// unsupported: they would reach into objects.
func (r *run) format(s string, args callArgs) (value, error) {
	var b strings.Builder
	next := 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:i])
		if i+1 < len(s) && s[i+1] == s[i] {
			b.WriteByte(s[i])
			s = s[i+2:]
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if s[i] == '}' || end < 0 {
			return nil, errors.New("single bracket")
		}
		field := s[i+1 : i+end]
		s = s[i+end+1:]
		var v value
		ok := false
		switch {
		case field == "":
			v, ok = args.arg(next, "")
			next++
		case strings.Trim(field, "0123456789") == "" && len(field) < 4:
			n := 0
			for _, c := range field {
				n = n*10 + int(c-'0')
			}
			v, ok = args.arg(n, "")
		default:
			v, ok = args.named[field]
		}
		if !ok {
			return nil, fmt.Errorf("missing argument for {%s}", field)
		}
		text, err := r.text(v)
		if err != nil {
			return nil, err
		}
		if b.WriteString(text); b.Len() > maxOutput {
			return nil, ErrOutput
		}
	}
	return r.newString(b.String())
}

func (r *run) pad(s, name string, args callArgs) (value, error) {
	width, err1 := args.int(0, "width", 0)
	fill, err2 := args.str(1, "fillchar", " ")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if name == "zfill" {
		fill = "0"
	}
	n := width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return s, nil
	}
	if n > maxOutput || utf8.RuneCountInString(fill) != 1 {
		return nil, ErrOutput
	}
	padding := strings.Repeat(fill, int(n))
	if name == "zfill" && s != "" && (s[0] == '-' || s[0] == '+') {
		return r.newString(s[:1] + padding + s[1:]) // after the sign
	}
	if name == "ljust" {
		return r.newString(s + padding)
	}
	return r.newString(padding + s)
}

// dictMethod returns the supported methods of Python's dict.
func dictMethod(d *dict, name string) any {
	var call func(r *run, args callArgs) (value, error)
	switch name {
	case "get":
		call = func(_ *run, args callArgs) (value, error) {
			k, _ := args.arg(0, "key")
			if v, ok := d.get(k); ok {
				return v, nil
			}
			absent, _ := args.arg(1, "default")
			return absent, nil
		}
	case "items":
		call = func(r *run, _ callArgs) (value, error) { return d.pairs(r) }
	case "keys":
		call = func(r *run, _ callArgs) (value, error) { return r.newList(slices.Clone(d.keys)) }
	case "values":
		call = func(r *run, _ callArgs) (value, error) { return r.newList(slices.Clone(d.vals)) }
	case "pop":
		call = func(_ *run, args callArgs) (value, error) {
			k, _ := args.arg(0, "key")
			v, ok := d.get(k)
			if !ok {
				if v, ok = args.arg(1, "default"); !ok {
					return nil, errors.New("unknown key")
				}
				return v, nil
			}
			d.remove(k)
			return v, nil
		}
	case "update":
		call = func(r *run, args callArgs) (value, error) {
			of, _ := args.arg(0, "other")
			other, ok := of.(*dict)
			if !ok {
				return nil, fmt.Errorf("%s is not a dict", kindOf(of))
			}
			for i, k := range slices.Clone(other.keys) {
				d.set(k, other.vals[i])
			}
			if len(d.keys) > maxItems {
				return nil, ErrItems
			}
			return nil, r.step(len(other.keys))
		}
	default:
		return nil
	}
	return method(name, call)
}

// listMethod returns the supported methods of Python's list.
func listMethod(l *list, name string) any {
	var call func(r *run, args callArgs) (value, error)
	switch name {
	case "append":
		call = func(_ *run, args callArgs) (value, error) {
			if len(l.items) >= maxItems {
				return nil, ErrItems
			}
			v, _ := args.arg(0, "object")
			l.items = append(l.items, v)
			return nil, nil
		}
	case "extend":
		call = func(r *run, args callArgs) (value, error) {
			v, _ := args.arg(0, "iterable")
			more, err := r.iterate(v)
			if err == nil && len(l.items)+len(more) > maxItems {
				err = ErrItems
			}
			if err == nil {
				l.items = append(l.items, more...)
			}
			return nil, err
		}
	case "pop":
		call = func(_ *run, args callArgs) (value, error) {
			i, err := args.int(0, "index", -1)
			if i < 0 {
				i += int64(len(l.items))
			}
			if err != nil || i < 0 || i >= int64(len(l.items)) {
				return nil, errors.Join(err, errors.New("index out of range"))
			}
			v := l.items[i]
			l.items = slices.Delete(slices.Clone(l.items), int(i), int(i)+1)
			return v, nil
		}
	case "index", "count":
		call = func(r *run, args callArgs) (value, error) {
			v, _ := args.arg(0, "value")
			n := int64(0)
			for i, item := range l.items {
				same, err := r.equal(item, v, 0)
				if err != nil {
					return nil, err
				}
				if same && name == "index" {
					return int64(i), nil
				}
				if same {
					n++
				}
			}
			if name == "index" {
				return nil, errors.New("element not found")
			}
			return n, nil
		}
	default:
		return nil
	}
	if l.tuple && name != "index" && name != "count" {
		return nil
	}
	return method(name, call)
}

// functions are the global functions of templates.
var functions = map[string]value{
	"raise_exception": method("raise_exception", func(r *run, args callArgs) (value, error) {
		v, _ := args.arg(0, "message")
		text, err := r.text(v)
		if err != nil {
			return nil, err
		}
		return nil, &RaisedError{text}
	}),
	"namespace": method("namespace", func(_ *run, args callArgs) (value, error) {
		ns := &namespace{make(map[string]value)}
		for _, v := range args.plain {
			d, ok := v.(*dict)
			if !ok {
				return nil, fmt.Errorf("%s is not a dict", kindOf(v))
			}
			for i, k := range d.keys {
				if name, ok := k.(string); ok {
					ns.vars[name] = d.vals[i]
				}
			}
		}
		for name, v := range args.named {
			ns.vars[name] = v
		}
		return ns, nil
	}),
	"dict": method("dict", func(r *run, args callArgs) (value, error) {
		d := newDict()
		for _, v := range args.plain {
			from, ok := v.(*dict)
			if !ok {
				pairs, err := r.iterate(v)
				if err != nil {
					return nil, err
				}
				for _, p := range pairs {
					if l, ok := p.(*list); !ok || len(l.items) != 2 {
						return nil, fmt.Errorf("%s is not a pair", kindOf(p))
					} else if _, ok := key(l.items[0]); !ok {
						return nil, fmt.Errorf("unhashable key of type %s", kindOf(l.items[0]))
					} else {
						d.set(l.items[0], l.items[1])
					}
				}
				continue
			}
			for i, k := range from.keys {
				d.set(k, from.vals[i])
			}
		}
		for _, name := range args.names {
			d.set(name, args.named[name])
		}
		return d, nil
	}),
	"range": method("range", func(r *run, args callArgs) (value, error) {
		var n [3]int64
		var err error
		for i := range n {
			absent := int64(0)
			if i == 2 {
				absent = 1
			}
			if n[i], err = args.int(i, "", absent); err != nil {
				return nil, err
			}
		}
		if len(args.plain) == 1 {
			n[0], n[1] = 0, n[0]
		}
		if n[2] == 0 || len(args.plain) == 0 {
			return nil, errors.New("bad range: want a bound, and a nonzero step")
		}
		var out []value
		for i := n[0]; n[2] > 0 && i < n[1] || n[2] < 0 && i > n[1]; i += n[2] {
			if out = append(out, i); len(out) > maxItems {
				return nil, ErrItems
			}
			if n[2] > 0 && i > n[1]-n[2] || n[2] < 0 && i < n[1]-n[2] {
				break
			}
		}
		return r.newList(out)
	}),
}
