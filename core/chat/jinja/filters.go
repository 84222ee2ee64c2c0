package jinja

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
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
	word := func(w string) {
		_, n := utf8.DecodeRuneInString(w)
		b.WriteString(upper(w[:n]))
		b.WriteString(lower(w[n:]))
	}
	start := 0
	for i, c := range s {
		if isSpace(c) || strings.ContainsRune("-({[<", c) {
			word(s[start:i])
			b.WriteRune(c)
			start = i + utf8.RuneLen(c)
		}
	}
	word(s[start:])
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
func upper(s string) string { return cases.Upper(language.Und).String(s) }

// lower is Python's str.lower, which looks at what surrounds a sigma.
func lower(s string) string { return cases.Lower(language.Und).String(s) }

// casing returns Python's method of that name.
func casing(name string) func(string) string {
	switch name {
	case "lower":
		return lower
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
				return string(unicode.ToTitle(c)) + lower(s[min(n, len(s)):])
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
	if n, big := v.(bigInt); big {
		if integer {
			return n, nil
		}
		return strconv.ParseFloat(string(n), 64)
	}
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
