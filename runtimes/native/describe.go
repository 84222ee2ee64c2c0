package native

import (
	"path/filepath"
	"slices"
	"strings"
)

// Origin describes where an engine came from and which key signed it.
func (r Record) Origin() string {
	switch {
	case len(r.SignedBy) > 0:
		return r.Source + ", released by key " + strings.Join(r.SignedBy, ", ")
	case r.Pinned:
		return r.Source + " (digest as released)"
	}
	return r.Source + " (digest not pinned by this mm)"
}

// Notices lists the license files of an engine.
func (r Record) Notices() []string {
	var list []string
	for name := range r.Files {
		upper := strings.ToUpper(name)
		for _, prefix := range []string{"LICEN", "NOTICE", "THIRDPARTY", "COPYING", "QUALCOMM_LICEN"} {
			if strings.HasPrefix(upper, prefix) {
				list = append(list, filepath.Join(r.Dir, name))
			}
		}
	}
	slices.Sort(list)
	return list
}
