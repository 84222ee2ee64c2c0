package schemas

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/diag"
)

// compiled returns the schema of a kind. Schemas, and those that they refer to, are
// compiled on first use: a document needs few of them.
var compiled = func() func(Kind) *rule {
	own := sync.OnceValue(ownCompiler)
	return func(kind Kind) *rule {
		return own().must(place{base: named(&url.URL{})}, published+string(kind)+".schema.json")
	}
}()

// must returns a schema of the embedded files, which a test reads.
func (c *compiler) must(from place, ref string) *rule {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.resolve(from, ref)
	if err != nil {
		panic(err)
	}
	return r
}

// published is the URL prefix of the embedded files.
const published = "https://mm-abi.org/schemas/"

func ownCompiler() *compiler {
	c := newCompiler(func(url string) (any, error) {
		name, ok := strings.CutPrefix(url, published)
		if !ok {
			return nil, fmt.Errorf("unknown schema %s", url)
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		return decode(data)
	})
	c.form = func(name string) func(string) error { return formats[name].check }
	return c
}

// Validate validates the document against the schema of kind and returns every fault with
// its position.
func (d *Document) Validate(kind Kind) diag.List {
	var list diag.List
	faults := compiled(kind).validate(d.value)
	for _, f := range faults {
		if (f.keyword == "format" || f.keyword == "pattern") && slices.ContainsFunc(faults, func(other fault) bool { return other.keyword == "maxLength" && other.at == f.at }) {
			continue // formats bound the length, too
		}
		d.fault(f, &list)
	}
	list.Sort()
	return list
}

// fault translates a violated keyword into a diagnostic.
func (d *Document) fault(v fault, list *diag.List) {
	ptr := v.at
	if d.spoils(ptr) {
		return
	}
	keyword, schema := v.keyword, v.rule
	value := d.lookup(ptr)
	shown := d.show(ptr)
	pos := d.Pos(ptr)
	here := where(ptr)
	switch {
	case strings.Contains(schema.place+"/", "/since_1_1/"):
		list.Add(diag.NeedsABI, d.KeyPos(ptr), here, "use abi: mm-abi-1.1")
	case keyword == "additionalProperties":
		for _, key := range v.names {
			list.Add(diag.UnknownKey, d.KeyPos(ptr+"/"+escape(key)), fmt.Sprintf("%q in %s", key, cmp.Or(here, "the document")), suggest(key, properties(schema)))
		}
	case v.either != nil:
		if v.names[0] == v.either[0] {
			list.Add(diag.MissingKey, pos, fmt.Sprintf("one of %q in %s", v.either, cmp.Or(here, "the document")), "")
		}
	case keyword == "required":
		for _, key := range v.names {
			list.Add(diag.MissingKey, pos, fmt.Sprintf("%q in %s", key, cmp.Or(here, "the document")), describe(schema, key))
		}
	case keyword == "type":
		list.Add(diag.WrongType, pos, fmt.Sprintf("%s is %s, want %s", cmp.Or(here, "the document"), d.typeName(ptr), strings.Join(schemaTypes(schema), " or ")), d.quoteHint(ptr, schema))
	case keyword == "enum" || keyword == "const":
		want := allowed(schema)
		list.Add(diag.NotAllowed, pos, fmt.Sprintf("%s is %s, allowed: %s", here, shown, strings.Join(want, ", ")), nearest(fmt.Sprint(value), want))
	case keyword == "format":
		f := formats[schema.format]
		detail := fmt.Sprintf("%s is %s", here, shown)
		if s, ok := value.(string); ok {
			if err := f.check(s); err != nil && err.Error() != "" {
				detail = here + ": " + err.Error()
			}
		}
		list.Add(f.code, pos, detail, "write "+f.want)
	case v.ofName:
		list.Add(diag.WrongForm, pos, fmt.Sprintf("key %s", here), summary(schema))
	case keyword == "pattern":
		list.Add(diag.WrongForm, pos, fmt.Sprintf("%s is %s", here, shown), summary(schema))
	case keyword == "uniqueItems":
		list.Add(diag.RepeatedItem, pos, fmt.Sprintf("%s: %s", here, v.message), "remove the repeat")
	default:
		list.Add(diag.OutOfRange, pos, fmt.Sprintf("%s is %s: %s", cmp.Or(here, "the document"), shown, bound(keyword, schema, v.message)), "")
	}
}

// lookup returns the plain value at a JSON pointer.
func (d *Document) lookup(ptr string) any {
	v := d.value
	for _, key := range strings.Split(ptr, "/")[1:] {
		switch t := v.(type) {
		case map[string]any:
			v = t[unescape(key)]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(t) {
				return nil
			}
			v = t[i]
		default:
			return nil
		}
	}
	return v
}

func unescape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
}

// where formats a JSON pointer for messages: modalities[0].proj.out_dim.
func where(ptr string) string {
	var b strings.Builder
	for i, key := range strings.Split(ptr, "/") {
		if i == 0 {
			continue
		}
		if _, err := strconv.Atoi(key); err == nil {
			b.WriteString("[" + key + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(unescape(key))
	}
	return b.String()
}

// typeName returns the type of the value at ptr, with its text as written.
func (d *Document) typeName(ptr string) string {
	switch d.lookup(ptr).(type) {
	case nil:
		return "empty"
	case string:
		return "text " + d.show(ptr)
	case bool:
		return "the truth value " + d.show(ptr)
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	}
	return "the number " + d.show(ptr)
}

// show formats the value at ptr briefly: numbers as in the file, text with non-ASCII
// characters escaped, so that look-alike letters can be distinguished.
func (d *Document) show(ptr string) string {
	switch t := d.lookup(ptr).(type) {
	case string:
		return strconv.QuoteToASCII(shorten(t))
	case map[string]any:
		return fmt.Sprintf("a mapping of %d keys", len(t))
	case []any:
		return fmt.Sprintf("a list of %d", len(t))
	case nil:
		return "empty"
	default:
		if n := d.nodes[ptr]; n != nil {
			return shorten(n.Value)
		}
		return fmt.Sprint(t)
	}
}

func shorten(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// suggest returns the nearest known word, or all of them if none is near.
func suggest(got string, known []string) string {
	if hint := nearest(got, known); hint != "" {
		return hint
	}
	if len(known) == 0 || len(known) > 40 {
		return ""
	}
	known = slices.Clone(known)
	slices.Sort(known)
	return "known: " + strings.Join(known, ", ")
}

// nearest returns a hint with the known word closest to got.
func nearest(got string, known []string) string {
	if k, ok := diag.Nearest(got, known); ok {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return ""
}
