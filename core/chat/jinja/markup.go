package jinja

import "slices"

// markup is text that the filter safe or escape has marked as HTML, like
// MarkupSafe's Markup. Nothing is escaped by default, but text joined to marked
// text by + or by its methods is, and the result is marked. Elsewhere marked
// text is ordinary text.
type markup string

// plain converts marked text to text.
func plain(v value) value {
	if m, ok := v.(markup); ok {
		return string(m)
	}
	return v
}

// remark marks text derived from marked text.
func remark(from, v value) value {
	if _, ok := from.(markup); !ok {
		return v
	}
	switch v := v.(type) {
	case string:
		return markup(v)
	case *list:
		out := &list{slices.Clone(v.items), v.tuple}
		for i, item := range out.items {
			out.items[i] = remark(from, item)
		}
		return out
	}
	return v
}

// escaped returns a value as escaped text.
func (r *run) escaped(v value) (string, error) {
	if m, ok := v.(markup); ok {
		return string(m), nil
	}
	s, err := r.text(v)
	return escapeHTML(s), err
}

// unmarked returns the arguments with marked text as text.
func (a callArgs) unmarked() callArgs {
	out := callArgs{plain: slices.Clone(a.plain)}
	for i, v := range out.plain {
		out.plain[i] = plain(v)
	}
	for _, name := range a.names {
		out.name(name, plain(a.named[name]))
	}
	return out
}

// marked runs a filter, and marks its result for marked text.
func (e *filterExpr) marked(r *run, v value, args callArgs) (value, error) {
	_, before := v.(markup)
	switch e.name {
	case "d", "default": // returns its argument
		return e.run(r, v, args)
	case "e", "escape":
		if before {
			return v, nil
		}
	case "format":
		if before {
			for i := range args.plain {
				s, err := r.escaped(args.plain[i])
				if err != nil {
					return nil, err
				}
				args.plain[i] = s
			}
			out, err := e.run(r, plain(v), args)
			return remark(v, out), err
		}
	}
	out, err := e.run(r, plain(v), args.unmarked())
	switch e.name {
	case "safe", "e", "escape":
		return remark(markup(""), out), err
	case "capitalize", "lower", "upper", "string", "trim", "indent":
		return remark(v, out), err
	}
	return out, err
}

// markupMethod returns a method of marked text: the string's, with a marked
// result and escaped arguments.
func markupMethod(m markup, name string) any {
	f, ok := stringMethod(string(m), name).(*function)
	if !ok {
		return nil
	}
	return method(name, func(r *run, args callArgs) (value, error) {
		var err error
		switch name {
		case "replace":
			if len(args.plain) > 1 {
				args.plain = slices.Clone(args.plain)
				args.plain[1], err = r.escaped(args.plain[1])
			}
		case "join":
			of, _ := args.arg(0, "iterable")
			items, failed := r.iterate(of)
			texts := make([]value, len(items))
			for i, item := range items {
				if texts[i], err = r.escaped(item); err != nil {
					break
				}
			}
			if err == nil {
				err = failed
			}
			args = callArgs{plain: []value{&list{items: texts}}}
		case "format":
			args.plain = slices.Clone(args.plain)
			for i, v := range args.plain {
				if args.plain[i], err = r.escaped(v); err != nil {
					break
				}
			}
		}
		if err != nil {
			return nil, err
		}
		out, err := f.call(r, args.unmarked())
		return remark(m, out), err
	})
}
