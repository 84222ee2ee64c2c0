package api

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Unmarshal parses JSON of a client into v like [json.Unmarshal], but refuses by name what
// that reads differently from other parsers: a key in another case, a key that an object has twice, and
// half of a surrogate pair. An integer may be written with a fraction of zero, as JSON Schema
// has it. Unknown keys are ignored.
func Unmarshal(data []byte, v any) error {
	data, err := strict(data, reflect.TypeOf(v))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// UnmarshalKnown is Unmarshal of a body without unknown keys: one may be a misspelled limit.
func UnmarshalKnown(data []byte, v any) error {
	data, err := strict(data, reflect.TypeOf(v))
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return Invalid("", "%v", err)
	}
	return nil
}

// strict checks a valid JSON text and returns it with integers without fractions.
func strict(data []byte, t reflect.Type) ([]byte, error) {
	w := &walk{data: data, fields: map[reflect.Type]map[string]reflect.Type{}}
	if err := w.value(t); err != nil {
		return nil, err
	}
	if w.out == nil {
		return data, nil
	}
	return append(w.out, data[w.copied:]...), nil
}

// walk goes over a valid JSON text along the type that it is for.
type walk struct {
	data   []byte
	at     int
	path   []string
	out    []byte // the text up to copied, rewritten; nil: nothing was
	copied int
	fields map[reflect.Type]map[string]reflect.Type
}

// invalid returns the error of the current value.
func (w *walk) invalid(what string) error {
	param := strings.ReplaceAll(strings.Join(w.path, "."), ".[", "[")
	return Invalid(param, "%s: %s", fieldName(param), what)
}

// peek returns the next character that is not a space.
func (w *walk) peek() byte {
	for strings.IndexByte(" \t\r\n", w.data[w.at]) >= 0 {
		w.at++
	}
	return w.data[w.at]
}

// value reads a value for a type; nil: unknown.
func (w *walk) value(t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch c := w.peek(); c {
	case '{':
		return w.object(t)
	case '[':
		return w.array(t)
	case '"':
		return w.text()
	case 't', 'f', 'n':
		w.at += 4 + bytes.Count([]byte{c}, []byte{'f'})
	default:
		w.number(t)
	}
	return nil
}

// object reads an object.
func (w *walk) object(t reflect.Type) error {
	names, of := w.keys(t)
	seen := map[string]bool{}
	w.at++
	for w.peek() != '}' {
		if w.data[w.at] == ',' {
			w.at++
			w.peek()
		}
		from := w.at
		if err := w.text(); err != nil {
			return err
		}
		var key string
		if err := json.Unmarshal(w.data[from:w.at], &key); err != nil {
			return err
		}
		if seen[key] {
			return w.invalid("got the key " + short(key) + " twice")
		}
		seen[key] = true
		value, ok := names[key]
		if !ok {
			for name := range names {
				if strings.EqualFold(name, key) {
					return w.invalid("got the key " + short(key) + ", want " + short(name))
				}
			}
			value = of
		}
		w.peek() // the colon
		w.at++
		w.path = append(w.path, key)
		if err := w.value(value); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	w.at++
	return nil
}

// array reads an array.
func (w *walk) array(t reflect.Type) error {
	var of reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t != reflect.TypeFor[json.RawMessage]() {
		of = t.Elem()
	}
	w.at++
	w.path = append(w.path, "")
	for i := 0; w.peek() != ']'; i++ {
		if w.data[w.at] == ',' {
			w.at++
		}
		w.path[len(w.path)-1] = "[" + strconv.Itoa(i) + "]"
		if err := w.value(of); err != nil {
			return err
		}
	}
	w.path = w.path[:len(w.path)-1]
	w.at++
	return nil
}

// text reads a string.
func (w *walk) text() error {
	for w.at++; w.data[w.at] != '"'; w.at++ {
		if w.data[w.at] != '\\' {
			continue
		}
		if w.at++; w.data[w.at] != 'u' {
			continue
		}
		first := w.unit(w.at)
		if !utf16.IsSurrogate(first) {
			continue
		}
		if w.data[w.at+5] != '\\' || w.data[w.at+6] != 'u' || utf16.DecodeRune(first, w.unit(w.at+6)) == '\uFFFD' {
			return w.invalid("half of a surrogate pair: \\" + string(w.data[w.at:w.at+5]))
		}
		w.at += 6
	}
	w.at++
	return nil
}

// unit returns the code of an escape, whose u is at i.
func (w *walk) unit(i int) rune {
	n, _ := strconv.ParseUint(string(w.data[i+1:i+5]), 16, 16) // valid
	return rune(n)
}

// number reads a number and removes the fraction of an integer, if it is zero.
func (w *walk) number(t reflect.Type) {
	from := w.at
	for w.at < len(w.data) && strings.IndexByte("+-.0123456789eE", w.data[w.at]) >= 0 {
		w.at++
	}
	if t == nil || t.Kind() < reflect.Int || t.Kind() > reflect.Uint64 {
		return
	}
	if text, ok := integral(string(w.data[from:w.at])); ok {
		w.out = append(append(w.out, w.data[w.copied:from]...), text...)
		w.copied = w.at
	}
}

// mostDigits bounds the digits of an integer that is written with an exponent.
const mostDigits = 20

// integral returns an integer that is written with a fraction or an exponent, without them.
func integral(number string) (string, bool) {
	if !strings.ContainsAny(number, ".eE") {
		return "", false
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	digits, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	shift := 0
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil {
			return "", false
		}
	}
	fraction = strings.TrimRight(fraction, "0")
	digits += fraction
	if shift -= len(fraction); shift > mostDigits {
		return "", false
	}
	for ; shift < 0 && strings.HasSuffix(digits, "0") && digits != "0"; shift++ {
		digits = digits[:len(digits)-1]
	}
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		return "0", true
	}
	if shift < 0 {
		return "", false
	}
	if strings.HasPrefix(number, "-") {
		digits = "-" + digits
	}
	return digits + strings.Repeat("0", shift), true
}

// keys returns the keys of a struct with their types, or the type of a map's values. A struct
// that reads itself has neither.
func (w *walk) keys(t reflect.Type) (names map[string]reflect.Type, of reflect.Type) {
	switch {
	case t == nil || t.Kind() != reflect.Struct && t.Kind() != reflect.Map:
		return nil, nil
	case t.Kind() == reflect.Map:
		return nil, t.Elem()
	case readsItself(t):
		return nil, nil
	}
	if names := w.fields[t]; names != nil {
		return names, nil
	}
	names = map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || name == "" && f.Anonymous {
			continue
		}
		if name == "" {
			name = f.Name
		}
		names[name] = f.Type
	}
	w.fields[t] = names
	return names, nil
}

func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
