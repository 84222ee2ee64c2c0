package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"mm-abi.org/mm/internal/diag"
)

// The limits of a document.
const (
	MaxBytes = 1 << 20
	MaxDepth = 64
)

// Document is a YAML document with the position of every value.
type Document struct {
	File  string
	value any                   // maps, slices, strings, float64, int64, bool, nil
	keys  map[string]*yaml.Node // JSON pointer → key in its parent mapping
	nodes map[string]*yaml.Node // JSON pointer → value

	spoilt []string // JSON pointers of values that the strict profile refuses
}

// Parse parses a document under the strict profile. If the text is not YAML, the document
// is nil. If it violates the profile, for example by a duplicate key or an anchor, the
// document is returned for Validate to find other faults, but must not be decoded.
func Parse(file string, data []byte) (*Document, diag.List) {
	var list diag.List
	top := diag.Pos{File: file, Line: 1, Col: 1}
	if len(data) > MaxBytes {
		list.Add(diag.TooLarge, diag.Pos{File: file}, fmt.Sprintf("got %d bytes, limit %d", len(data), MaxBytes), "")
		return nil, list
	}
	if !utf8.Valid(data) {
		return nil, append(list, notText(file, data))
	}
	if _, _, line := Sides(data); line > 0 {
		list.Add(diag.Conflicted, diag.Pos{File: file, Line: line, Col: 1}, "", "resolve it")
		return nil, list
	}
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var root yaml.Node
	if err := dec.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			list.Add(diag.NotMM, top, "the file is empty", "")
		} else {
			list = append(list, syntax(file, data, err))
		}
		return nil, list
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		pos := diag.Pos{File: file, Line: more.Line, Col: more.Column}
		if err != nil {
			list = append(list, syntax(file, data, err))
		} else {
			list.Add(diag.ManyDocs, pos, "", "use a file per document")
		}
		return nil, list
	}
	d := &Document{File: file, keys: map[string]*yaml.Node{}, nodes: map[string]*yaml.Node{}}
	d.value = d.walk(root.Content[0], "", 1, &list)
	if d.value == nil && list.Failed() {
		return nil, list
	}
	return d, list
}

// walk converts a node to plain values and collects violations of the profile.
func (d *Document) walk(n *yaml.Node, ptr string, depth int, list *diag.List) any {
	pos := d.at(n)
	d.nodes[ptr] = n
	before := len(*list)
	defer func() {
		if len(*list) > before && (n.Kind != yaml.MappingNode && n.Kind != yaml.SequenceNode || n.Anchor != "" || depth > MaxDepth) {
			d.spoilt = append(d.spoilt, ptr)
		}
	}()
	if depth > MaxDepth {
		list.Add(diag.TooLarge, pos, fmt.Sprintf("nested deeper than %d", MaxDepth), "")
		return nil
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		name := n.Anchor
		if n.Kind == yaml.AliasNode {
			name = n.Value
		}
		list.Add(diag.Alias, pos, fmt.Sprintf("%q", name), "write the value out where it is used")
		return nil
	}
	if n.Style&yaml.TaggedStyle != 0 {
		list.Add(diag.Tag, pos, n.Tag, "write the plain value")
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return d.mapping(n, ptr, depth, list)
	case yaml.SequenceNode:
		items := make([]any, len(n.Content))
		for i, c := range n.Content {
			items[i] = d.walk(c, ptr+"/"+strconv.Itoa(i), depth+1, list)
		}
		return items
	}
	return d.scalar(n, pos, list)
}

// spoils reports whether the profile refused the value at ptr or a value around it, whose
// schema faults are then not reported.
func (d *Document) spoils(ptr string) bool {
	for _, s := range d.spoilt {
		if ptr == s || strings.HasPrefix(ptr, s+"/") {
			return true
		}
	}
	return false
}

func (d *Document) mapping(n *yaml.Node, ptr string, depth int, list *diag.List) any {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" || k.Tag == "!!merge" || k.Style&yaml.TaggedStyle != 0 {
			list.Add(diag.Alias, d.at(k), "a key must be plain text", "write the keys out")
			d.spoilt = append(d.spoilt, ptr) // its content is unknown
			continue
		}
		if strings.ContainsFunc(k.Value, func(r rune) bool { return hidden(r) || blank(r) }) {
			list.Add(diag.HiddenText, d.at(k), fmt.Sprintf("key %+q", k.Value), "remove it")
		}
		child := ptr + "/" + escape(k.Value)
		if first, ok := d.keys[child]; ok {
			list.Add(diag.DuplicateKey, d.at(k), fmt.Sprintf("%q, first on line %d", k.Value, first.Line), "remove one of them")
			continue
		}
		d.keys[child] = k
		m[k.Value] = d.walk(v, child, depth+1, list)
	}
	return m
}

