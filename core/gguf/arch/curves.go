package arch

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/gguf"
)

// Curves holds the numbers of [XIELU] of each layer, as they are learned: α of the
// parabola and of the exponential are softplus of Above and Below, plus Slope below.
type Curves struct{ Above, Below, Slope, Least []float32 }

// fields returns the lists with their keys.
func (c *Curves) fields() []struct {
	key  string
	list *[]float32
} {
	return []struct {
		key  string
		list *[]float32
	}{{"xielu.alpha_p", &c.Above}, {"xielu.alpha_n", &c.Below}, {"xielu.beta", &c.Slope}, {"xielu.eps", &c.Least}}
}

// checkCurves validates the numbers of the activation.
func (s Shape) checkCurves() error {
	if curved := s.activation() == XIELU; curved != (s.Curves != nil) {
		return fmt.Errorf("activation %s: presence of its numbers is %v", s.activation(), !curved)
	}
	if s.Curves == nil {
		return nil
	}
	for _, f := range s.Curves.fields() {
		if len(*f.list) != s.Layers {
			return fmt.Errorf("%s: got %d numbers, want one for each of %d layers", f.key, len(*f.list), s.Layers)
		}
		for i, v := range *f.list {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("%s: bad number %v of layer %d", f.key, v, i)
			}
		}
	}
	return nil
}

// curves reads the numbers of the activation.
func (r *reader) curves(s *Shape) {
	if s.activation() != XIELU || r.err != nil {
		return
	}
	s.Curves = &Curves{}
	for _, f := range s.Curves.fields() {
		list, err := gguf.Get[[]float32](r.f, f.key)
		if err != nil {
			r.fail(err)
		}
		*f.list = append([]float32(nil), list...)
	}
}

// curves writes the same keys, which have no prefix.
func (w *writer) curves(c *Curves) {
	for _, f := range c.fields() {
		w.kvs = append(w.kvs, gguf.KV{Key: f.key, Value: *f.list})
	}
}
