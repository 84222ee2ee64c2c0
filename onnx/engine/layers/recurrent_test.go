package layers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

// slowCell computes a recurrent operator by its definition in float64, for one
// sequence in one direction.
type slowCell struct {
	name            string
	in, size, gates int
	linear          bool
	w, r, b, p      []float32
}

func (k *slowCell) sum(row int, x []float32, h []float64, state bool) float64 {
	s := float64(k.b[row])
	for i, v := range x {
		s += float64(k.w[row*k.in+i]) * float64(v)
	}
	if state {
		s += k.state(row, h)
	}
	return s
}

func (k *slowCell) state(row int, h []float64) float64 {
	s := float64(k.b[k.gates*k.size+row])
	for i, v := range h {
		s += float64(k.r[row*k.size+i]) * v
	}
	return s
}

func (k *slowCell) step(x []float32, h, c []float64) (nh, nc []float64) {
	n := k.size
	nh, nc = make([]float64, n), make([]float64, n)
	for j := range n {
		switch k.name {
		case "LSTM":
			in, out, forget := k.sum(j, x, h, true), k.sum(n+j, x, h, true), k.sum(2*n+j, x, h, true)
			if k.p != nil {
				in += float64(k.p[j]) * c[j]
				forget += float64(k.p[2*n+j]) * c[j]
			}
			nc[j] = logistic(forget)*c[j] + logistic(in)*math.Tanh(k.sum(3*n+j, x, h, true))
			if k.p != nil {
				out += float64(k.p[n+j]) * nc[j]
			}
			nh[j] = logistic(out) * math.Tanh(nc[j])
		case "GRU":
			z := logistic(k.sum(j, x, h, true))
			var hidden float64
			if k.linear {
				hidden = k.sum(2*n+j, x, nil, false) + logistic(k.sum(n+j, x, h, true))*k.state(2*n+j, h)
			} else {
				reset := make([]float64, n)
				for i := range reset {
					reset[i] = logistic(k.sum(n+i, x, h, true)) * h[i]
				}
				hidden = k.sum(2*n+j, x, nil, false) + k.state(2*n+j, reset)
			}
			nh[j] = (1-z)*math.Tanh(hidden) + z*h[j]
		default:
			nh[j] = math.Tanh(k.sum(j, x, h, true))
		}
	}
	return nh, nc
}

func TestRecurrent(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, name := range []string{"LSTM", "GRU", "RNN"} {
		gates := map[string]int{"LSTM": 4, "GRU": 3, "RNN": 1}[name]
		for _, s := range []struct{ steps, batch, in, size int }{{1, 1, 1, 1}, {3, 2, 5, 7}, {70, 1, 9, 16}, {33, 3, 4, 12}} {
			for _, direction := range []string{"forward", "reverse", "bidirectional"} {
				for _, variant := range []bool{false, true} { // peepholes of LSTM, a linear reset of GRU
					dirs := 1
					if direction == "bidirectional" {
						dirs = 2
					}
					g := gates * s.size
					small := func(shape ...int) *kernel.Array {
						a := onnxtest.Gauss(r, shape...)
						for i := range kernel.Elements[float32](a) {
							kernel.Elements[float32](a)[i] *= 0.3
						}
						return a
					}
					x, w, rec, b := onnxtest.Gauss(r, s.steps, s.batch, s.in), small(dirs, g, s.in), small(dirs, g, s.size), small(dirs, 2*g)
					in := []*kernel.Array{x, w, rec, b, nil, small(dirs, s.batch, s.size)}
					outs, attributes := 2, []onnx.Attribute{{Name: "direction", Type: onnx.AttrString, String: []byte(direction)}}
					var peep *kernel.Array
					if name == "LSTM" {
						in, outs = append(in, small(dirs, s.batch, s.size)), 3
						if variant {
							peep = small(dirs, 3*s.size)
							in = append(in, peep)
						}
					}
					if name == "GRU" && variant {
						attributes = append(attributes, onnx.Int("linear_before_reset", 1))
					}
					want := make([]float64, s.steps*dirs*s.batch*s.size)
					for d := range dirs {
						k := slowCell{name: name, in: s.in, size: s.size, gates: gates, linear: variant,
							w: kernel.Elements[float32](w)[d*g*s.in:], r: kernel.Elements[float32](rec)[d*g*s.size:], b: kernel.Elements[float32](b)[d*2*g:]}
						if peep != nil {
							k.p = kernel.Elements[float32](peep)[d*3*s.size:]
						}
						for n := range s.batch {
							h, c := make([]float64, s.size), make([]float64, s.size)
							for j := range h {
								h[j] = float64(kernel.Elements[float32](in[5])[(d*s.batch+n)*s.size+j])
								if name == "LSTM" {
									c[j] = float64(kernel.Elements[float32](in[6])[(d*s.batch+n)*s.size+j])
								}
							}
							for i := range s.steps {
								at := i
								if d == 1 || direction == "reverse" {
									at = s.steps - 1 - i
								}
								h, c = k.step(kernel.Elements[float32](x)[(at*s.batch+n)*s.in:][:s.in], h, c)
								copy(want[((at*dirs+d)*s.batch+n)*s.size:], h)
							}
						}
					}
					for _, prepare := range []bool{false, true} {
						title := fmt.Sprint(name, s, direction, variant, prepare)
						tr := onnxtest.Trial{Node: onnxtest.Node(name, attributes...), In: in, Fixed: []bool{false, prepare, prepare}, Outs: outs, Prepare: prepare}
						onnxtest.Approx(t, title, tr.Same(t, title)[0], []int{s.steps, dirs, s.batch, s.size}, want, 1e-5)
					}
				}
			}
		}
	}
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
