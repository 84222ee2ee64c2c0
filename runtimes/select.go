package runtimes

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
)

// Versioned is an engine of which several versions may be installed.
type Versioned interface {
	Engine
	// At is the engine at the newest version that begins so; its Probe says
	// whether there is one.
	At(version string) Engine
}

// Named reports whether an engine is asked for by a name: its own, one of its
// others, or either with @VERSION behind it.
func Named(e Engine, asked string) bool {
	name, _, _ := strings.Cut(asked, "@")
	a, ok := e.(Aliased)
	return e.Name() == name || ok && slices.Contains(a.Aliases(), name)
}

// Select returns the engine called name, NAME@VERSION of one that is [Versioned].
// With no name it is the first that is there and can open the part; the order of
// the list is the preference.
func Select(ctx context.Context, engines []Engine, name string, part builds.Part) (Engine, error) {
	if name != "" {
		asked := name
		name, version, said := strings.Cut(asked, "@")
		i := slices.IndexFunc(engines, func(e Engine) bool { return e.Name() == name })
		if i < 0 {
			i = slices.IndexFunc(engines, func(e Engine) bool { return Named(e, name) })
		}
		if i < 0 {
			return nil, &Unavailable{What: "backend " + name, Why: "this build of mm does not have it", Hint: "mm doctor lists the backends"}
		}
		e := engines[i]
		if said {
			v, ok := e.(Versioned)
			if !ok || version == "" {
				return nil, &Unavailable{What: "backend " + asked, Why: "no version of " + name + " is called so", Hint: "--backend " + name}
			}
			e = v.At(version)
		}
		if _, err := e.Probe(ctx); err != nil {
			return nil, err
		}
		return e, e.Can(part)
	}
	var first, absent error // of all; of those that could open the part and are not there
	for _, e := range engines {
		err := e.Can(part)
		if err == nil {
			if _, err = e.Probe(ctx); err == nil {
				return e, nil
			}
			absent = cmp.Or(absent, err)
		}
		first = cmp.Or(first, err)
	}
	if first = cmp.Or(absent, first); first == nil {
		first = &Unavailable{What: part.ID(), Why: "this build of mm has no backend"}
	}
	return nil, first
}
