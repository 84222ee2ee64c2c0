package net

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/train/nn"
)

// The limits of a description. They keep every product of sizes from
// overflowing.
const (
	maxExtent   = 1 << 20 // rows and channels
	maxElements = 1 << 27 // of one value of one sample
	maxWeights  = 1 << 28 // of a network
	maxSteps    = 4096
)

// builder reads a description.
type builder struct {
	kinds   map[string]kind
	values  map[string]Port   // by name: ports and layers
	alias   map[string]string // the step behind the name of a composite
	steps   []Step
	used    map[string]bool // values used as inputs
	names   map[string]bool // of tensors
	outputs []string
	specs   []nn.Spec
	starts  []start
	weights int
	layer   int // index of the layer being read
	errs    []error
}

// describe reads cfg. The errors are in the builder.
func describe(cfg Config) *builder {
	b := &builder{kinds: kinds(), values: map[string]Port{}, alias: map[string]string{}, used: map[string]bool{}, names: map[string]bool{}}
	if len(cfg.Inputs) == 0 {
		b.fault("missing inputs")
	}
	before := ""
	for _, p := range cfg.Inputs {
		b.input(p)
		if before == "" {
			before = p.Name
		}
	}
	for i, l := range cfg.Layers {
		b.layer = i
		if l.Name == "" {
			l.Name = fmt.Sprintf("%s%d", l.Kind, i)
		}
		if len(l.Inputs) == 0 && before != "" {
			l.Inputs = []string{before}
		}
		if b.duplicate(l.Name) || strings.ContainsAny(l.Name, "/ \t\n") {
			b.fault("layer %q: duplicate or invalid name", l.Name)
			continue
		}
		if !b.add(l) {
			return b // shapes of the following layers are unknown
		}
		if len(b.steps) > maxSteps {
			b.fault("more than %d layers", maxSteps)
			break
		}
		before = l.Name
	}
	b.finish(cfg)
	return b
}

func (b *builder) fault(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

func (b *builder) duplicate(name string) bool {
	_, value := b.values[name]
	_, alias := b.alias[name]
	return value || alias
}

func (b *builder) input(p Port) {
	switch {
	case p.Name == "" || b.duplicate(p.Name):
		b.fault("input %q: duplicate or invalid name", p.Name)
	case p.Rows < 1 || p.Cols < 1 || p.Rows > maxExtent || p.Cols > maxExtent || p.Rows*p.Cols > maxElements:
		b.fault("input %s: invalid shape [%d, %d]", p.Name, p.Rows, p.Cols)
	case p.Height < 0 || p.Height > 0 && p.Rows%p.Height != 0:
		b.fault("input %s: %d rows are not a multiple of height %d", p.Name, p.Rows, p.Height)
	}
	b.values[p.Name] = p
}

// add reads one layer of the description and expands it if it is a composite.
func (b *builder) add(l Layer) bool {
	if c, ok := composites()[l.Kind]; ok {
		if !b.permitted(l, c.parameters, 1, 1) {
			return false
		}
		in, ok := b.find(l, l.Inputs[0])
		if !ok {
			return false
		}
		parts, err := c.parts(l, in)
		if err != nil {
			b.fault("layer %s (%s): %w", l.Name, l.Kind, err)
			return false
		}
		for _, part := range parts {
			if !b.step(part) {
				return false
			}
		}
		if last := parts[len(parts)-1].Name; last != l.Name {
			b.alias[l.Name] = last
		}
		return true
	}
	return b.step(l)
}

// permitted checks that a layer sets only parameters of its kind.
func (b *builder) permitted(l Layer, parameters []string, least, most int) bool {
	before := len(b.errs)
	set := l.fields()
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.Contains(parameters, name) {
			b.fault("layer %s: %s has no parameter %s", l.Name, l.Kind, name)
			continue
		}
		v := set[name]
		if v.CanInt() && (v.Int() < 0 || v.Int() > maxExtent) {
			b.fault("layer %s (%s): %s out of range: got %d, want 0 to %d", l.Name, l.Kind, name, v.Int(), maxExtent)
		}
		if v.CanFloat() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
			b.fault("layer %s (%s): %s is %v", l.Name, l.Kind, name, v.Float())
		}
	}
	if n := len(l.Inputs); n < least || n > most {
		b.fault("layer %s (%s): %d inputs, want %d to %d", l.Name, l.Kind, n, least, most)
	}
	return len(b.errs) == before
}

