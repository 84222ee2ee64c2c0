package net

import (
	"errors"
	"maps"
	"slices"
)

// The limits of a description.
const (
	MaxExtent   = maxExtent
	MaxElements = maxElements
	MaxWeights  = maxWeights
	MaxSteps    = maxSteps
)

// Kinds lists the kinds of layers that are computed, Composites those that
// expand to them.
func Kinds() []string      { return slices.Sorted(maps.Keys(kinds())) }
func Composites() []string { return slices.Sorted(maps.Keys(composites())) }

// Goes reports whether p propagates a gradient through step i.
func Goes(p *Pass[float64], i int) bool { return p.goes[i] }

// Describe reads a description without allocating its weights and returns the
// number of steps.
func Describe(cfg Config) (int, error) {
	b := describe(cfg)
	return len(b.steps), errors.Join(b.errs...)
}
