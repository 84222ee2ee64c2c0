package net

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/train/nn"
)

// kind describes a kind of layer: its number of inputs, its parameters, and
// infer, which checks them, sets the output shape and adds the weights.
type kind struct {
	least, most int // inputs
	parameters  []string
	infer       func(b *builder, s *Step) error
}

// kinds returns the table of computed layers. Composites expand to these.
func kinds() map[string]kind {
	same := func(b *builder, s *Step) error { s.gives(s.Takes[0].Rows, s.Takes[0].Cols); return nil }
	window := []string{"out", "kernel", "stride", "pad", "groups", "height", "no_bias"}
	enlarge := []string{"out", "kernel", "stride", "pad", "height", "no_bias"}
	table := map[string]kind{
		"linear":           {1, 1, []string{"out", "no_bias", "zero", "residual"}, inferLinear},
		"mlp":              {1, 1, []string{"hidden", "activation", "out", "no_bias", "residual"}, inferMLP},
		"attention":        {1, 1, []string{"heads", "no_bias", "residual"}, inferAttention},
		"cross_attention":  {1, 1, []string{"heads", "no_bias", "memory", "residual"}, inferAttention},
		"layer_norm":       {1, 1, []string{"eps", "no_affine"}, inferNorm},
		"rms_norm":         {1, 1, []string{"eps"}, inferNorm},
		"modulate":         {2, 2, []string{"from"}, inferModulate},
		"gate":             {3, 3, []string{"from"}, inferGate},
		"conv1d":           {1, 1, without(window, "height"), inferConv},
		"conv2d":           {1, 1, window, inferConv},
		"conv1d_transpose": {1, 1, without(enlarge, "height"), inferTransposed},
		"conv2d_transpose": {1, 1, enlarge, inferTransposed},
		"position":         {1, 1, nil, inferPosition},
		"queries":          {1, 1, []string{"count", "out"}, inferQueries},
		"embedding":        {1, 1, []string{"count", "out"}, inferEmbedding},
		"time":             {1, 1, []string{"out", "period", "scale"}, inferTime},
		"scale":            {1, 1, []string{"scale", "offset"}, inferScale},
		"mean":             {1, 1, []string{"factor", "every"}, inferMean},
		"upsample1d":       {1, 1, []string{"factor"}, inferUpsample},
		"upsample2d":       {1, 1, []string{"factor", "height"}, inferUpsample},
		"pixel_shuffle":    {1, 1, []string{"factor", "height"}, inferShuffle},
		"add":              {2, 16, nil, inferAdd},
		"multiply":         {2, 2, nil, inferAdd},
		"concat":           {2, 16, []string{"axis"}, inferConcat},
		"slice":            {1, 1, []string{"axis", "from", "to"}, inferSlice},
		"reshape":          {1, 1, []string{"rows", "cols", "height"}, inferReshape},
	}
	for _, a := range nn.Activations() {
		table[string(a)] = kind{1, 1, nil, same}
	}
	return table
}

func without(list []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == name })
}

// gives sets the output shape. An image of as many pixels keeps its height.
func (s *Step) gives(rows, cols int) {
	s.Gives = Port{Name: s.Name, Rows: rows, Cols: cols}
	if len(s.Takes) > 0 && s.Takes[0].Rows == rows {
		s.Gives.Height = s.Takes[0].Height
	}
}

// positive checks that n is at least one.
func positive(name string, n int) error {
	if n < 1 {
		return fmt.Errorf("%s is %d, want at least 1", name, n)
	}
	return nil
}

func inferLinear(b *builder, s *Step) error {
	if err := positive("out", s.Layer.Out); err != nil {
		return err
	}
	in, out := s.Takes[0].Cols, s.Layer.Out
	s.gives(s.Takes[0].Rows, out)
	at := glorot(in, out)
	if s.Zero {
		at = start{}
	}
	b.matrix(s.Name, s.block(), in, out, at)
	b.bias(s.Name, out, s.NoBias)
	return s.same("residual")
}

func inferMLP(b *builder, s *Step) error {
	in := s.Takes[0].Cols
	if s.Layer.Out == 0 {
		s.Layer.Out = in
	}
	if s.Hidden == 0 {
		s.Hidden = 4 * in
	}
	if s.Activation == "" {
		s.Activation = nn.GELU
	}
	if !slices.Contains(nn.Activations(), s.Activation) {
		return fmt.Errorf("unknown activation %q, want one of %v", s.Activation, nn.Activations())
	}
	s.gives(s.Takes[0].Rows, s.Layer.Out)
	b.matrix(s.Name+".up", s.block(), in, s.Hidden, glorot(in, s.Hidden))
	b.bias(s.Name+".up", s.Hidden, s.NoBias)
	b.matrix(s.Name+".down", s.block(), s.Hidden, s.Layer.Out, s.residual(s.Hidden, s.Layer.Out))
	b.bias(s.Name+".down", s.Layer.Out, s.NoBias)
	return s.same("residual")
}

// residual returns the start of the matrix before a residual sum: zero.
func (s *Step) residual(in, out int) start {
	if s.Residual != "" {
		return start{}
	}
	return glorot(in, out)
}

// same checks that the last input, if it has this role, has the output shape.
func (s *Step) same(role string) error {
	if s.Residual == "" {
		return nil
	}
	if r := s.Takes[len(s.Takes)-1]; r.Rows != s.Gives.Rows || r.Cols != s.Gives.Cols {
		return fmt.Errorf("%s %s: shape mismatch: got [%d, %d], want [%d, %d]", role, r.Name, r.Rows, r.Cols, s.Gives.Rows, s.Gives.Cols)
	}
	return nil
}

