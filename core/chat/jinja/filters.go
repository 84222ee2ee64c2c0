package jinja

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// filter maps a value: value | name(arguments).
type filter func(r *run, v value, args callArgs) (value, error)

// filterNamed returns a supported filter, or nil.
func filterNamed(name string) filter {
	switch name {
	case "abs":
		return absolute
	case "batch":
		return batch
	case "title":
		return func(r *run, v value, _ callArgs) (value, error) { return r.onText(v, titleWords) }
	case "capitalize", "lower", "upper":
		return func(r *run, v value, _ callArgs) (value, error) { return r.onText(v, casing(name)) }
	case "count", "length":
		return lengthOf
	case "d", "default":
		return defaultTo
	case "dictsort":
		return dictsort
	case "e", "escape":
		return func(r *run, v value, _ callArgs) (value, error) { return r.onText(v, escapeHTML) }
	case "first", "last":
		return func(r *run, v value, _ callArgs) (value, error) { return firstOrLast(r, v, name == "first") }
	case "float", "int":
		return func(r *run, v value, args callArgs) (value, error) { return toNumber(v, args, name == "int") }
	case "format":
		return percent
	case "from_json": // llama.cpp's extension
		return fromText
	case "indent":
		return indent
	case "items":
		return items
	case "join":
		return join
	case "list":
		return toList
	case "map":
		return mapFilter
	case "max", "min":
		return func(r *run, v value, args callArgs) (value, error) { return extreme(r, v, args, name == "max") }
	case "replace":
		return replace
	case "reverse":
		return reverse
	case "round":
		return round
	case "safe", "string":
		return func(r *run, v value, _ callArgs) (value, error) {
			return r.onText(v, func(s string) string { return s })
		}
	case "select", "reject":
		return func(r *run, v value, args callArgs) (value, error) {
			return selectFilter(r, v, args, false, name == "select")
		}
	case "selectattr", "rejectattr":
		return func(r *run, v value, args callArgs) (value, error) {
			return selectFilter(r, v, args, true, name == "selectattr")
		}
	case "sort":
		return sorted
	case "sum":
		return sum
	case "tojson":
		return toJSON
	case "trim":
		return trim
	case "unique":
		return unique
	case "wordcount":
		return func(r *run, v value, _ callArgs) (value, error) {
			s, err := r.text(v)
			return int64(len(wordPattern().FindAllString(s, -1))), err
		}
	}
	return nil
}

