package resolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
)

// failure converts a conflict to a diagnostic at the graph's reference.
func (r *run) failure(c *conflict) diag.List {
	var list diag.List
	if c == nil {
		return list
	}
	pos := r.pos(c.name)
	if pin, ok := r.pin(c.name); ok && r.opt.Locked && len(c.available) == 0 {
		return r.gone(pin, pos)
	}
	switch {
	case len(c.available) == 0 && len(r.opt.Skipped) > 0:
		list.Add(diag.Offline, pos, fmt.Sprintf("%s; not asked: %s", c.chain(), strings.Join(r.opt.Skipped, ", ")), "run once without --offline")
	case len(c.available) == 0:
		list.Add(diag.NotFound, pos, fmt.Sprintf("%s; looked in %s", c.chain(), r.looked()), "add a source to mm.yaml, or check the name")
	case len(c.wants) > 1:
		list.Add(diag.Conflict, pos, c.chain(), "loosen one of the references")
	default:
		list.Add(diag.NoVersion, pos, c.chain(), "use a version that there is")
	}
	return list
}

// gone reports a locked module that no source has. Other versions do not help,
// because the lock decides.
func (r *run) gone(pin builds.Locked, pos diag.Pos) (list diag.List) {
	detail := fmt.Sprintf("%s@%s is locked to %s, which came from %s; looked in %s", pin.Name, pin.Version, pin.Digest, pin.Source, r.looked())
	if len(r.opt.Skipped) > 0 {
		list.Add(diag.Offline, pos, detail+"; not asked: "+strings.Join(r.opt.Skipped, ", "), "run once without --offline")
		return list
	}
	list.Add(diag.NotFound, pos, detail, "bring it back, or mm lock --update "+pin.Name)
	return list
}

// drift reports a module that differs from the lock: it is missing there, or a
// folder's bytes have changed under the same version.
func (r *run) drift(m *Module) (list diag.List) {
	if !r.opt.Locked {
		return nil
	}
	if _, ok := r.opt.Lock.Find(m.Manifest.Name); !ok {
		list.Add(diag.LockStale, r.pos(m.Manifest.Name), fmt.Sprintf("%s is needed and not in %s", m.Manifest.ID(), r.opt.Lock.File), "run mm lock")
	}
	pin, ok := r.pin(m.Manifest.Name)
	if have := m.Descriptor.Digest.String(); ok && pin.Digest != have {
		list.Add(diag.LockDrift, r.pos(pin.Name), fmt.Sprintf("%s@%s is locked to %s, %s has %s", pin.Name, pin.Version, pin.Digest, m.Origin, have), "if the change is wanted: mm lock --update "+pin.Name)
	}
	return list
}

// pos is the place of the graph's reference to a module, or the graph where
// another module asks for it.
func (r *run) pos(name string) diag.Pos {
	for _, n := range r.graph.Nodes() {
		if n.Ref.Name == name {
			return r.graph.Pos(n.Ptr + "/ref")
		}
	}
	return diag.Pos{File: r.graph.File}
}

// looked lists the sources for a message.
func (r *run) looked() string {
	var names []string
	for _, s := range r.opt.Sources {
		names = append(names, s.String())
	}
	if names == nil {
		return "no source"
	}
	return strings.Join(names, ", ")
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
