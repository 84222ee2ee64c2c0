package train

import (
	"fmt"
	"path"
	"strings"

	"mm-abi.org/mm/train/llm"
)

// frozen reports whether a tensor is frozen.
func (f Freeze) frozen(t *llm.Tensor[float32], layers map[int]bool, last int) bool {
	if f.Policy == "boundary" {
		return t.Layer != 0 && t.Layer != last && t.Name != "output.weight"
	}
	switch {
	case f.Embeddings && strings.HasPrefix(t.Name, "token_embd"),
		f.Head && t.Name == "output.weight",
		f.Norms && (strings.Contains(t.Name, "norm") || strings.HasSuffix(t.Name, ".time_mix_ln.weight")),
		t.Layer >= 0 && layers[t.Layer]:
		return true
	}
	for _, p := range f.Tensors {
		if ok, _ := path.Match(p, t.Name); ok {
			return true
		}
	}
	return false
}

// apply freezes the model's tensors and returns the model to train, which is a
// copy if a tied head had to be untied.
func (f Freeze) apply(m *llm.Model[float32]) (*llm.Model[float32], error) {
	if f.none() {
		return m, nil
	}
	if f.Policy == "boundary" || f.Embeddings != f.Head {
		var err error
		if m, err = m.Untie(); err != nil {
			return nil, err
		}
	}
	layers, err := parseLayers(f.Layers, m.Config.Layers)
	if err != nil {
		return nil, err
	}
	for _, p := range f.Tensors {
		hit := false
		for _, t := range m.Tensors() {
			ok, _ := path.Match(p, t.Name)
			hit = hit || ok
		}
		if !hit {
			return nil, At("/freeze/tensors", fmt.Errorf("freeze: no tensor matches %q", p))
		}
	}
	names := map[string]bool{}
	for _, t := range m.Tensors() {
		names[t.Name] = f.frozen(t, layers, m.Config.Layers-1)
	}
	m.Freeze(func(name string) bool { return names[name] })
	return m, nil
}