func inferAttention(b *builder, s *Step) error {
	C := s.Takes[0].Cols
	if err := positive("heads", s.Heads); err != nil {
		return err
	}
	if C%s.Heads != 0 {
		return fmt.Errorf("%d channels are not a multiple of %d heads", C, s.Heads)
	}
	s.gives(s.Takes[0].Rows, C)
	if s.Kind == "attention" {
		b.matrix(s.Name+".qkv", s.block(), C, 3*C, glorot(C, C))
		b.bias(s.Name+".qkv", 3*C, s.NoBias)
	} else {
		if s.Memory == "" {
			return fmt.Errorf("missing memory")
		}
		in := s.Takes[1].Cols
		b.matrix(s.Name+".q", s.block(), C, C, glorot(C, C))
		b.bias(s.Name+".q", C, s.NoBias)
		b.matrix(s.Name+".kv", s.block(), in, 2*C, glorot(in, C))
		b.bias(s.Name+".kv", 2*C, s.NoBias)
	}
	b.matrix(s.Name+".out", s.block(), C, C, s.residual(C, C))
	b.bias(s.Name+".out", C, s.NoBias)
	return s.same("residual")
}

func inferNorm(b *builder, s *Step) error {
	if s.Eps == 0 {
		s.Eps = 1e-5
	}
	if !(s.Eps > 0) || s.Eps >= 1 {
		return fmt.Errorf("eps out of range: got %v, want 0 < eps < 1", s.Eps)
	}
	s.gives(s.Takes[0].Rows, s.Takes[0].Cols)
	if s.NoAffine {
		return nil
	}
	b.vector(s.Name+".gain", constant(1), s.Takes[0].Cols)
	if s.Kind == "layer_norm" {
		b.vector(s.Name+".bias", constant(0), s.Takes[0].Cols)
	}
	return nil
}

// row checks that input i has one row or as many as the output, and at least
// the channels [From, From+n).
func (s *Step) row(i, n int) error {
	m := s.Takes[i]
	if m.Rows != 1 && m.Rows != s.Takes[0].Rows {
		return fmt.Errorf("%s has %d rows, want 1 or %d", m.Name, m.Rows, s.Takes[0].Rows)
	}
	if s.From < 0 || s.From > m.Cols-n {
		return fmt.Errorf("%s has %d channels, want those from %d to %d", m.Name, m.Cols, s.From, s.From+n)
	}
	return nil
}

func inferModulate(b *builder, s *Step) error {
	s.gives(s.Takes[0].Rows, s.Takes[0].Cols)
	return s.row(1, 2*s.Takes[0].Cols)
}

func inferGate(b *builder, s *Step) error {
	s.gives(s.Takes[0].Rows, s.Takes[0].Cols)
	if x, y := s.Takes[0], s.Takes[1]; x.Rows != y.Rows || x.Cols != y.Cols {
		return fmt.Errorf("shape mismatch: %s [%d, %d], %s [%d, %d]", x.Name, x.Rows, x.Cols, y.Name, y.Rows, y.Cols)
	}
	return s.row(2, s.Takes[0].Cols)
}

func inferPosition(b *builder, s *Step) error {
	s.gives(s.Takes[0].Rows, s.Takes[0].Cols)
	b.vector(s.Name+".weight", start{std: 0.02}, s.Gives.Rows, s.Gives.Cols)
	return nil
}

func inferQueries(b *builder, s *Step) error {
	if s.Layer.Out == 0 {
		s.Layer.Out = s.Takes[0].Cols
	}
	if err := positive("count", s.Count); err != nil {
		return err
	}
	s.gives(s.Count, s.Layer.Out)
	s.Gives.Height = 0
	b.vector(s.Name+".weight", start{std: 1 / math.Sqrt(float64(s.Layer.Out))}, s.Count, s.Layer.Out)
	return nil
}

func inferEmbedding(b *builder, s *Step) error {
	if s.Takes[0].Cols != 1 {
		return fmt.Errorf("%s has %d channels, want one id per row", s.Takes[0].Name, s.Takes[0].Cols)
	}
	if s.Count < 1 || s.Count > 1<<20 || s.Layer.Out < 1 {
		return fmt.Errorf("count %d and out %d must be positive", s.Count, s.Layer.Out)
	}
	s.gives(s.Takes[0].Rows, s.Layer.Out)
	b.matrix(s.Name, -1, s.Layer.Out, s.Count, start{std: 1 / math.Sqrt(float64(s.Layer.Out))})
	return nil
}

func inferTime(b *builder, s *Step) error {
	if s.Period == 0 {
		s.Period = 10000
	}
	if s.Scale == 0 {
		s.Scale = 1000
	}
	if s.Takes[0].Cols != 1 || s.Layer.Out < 2 || s.Layer.Out%2 != 0 || !(s.Period > 1) {
		return fmt.Errorf("%d input channels, out %d, period %v: want one channel, an even out and a period above 1", s.Takes[0].Cols, s.Layer.Out, s.Period)
	}
	s.gives(s.Takes[0].Rows, s.Layer.Out)
	return nil
}

func inferScale(b *builder, s *Step) error {
	if s.Scale == 0 {
		s.Scale = 1
	}
	s.gives(s.Takes[0].Rows, s.Takes[0].Cols)
	return nil
}
