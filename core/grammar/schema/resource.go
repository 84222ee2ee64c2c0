package schema

import (
	"fmt"
	"net/url"
	"strings"

	"mm-abi.org/mm/schemas"
)

// newDocument indexes the resources of a document: the schemas with an $id, by its URL.
func newDocument(d Document, root *value) document {
	out := document{Document: d, root: root, draft: 2020, resources: map[string]*value{}}
	if s := root.get("$schema"); s != nil {
		if draft, err := schemas.Dialect(s.text); err == nil { // an unknown one is refused with the schema
			out.draft = draft
		}
	}
	base := out.identify(&url.URL{}, root)
	out.resources[base.String()] = root
	out.index(base, root)
	return out
}

// identify returns the URL of a schema: that of its $id, or the one around it. Before
// 2019-09 a reference hid it.
func (d *document) identify(base *url.URL, v *value) *url.URL {
	id := v.get("$id")
	if id == nil || id.kind != '"' || strings.HasPrefix(id.text, "#") || v.get("$ref") != nil && d.draft < 2019 {
		return base
	}
	u, err := base.Parse(id.text)
	if err != nil {
		return base
	}
	u.Fragment = ""
	return u
}

func (d *document) index(base *url.URL, v *value) {
	for _, m := range v.members {
		if m.name == "enum" || m.name == "const" {
			continue
		}
		in := d.identify(base, m.value)
		if in != base {
			d.resources[in.String()] = m.value
		}
		d.index(in, m.value)
	}
	for _, item := range v.items {
		in := d.identify(base, item)
		if in != base {
			d.resources[in.String()] = item
		}
		d.index(in, item)
	}
}

// resolve finds the schema of a reference in the schema at a pointer.
func (d *document) resolve(at, ref string) (*value, error) {
	base, v := d.identify(&url.URL{}, d.root), d.root
	for _, name := range strings.Split(at, "/")[1:] {
		if v = v.find("/" + name); v == nil {
			break
		}
		base = d.identify(base, v)
	}
	to, err := base.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("bad reference %.80q: %w", ref, err)
	}
	fragment := to.Fragment
	to.Fragment, to.RawFragment = "", ""
	root, ok := d.resources[to.String()]
	if !ok {
		return nil, fmt.Errorf("unsupported reference %.80q outside the document", ref)
	}
	var found *value
	if fragment == "" || fragment[0] == '/' {
		found = root.find(fragment)
	} else {
		found = root.anchor(fragment)
	}
	if found == nil {
		return nil, fmt.Errorf("unknown reference %.80q", ref)
	}
	return found, nil
}

// anchor finds the only schema of a resource with an anchor.
func (v *value) anchor(name string) *value {
	var found []*value
	is := func(v *value, key, text string) bool {
		a := v.get(key)
		return a != nil && a.kind == '"' && a.text == text
	}
	var look func(*value)
	look = func(at *value) {
		if at != v && at.get("$id") != nil && !is(at, "$id", "#"+name) {
			return
		}
		if is(at, "$anchor", name) || is(at, "$dynamicAnchor", name) || is(at, "$id", "#"+name) {
			found = append(found, at)
		}
		for _, m := range at.members {
			look(m.value)
		}
		for _, item := range at.items {
			look(item)
		}
	}
	look(v)
	if len(found) != 1 {
		return nil
	}
	return found[0]
}