// wordPattern is Python's \w+.
var wordPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\p{L}\p{N}_]+`) })

// titleWords is Jinja's filter title: words begin after white space, a hyphen
// or an opening bracket.
func titleWords(s string) string {
	var b strings.Builder
	inside := false
	for _, c := range s {
		switch {
		case isSpace(c) || strings.ContainsRune("-({[<", c):
			inside = false
		case inside:
			c = unicode.ToLower(c)
		default:
			c, inside = unicode.ToUpper(c), true
		}
		b.WriteRune(c)
	}
	return b.String()
}

// onText applies a function to a value's text.
func (r *run) onText(v value, f func(string) string) (value, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	return r.newString(f(s))
}

// upper is Python's str.upper, which maps some characters to several.
func upper(s string) string {
	return strings.NewReplacer("ß", "SS", "ﬁ", "FI", "ﬂ", "FL", "ﬀ", "FF", "ŉ", "ʼN").Replace(strings.ToUpper(s))
}

// casing returns Python's method of that name.
func casing(name string) func(string) string {
	switch name {
	case "lower":
		return strings.ToLower
	case "upper":
		return upper
	case "title":
		return func(s string) string {
			var b strings.Builder
			inside := false
			for _, c := range s {
				if inside {
					c = unicode.ToLower(c)
				} else {
					c = unicode.ToTitle(c)
				}
				inside = unicode.IsLetter(c)
				b.WriteRune(c)
			}
			return b.String()
		}
	}
	return func(s string) string {
		for i, c := range s {
			if i == 0 {
				n := len(string(c))
				return string(unicode.ToTitle(c)) + strings.ToLower(s[min(n, len(s)):])
			}
		}
		return s
	}
}

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

// isSpace is Python's str.isspace for a character.
func isSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }

func trim(r *run, v value, args callArgs) (value, error) {
	chars, err := args.str(0, "chars", "")
	if err != nil {
		return nil, err
	}
	return r.onText(v, func(s string) string { return strip(s, chars, true, true) })
}

// strip is Python's strip: white space if chars is "".
func strip(s, chars string, left, right bool) string {
	cut := isSpace
	if chars != "" {
		cut = func(c rune) bool { return strings.ContainsRune(chars, c) }
	}
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	return s
}

func absolute(_ *run, v value, _ callArgs) (value, error) {
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s is not a number", kindOf(v))
	case isInt && i == math.MinInt64:
		return nil, errRange
	case isInt:
		return max(i, -i), nil
	}
	return math.Abs(f), nil
}

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

func lengthOf(_ *run, v value, _ callArgs) (value, error) {
	n, ok := length(v)
	if !ok {
		return nil, fmt.Errorf("no length of type %s", kindOf(v))
	}
	return int64(n), nil
}

func defaultTo(_ *run, v value, args callArgs) (value, error) {
	absent, ok := args.arg(0, "default_value")
	if !ok {
		absent = ""
	}
	falsy, _ := args.arg(1, "boolean")
	if _, missing := v.(undefined); missing || truth(falsy) && !truth(v) {
		return absent, nil
	}
	return v, nil
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

// toNumber is the filter int or float; the default replaces a non-number.
func toNumber(v value, args callArgs, integer bool) (value, error) {
	absent, ok := args.arg(0, "default")
	if !ok {
		absent = value(0.0)
		if integer {
			absent = int64(0)
		}
	}
	i, f, isInt, ok := number(v)
	if s, text := v.(string); text {
		s = strings.TrimSpace(s)
		base, err := args.int(1, "base", 10)
		if err != nil || base < 0 || base == 1 || base > 36 {
			return nil, errors.Join(err, errors.New("bad base"))
		}
		if n, err := parseInt(s, int(base)); err == nil {
			i, f, isInt, ok = n, float64(n), true, true
		} else if x, err := strconv.ParseFloat(s, 64); err == nil {
			f, isInt, ok = x, false, true
		}
	}
	switch {
	case !ok:
		return absent, nil
	case !integer:
		return f, nil
	case isInt:
		return i, nil
	case math.IsNaN(f) || math.Abs(f) >= 1<<63:
		return absent, nil
	}
	return int64(f), nil
}

// parseInt is Python's int(s, base): it accepts underscores between digits, and
// the prefix of the base.
func parseInt(s string, base int) (int64, error) {
	prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]
	sign := s[:len(s)-len(strings.TrimLeft(s, "+-"))]
	digits := s[len(sign):]
	if prefix != "" && len(digits) > 2 && strings.EqualFold(digits[:2], prefix) {
		digits = digits[2:]
	}
	if base != 0 && !strings.HasPrefix(digits, "_") && !strings.HasSuffix(digits, "_") && !strings.Contains(digits, "__") {
		digits = strings.ReplaceAll(digits, "_", "")
	}
	return strconv.ParseInt(sign+digits, base, 64)
}

func indent(r *run, v value, args callArgs) (value, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	margin := strings.Repeat(" ", 4)
	if w, ok := args.arg(0, "width"); ok {
		if text, isText := w.(string); isText {
			margin = text
		} else {
			n, err := args.int(0, "width", 4)
			if err != nil || n < 0 || n > 1000 {
				return nil, errors.Join(err, fmt.Errorf("bad width %d", n))
			}
			margin = strings.Repeat(" ", int(n))
		}
	}
	first, _ := args.arg(1, "first")
	blanks, _ := args.arg(2, "blank")
	if strings.Count(s, "\n")*len(margin) > maxOutput {
		return nil, ErrOutput
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if i == 0 && !truth(first) || i > 0 && line == "" && !truth(blanks) {
			continue
		}
		lines[i] = margin + line
	}
	return r.newString(strings.Join(lines, "\n"))
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

func join(r *run, v value, args callArgs) (value, error) {
	between, err := args.str(0, "d", "")
	if err != nil {
		return nil, err
	}
	attribute, _ := args.arg(1, "attribute")
	items, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	get := r.getter(attribute)
	var b strings.Builder
	for i, item := range items {
		if item, err = get(item); err != nil {
			return nil, err
		}
		s, err := r.text(item)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(between)
		}
		if b.WriteString(s); b.Len() > maxOutput {
			return nil, ErrOutput
		}
		if err := r.step(len(s)/64 + 1); err != nil {
			return nil, err
		}
	}
	return r.newString(b.String())
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

func replace(r *run, v value, args callArgs) (value, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	old, err1 := args.str(0, "old", "")
	with, err2 := args.str(1, "new", "")
	n, err3 := args.int(2, "count", -1)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return r.replaceCount(s, old, with, n)
}

// replaceCount replaces n times, or all if n is negative.
func (r *run) replaceCount(s, old, with string, n int64) (value, error) {
	times := int64(strings.Count(s, old))
	if n >= 0 {
		times = min(times, n)
	}
	if int64(len(s))+times*int64(len(with)) > maxOutput {
		return nil, ErrOutput
	}
	return r.newString(strings.Replace(s, old, with, int(times)))
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

func round(_ *run, v value, args callArgs) (value, error) {
	i, f, isInt, ok := number(v)
	if !ok {
		return nil, fmt.Errorf("%s is not a number", kindOf(v))
	}
	digits, err1 := args.int(0, "precision", 0)
	method, err2 := args.str(1, "method", "common")
	if err := errors.Join(err1, err2); err != nil || digits < -20 || digits > 20 {
		return nil, errors.Join(err, fmt.Errorf("bad precision %d", digits))
	}
	scale := math.Pow(10, float64(digits))
	switch method {
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	switch {
	case isInt && digits >= 0:
		return i, nil
	case isInt:
		return int64(math.RoundToEven(float64(i)*scale) / scale), nil
	case digits < 0:
		return math.RoundToEven(f*scale) / scale, nil
	}
	x, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(digits), 64), 64)
	return x, err
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

// fromText parses JSON.
func fromText(r *run, v value, _ callArgs) (value, error) {
	s, err := r.text(v)
	if err != nil {
		return nil, err
	}
	if err := r.step(len(s)); err != nil {
		return nil, err
	}
	return fromJSON(json.RawMessage(s))
}
