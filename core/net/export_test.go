package net

import (
	"maps"
	"slices"
)

// Kinds lists the kinds of layers that are computed, Composites those that are
// made of them.
func Kinds() []string      { return slices.Sorted(maps.Keys(kinds())) }
func Composites() []string { return slices.Sorted(maps.Keys(composites())) }

// Goes reports whether p takes a gradient back through step i.
func Goes(p *Pass[float64], i int) bool { return p.goes[i] }
