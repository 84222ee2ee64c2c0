package runtimes

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
)

// Versioned is an engine that may have several versions installed.
type Versioned interface {
	Engine
	// At returns the engine at the newest version with this prefix; its Probe
	// reports whether one is installed.
	At(version string) Engine
}

// Named reports whether a name selects an engine: its name or an alias, with or
// without @VERSION.
func Named(e Engine, request string) bool {
	name, _, _ := strings.Cut(request, "@")
	a, ok := e.(Aliased)
	return e.Name() == name || ok && slices.Contains(a.Aliases(), name)
}

// Select returns the engine called name, or NAME@VERSION if it is [Versioned].
// Without a name it returns the first available engine that can open the part; the
// list is in order of preference.
func Select(ctx context.Context, engines []Engine, name string, part builds.Part) (Engine, error) {
	if name != "" {
		request := name
		name, version, versioned := strings.Cut(request, "@")
		i := slices.IndexFunc(engines, func(e Engine) bool { return e.Name() == name })
		if i < 0 {
			i = slices.IndexFunc(engines, func(e Engine) bool { return Named(e, name) })
		}
		if i < 0 {
			return nil, &Unavailable{What: "backend " + name, Why: "this build of mm does not have it", Hint: "mm doctor lists the backends"}
		}
		e := engines[i]
		if versioned {
			v, ok := e.(Versioned)
			if !ok || version == "" {
				return nil, &Unavailable{What: "backend " + request, Why: "" + name + " has no such version", Hint: "--backend " + name}
			}
			e = v.At(version)
		}
		if err := e.Can(part); err != nil { // an installed library would not help
			return nil, err
		}
		_, err := e.Probe(ctx)
		return e, err
	}
	var first, unavailable error // of all engines; of those that can open the part and are not available
	for _, e := range engines {
		err := e.Can(part)
		if err == nil {
			if _, err = e.Probe(ctx); err == nil {
				return e, nil
			}
			unavailable = cmp.Or(unavailable, err)
		}
		first = cmp.Or(first, err)
	}
	if first = cmp.Or(unavailable, first); first == nil {
		first = &Unavailable{What: part.ID(), Why: "this build of mm has no backend"}
	}
	return nil, first
}
