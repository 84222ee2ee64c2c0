package schemas

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/spell"
)

// compiled returns the schema of a kind. Compiling takes milliseconds, so schemas are
// compiled on first use and cached; common parts are compiled once.
var compiled = func() func(Kind) *jsonschema.Schema {
	var mu sync.Mutex
	compiler := sync.OnceValue(newCompiler)
	cache := map[Kind]*jsonschema.Schema{}
	return func(kind Kind) *jsonschema.Schema {
		mu.Lock()
		defer mu.Unlock()
		if cache[kind] == nil {
			cache[kind] = compiler().MustCompile(place + string(kind) + ".schema.json") // an embedded file: a test reads them all
		}
		return cache[kind]
	}
}()

// place is the URL prefix of the embedded files for the compiler.
const place = "https://mm-abi.org/schemas/"

func newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.ExtractAnnotations = true // descriptions are hints
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		name, ok := strings.CutPrefix(url, place)
		if !ok {
			return nil, fmt.Errorf("unknown schema %s", url)
		}
		return files.Open(name)
	}
	for name, f := range formats {
		c.Formats[name] = func(v any) bool {
			s, ok := v.(string)
			return !ok || f.check(s) == nil
		}
	}
	return c
}

// Validate validates the document against the schema of kind and returns every fault with
// its position.
func (d *Document) Validate(kind Kind) diag.List {
	var list diag.List
	err := compiled(kind).Validate(d.value)
	if err == nil {
		return nil
	}
	v, ok := err.(*jsonschema.ValidationError)
	if !ok { // infinite loop or unsupported type
		list.Add(diag.Syntax, diag.Pos{File: d.File}, err.Error(), "")
		return list
	}
	root := compiled(kind)
	for _, leaf := range leaves(v) {
		d.fault(root, leaf, &list)
	}
	list.Sort()
	return list
}

// leaves returns the innermost errors, which name a violated keyword rather than the path
// to it.
func leaves(v *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(v.Causes) == 0 {
		return []*jsonschema.ValidationError{v}
	}
	var out []*jsonschema.ValidationError
	for _, c := range v.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

// fault translates a violated keyword into a diagnostic.
func (d *Document) fault(root *jsonschema.Schema, v *jsonschema.ValidationError, list *diag.List) {
	ptr := v.InstanceLocation
	if d.spoils(ptr) {
		return
	}
	keyword := path.Base(v.KeywordLocation)
	value := d.lookup(ptr)
	shown := d.show(ptr)
	schema := schemaAt(root, v.KeywordLocation)
	pos := d.Pos(ptr)
	here := where(ptr)
	switch {
	case strings.Contains(v.AbsoluteKeywordLocation, "/since_1_1/"):
		list.Add(diag.NeedsABI11, d.KeyPos(ptr), here, "use abi: mm-abi-1.1")
	case keyword == "additionalProperties":
		for _, key := range quoted(v.Message) {
			list.Add(diag.UnknownKey, d.KeyPos(ptr+"/"+escape(key)), fmt.Sprintf("%q in %s", key, or(here, "the document")), suggest(key, properties(schema)))
		}
	case keyword == "required":
		for _, key := range quoted(v.Message) {
			list.Add(diag.MissingKey, pos, fmt.Sprintf("%q in %s", key, or(here, "the document")), describe(schema, key))
		}
	case keyword == "type":
		list.Add(diag.WrongType, pos, fmt.Sprintf("%s is %s, want %s", or(here, "the document"), d.typeName(ptr), strings.Join(schemaTypes(schema), " or ")), d.quoteHint(ptr, schema))
	case keyword == "enum" || keyword == "const":
		want := allowed(schema)
		list.Add(diag.NotAllowed, pos, fmt.Sprintf("%s is %s, allowed: %s", here, shown, strings.Join(want, ", ")), nearest(fmt.Sprint(value), want))
	case keyword == "format":
		f := formats[schema.Format]
		detail := fmt.Sprintf("%s is %s", here, shown)
		if s, ok := value.(string); ok {
			if err := f.check(s); err != nil && err.Error() != "" {
				detail = here + ": " + err.Error()
			}
		}
		list.Add(f.code, pos, detail, "write "+f.want)
	case strings.Contains(v.KeywordLocation, "/propertyNames/"):
		list.Add(diag.WrongForm, pos, fmt.Sprintf("key %s", here), summary(schema))
	case keyword == "pattern":
		list.Add(diag.WrongForm, pos, fmt.Sprintf("%s is %s", here, shown), summary(schema))
	case keyword == "uniqueItems":
		list.Add(diag.RepeatedItem, pos, fmt.Sprintf("%s: %s", here, v.Message), "remove the repeat")
	default:
		list.Add(diag.OutOfRange, pos, fmt.Sprintf("%s is %s: %s", or(here, "the document"), shown, bound(keyword, schema, v.Message)), "")
	}
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
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

// quoted returns the single-quoted words of a validator's message.
func quoted(message string) []string {
	var out []string
	for {
		i := strings.IndexByte(message, '\'')
		if i < 0 {
			return out
		}
		message = message[i+1:]
		var b strings.Builder
		j := 0
		for j < len(message) && message[j] != '\'' {
			if message[j] == '\\' && j+1 < len(message) {
				j++
			}
			b.WriteByte(message[j])
			j++
		}
		out = append(out, b.String())
		if j >= len(message) {
			return out
		}
		message = message[j+1:]
	}
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
	if k, ok := spell.Nearest(got, known); ok {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return ""
}