// find returns the port that a layer takes by name.
func (b *builder) find(l Layer, name string) (Port, bool) {
	if real, ok := b.alias[name]; ok {
		name = real
	}
	p, ok := b.values[name]
	if !ok {
		b.fault("layer %s (%s): unknown input %q", l.Name, l.Kind, name)
	}
	b.used[name] = true
	return p, ok
}

// step reads one layer that is computed.
func (b *builder) step(l Layer) bool {
	k, ok := b.kinds[l.Kind]
	if !ok {
		b.fault("layer %s: unknown kind %q, want one of %s", l.Name, l.Kind, strings.Join(append(slices.Sorted(maps.Keys(b.kinds)), slices.Sorted(maps.Keys(composites()))...), ", "))
		return false
	}
	if !b.permitted(l, k.parameters, k.least, k.most) {
		return false
	}
	s := Step{Layer: l, ordinal: b.layer}
	s.Inputs = slices.Clone(l.Inputs)
	for i, name := range append(slices.Clone(l.Inputs), l.Memory, l.Residual) {
		if name == "" && i >= len(l.Inputs) {
			continue
		}
		p, ok := b.find(l, name)
		if !ok {
			return false
		}
		s.Takes = append(s.Takes, p)
	}
	if err := k.infer(b, &s); err != nil {
		b.fault("layer %s (%s): %w", l.Name, l.Kind, err)
		return false
	}
	if o := s.Gives; o.Rows > maxExtent || o.Cols > maxExtent || o.Rows*o.Cols > maxElements {
		b.fault("layer %s (%s): output [%d, %d] is too large", l.Name, l.Kind, o.Rows, o.Cols)
		return false
	}
	if b.weights > maxWeights {
		b.fault("layer %s (%s): network has more than %d weights", l.Name, l.Kind, maxWeights)
		return false
	}
	b.values[s.Name] = s.Gives
	b.steps = append(b.steps, s)
	return true
}

// finish resolves the outputs and reports unused values.
func (b *builder) finish(cfg Config) {
	if len(cfg.Outputs) == 0 {
		b.fault("missing outputs")
	}
	for i, name := range cfg.Outputs {
		real := name
		if a, ok := b.alias[name]; ok {
			real = a
		}
		b.outputs = append(b.outputs, real)
		b.used[real] = true
		if !slices.ContainsFunc(b.steps, func(s Step) bool { return s.Name == real }) || slices.Contains(b.outputs[:i], real) {
			b.fault("output %q: unknown layer or duplicate", name)
		}
	}
	for _, s := range b.steps {
		if !b.used[s.Name] {
			b.fault("layer %s (%s): unused output", s.Name, s.Kind)
		}
	}
	for _, p := range cfg.Inputs {
		if !b.used[p.Name] {
			b.fault("input %s: unused", p.Name)
		}
	}
}

// matrix adds the weight of a product, [out, in].
func (b *builder) matrix(name string, layer, in, out int, at start) {
	b.tensor(nn.Spec{Name: name + ".weight", Layer: layer, Shape: []int{out, in}}, at)
}

// vector adds weights that are applied element by element.
func (b *builder) vector(name string, at start, shape ...int) {
	b.tensor(nn.Spec{Name: name, Layer: -1, Vector: true, Shape: shape}, at)
}

func (b *builder) bias(name string, n int, none bool) {
	if !none {
		b.vector(name+".bias", constant(0), n)
	}
}

func (b *builder) tensor(s nn.Spec, at start) {
	if b.names[s.Name] {
		b.fault("layer %s: duplicate tensor %s", strings.TrimSuffix(s.Name, ".weight"), s.Name)
	}
	b.names[s.Name] = true
	b.specs, b.starts = append(b.specs, s), append(b.starts, at)
	n := 1
	for _, d := range s.Shape {
		n *= min(d, maxWeights) // at most 2²⁸ each and two of them
	}
	b.weights = min(b.weights, maxWeights) + n
}

// block returns the number of a hidden layer, for optimizers that distinguish
// layers.
func (s *Step) block() int { return s.ordinal }
