package net

import (
	"fmt"
	"slices"
)

// Keep returns the part of cfg that the named outputs depend on. Layers keep
// their names, and so do their tensors. An unknown name is kept, and New
// reports it.
func (cfg Config) Keep(outputs ...string) Config {
	layers := slices.Clone(cfg.Layers)
	before := ""
	if len(cfg.Inputs) > 0 {
		before = cfg.Inputs[0].Name
	}
	for i := range layers {
		l := &layers[i]
		if l.Name == "" {
			l.Name = fmt.Sprintf("%s%d", l.Kind, i)
		}
		if len(l.Inputs) == 0 && before != "" {
			l.Inputs = []string{before}
		}
		before = l.Name
	}
	needed := map[string]bool{}
	for _, o := range outputs {
		needed[o] = true
	}
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		if !needed[l.Name] {
			continue
		}
		for _, from := range append(slices.Clone(l.Inputs), l.Memory, l.Condition, l.Residual) {
			needed[from] = true
		}
	}
	layers = slices.DeleteFunc(layers, func(l Layer) bool { return !needed[l.Name] })
	inputs := slices.DeleteFunc(slices.Clone(cfg.Inputs), func(p Port) bool { return !needed[p.Name] })
	return Config{Inputs: inputs, Layers: layers, Outputs: slices.Clone(outputs)}
}