// scalar resolves a scalar by YAML's core schema. Dates stay text.
func (d *Document) scalar(n *yaml.Node, pos diag.Pos, list *diag.List) any {
	switch n.Tag {
	case "!!str", "!!timestamp":
		if strings.ContainsFunc(n.Value, hidden) {
			list.Add(diag.HiddenText, pos, fmt.Sprintf("%+q", shorten(n.Value)), "remove it")
		}
		return n.Value
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		if ambiguous(n.Value) {
			list.Add(diag.OutOfRange, pos, fmt.Sprintf("unsupported number %q: octal to some readers, decimal to others", n.Value), fmt.Sprintf("write a number without leading zeros, text in quotes: %q", n.Value))
			return nil
		}
		var i int64
		if n.Decode(&i) == nil {
			return i
		}
	case "!!float":
		var f float64
		integer := strings.Trim(n.Value, "+-0123456789") == "" // an integer too large for int64
		if n.Decode(&f) == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && !integer {
			return f
		}
	default:
		list.Add(diag.Tag, pos, n.Tag, "write the plain value")
		return nil
	}
	list.Add(diag.OutOfRange, pos, fmt.Sprintf("unsupported number %q", n.Value), "")
	return nil
}

// ambiguous reports whether an integer has leading zeros: octal in YAML 1.1, decimal in YAML 1.2.
func ambiguous(s string) bool {
	digits := strings.TrimLeft(s, "+-")
	return len(digits) > 1 && digits[0] == '0' && digits[1] != 'x' && digits[1] != 'o' && digits[1] != 'b'
}

func (d *Document) at(n *yaml.Node) diag.Pos {
	return diag.Pos{File: d.File, Line: n.Line, Col: n.Column}
}

// Has reports whether the document holds a value at a JSON pointer (RFC 6901).
func (d *Document) Has(ptr string) bool { return d.nodes[ptr] != nil }

// Pos returns the position of the value at a JSON pointer, or of the nearest enclosing
// value.
func (d *Document) Pos(ptr string) diag.Pos {
	for {
		if n := d.nodes[ptr]; n != nil {
			// A mapping begins at its key: that is where a reader looks.
			if k := d.keys[ptr]; k != nil && n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0 {
				return d.at(k)
			}
			return d.at(n)
		}
		i := strings.LastIndexByte(ptr, '/')
		if i < 0 {
			return diag.Pos{File: d.File, Line: 1, Col: 1}
		}
		ptr = ptr[:i]
	}
}

// KeyPos returns the position of the key that a JSON pointer ends in.
func (d *Document) KeyPos(ptr string) diag.Pos {
	if k := d.keys[ptr]; k != nil {
		return d.at(k)
	}
	return d.Pos(ptr)
}

// Keys returns the keys of the mapping at ptr in file order.
func (d *Document) Keys(ptr string) []string {
	n := d.nodes[ptr]
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var keys []string
	for i := 0; i < len(n.Content); i += 2 {
		keys = append(keys, n.Content[i].Value)
	}
	return keys
}

// Decode decodes the document into v by its json tags. After Validate it does not fail for
// the struct of the document's kind.
func (d *Document) Decode(v any) error {
	b, err := json.Marshal(d.value)
	if err != nil {
		return fmt.Errorf("reading %s: %w", d.File, err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("reading %s: %w", d.File, err)
	}
	return nil
}

// Encode encodes v, by its json tags, as YAML in mm's style: two spaces of indentation,
// keys in the order of the struct.
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing yaml: %w", err)
	}
	// JSON is YAML except for NEL, a line break: reading it as a node keeps the order of the keys.
	b = bytes.ReplaceAll(b, []byte("\u0085"), []byte(`\u0085`))
	var n yaml.Node
	if err := yaml.Unmarshal(b, &n); err != nil {
		return nil, fmt.Errorf("writing yaml: %w", err)
	}
	block(&n)
	var buf strings.Builder
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(&n); err != nil {
		return nil, fmt.Errorf("writing yaml: %w", err)
	}
	return []byte(buf.String()), nil
}

// block removes JSON's flow and quote styles, except for short lists of scalars and texts
// that begin or end with blanks, which yaml.v3 does not write as they are.
func block(n *yaml.Node) {
	if text := strings.TrimSuffix(n.Value, "\n"); text != "" && strings.TrimSpace(text) == text || n.Value == "" {
		n.Style &^= yaml.DoubleQuotedStyle
	}
	if n.Kind != yaml.SequenceNode || !short(n) {
		n.Style &^= yaml.FlowStyle
	}
	for _, c := range n.Content {
		block(c)
	}
}

func short(n *yaml.Node) bool {
	total := 0
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			return false
		}
		total += len(c.Value) + 2
	}
	return total <= 72
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
