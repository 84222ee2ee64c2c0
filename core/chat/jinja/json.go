package jinja

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonForm is the format of tojson, as in Python's json.dumps.
type jsonForm struct {
	item, pair string // between elements, between key and value
	indent     string // for each level; "" for one line
	ascii      bool
	sorted     bool
}

func toJSON(r *run, v value, args callArgs) (value, error) {
	f := jsonForm{item: ", ", pair: ": "}
	ascii, _ := args.arg(0, "ensure_ascii")
	sorted, _ := args.named["sort_keys"]
	f.ascii, f.sorted = truth(ascii), truth(sorted)
	if w, ok := args.arg(1, "indent"); ok && w != nil {
		space, ok := w.(string)
		if !ok {
			n, err := args.int(1, "indent", 0)
			if err != nil || n < 0 || n > 64 {
				return nil, errors.Join(err, fmt.Errorf("bad indent %d", n))
			}
			space = strings.Repeat(" ", int(n))
		}
		if len(space) > 64 {
			return nil, fmt.Errorf("indent of %d bytes, limit 64", len(space))
		}
		f.indent, f.item = "\n"+space, ","
	}
	if seps, ok := args.named["separators"].(*list); ok && len(seps.items) == 2 {
		item, ok1 := seps.items[0].(string)
		pair, ok2 := seps.items[1].(string)
		if !ok1 || !ok2 {
			return nil, errors.New("separators are not strings")
		}
		f.item, f.pair = item, pair
	}
	var b strings.Builder
	if err := r.json(&b, v, f, 0); err != nil {
		return nil, err
	}
	return r.newString(b.String())
}

func (r *run) json(b *strings.Builder, v value, f jsonForm, depth int) error {
	if err := r.step(1); err != nil {
		return err
	}
	if depth > maxNesting {
		return ErrNesting
	}
	if b.Len() > maxOutput {
		return ErrOutput
	}
	switch v := plain(v).(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case bigInt:
		b.WriteString(string(v))
	case float64:
		switch {
		case math.IsNaN(v):
			b.WriteString("NaN")
		case math.IsInf(v, 0):
			b.WriteString(strings.Replace(floatText(v), "inf", "Infinity", 1))
		default:
			b.WriteString(floatText(v))
		}
	case string:
		jsonString(b, v, f.ascii)
		return r.step(len(v) / 16)
	case *list:
		return r.jsonBody(b, "[", "]", len(v.items), f, depth, func(i int) error {
			return r.json(b, v.items[i], f, depth+1)
		})
	case *dict:
		order := make([]int, len(v.keys))
		for i := range order {
			order[i] = i
		}
		names := make([]string, len(v.keys))
		for i, k := range v.keys {
			var err error
			if names[i], err = r.jsonKey(k); err != nil {
				return err
			}
		}
		if f.sorted {
			slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(names[i], names[j]) })
		}
		return r.jsonBody(b, "{", "}", len(order), f, depth, func(i int) error {
			jsonString(b, names[order[i]], f.ascii)
			b.WriteString(f.pair)
			return r.json(b, v.vals[order[i]], f, depth+1)
		})
	default:
		return fmt.Errorf("%s is not JSON serializable", kindOf(v))
	}
	return nil
}

// jsonBody encodes the elements of an array or an object.
func (r *run) jsonBody(b *strings.Builder, open, closing string, n int, f jsonForm, depth int, each func(i int) error) error {
	b.WriteString(open)
	line := func(depth int) {
		if f.indent != "" {
			b.WriteByte('\n')
			for range depth {
				b.WriteString(f.indent[1:])
			}
		}
	}
	for i := range n {
		if i > 0 {
			b.WriteString(f.item)
		}
		line(depth + 1)
		if err := each(i); err != nil {
			return err
		}
	}
	if n > 0 {
		line(depth)
	}
	b.WriteString(closing)
	return nil
}

// jsonKey encodes a key.
func (r *run) jsonKey(k value) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(k), nil
	}
	return r.text(k)
}

// jsonString encodes a string as json.dumps does.
func jsonString(b *strings.Builder, s string, ascii bool) {
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\b':
			b.WriteString(`\b`)
		case c == '\f':
			b.WriteString(`\f`)
		case c < ' ' || ascii && c >= 0x7f && c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		case ascii && c >= utf8.RuneSelf:
			c -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}
