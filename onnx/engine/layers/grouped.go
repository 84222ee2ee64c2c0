package layers

import (
	"fmt"
	"math"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// groupQuery computes GroupQueryAttention: causal attention in which several
// heads of queries share a head of keys, with a cache that is right-padded.
func groupQuery(c *kernel.Call) error {
	g, err := groupsOf(c)
	if err != nil {
		return err
	}
	defer g.release()
	if g.rotation != nil {
		for _, x := range []*kernel.Array{g.q, g.new[0]} {
			if err := g.rotateHeads(x); err != nil {
				return err
			}
		}
	}
	for i := range g.present {
		if g.present[i], err = g.cache(i); err != nil {
			return err
		}
	}
	a := &heads{q: g.q, k: g.present[0], v: g.present[1], scale: c.Float("scale", 0), softcap: c.Float("softcap", 0)}
	if err := a.measure(); err != nil {
		return err
	}
	if err := g.mask(a); err != nil {
		return err
	}
	if err := g.sinks(a); err != nil {
		return err
	}
	out, err := a.attend(c)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	if c.Out[0], err = joined(c, out); err != nil {
		return err
	}
	for i, x := range g.present {
		if len(c.Out) > 1+i {
			c.Out[1+i] = x.View(x.Shape)
		}
	}
	return nil
}

// grouped is one application of GroupQueryAttention.
type grouped struct {
	*kernel.Call
	q        *kernel.Array
	new      [2]*kernel.Array // keys and values, [batch, heads, positions, size]
	present  [2]*kernel.Array
	lens     []int // positions of each batch, with the new ones
	total    int
	prompt   bool // without a past
	rotation *rotation
	places   []int // positions of the new ones; nil: after the past
}

func (g *grouped) release() {
	for _, a := range []*kernel.Array{g.q, g.new[0], g.new[1], g.present[0], g.present[1]} {
		g.Arena.Release(a)
	}
}

func groupsOf(c *kernel.Call) (*grouped, error) {
	if _, err := c.Floats(0, 1, 2, 3, 4, 10, 11); err != nil {
		return nil, err
	}
	if c.Input(12) != nil || c.Input(13) != nil || c.Int("kv_cache_bit_width", 0) != 0 {
		return nil, fmt.Errorf("quantized caches are not supported")
	}
	g := &grouped{Call: c}
	n, kv := c.Int("num_heads", 0), c.Int("kv_num_heads", 0)
	if n < 1 || kv < 1 || n > 1<<20 || kv > 1<<20 || n%kv != 0 {
		return nil, fmt.Errorf("bad number of heads: %d and %d", n, kv)
	}
	if err := g.parts(n, kv); err != nil {
		g.release()
		return nil, err
	}
	if err := g.lengths(); err != nil {
		g.release()
		return nil, err
	}
	if c.Int("do_rotary", 0) != 0 {
		r, err := rotationOf(c, 7, 8, 0, g.q.Shape[3], c.Int("rotary_interleaved", 0) != 0)
		if err != nil {
			g.release()
			return nil, err
		}
		g.rotation = r
	}
	return g, nil
}

// parts sets queries, keys and values; they may be packed into one array.
func (g *grouped) parts(n, kv int) (err error) {
	x, k, v := g.In[0], g.Input(1), g.Input(2)
	if x == nil || x.Rank() != 3 {
		return fmt.Errorf("queries do not have three dimensions")
	}
	if k == nil && v == nil {
		if x.Shape[2]%(n+2*kv) != 0 {
			return fmt.Errorf("shape mismatch: %v in %d heads", x.Shape, n+2*kv)
		}
		all, err := split(g.Call, x, n+2*kv)
		if err != nil {
			return err
		}
		defer g.Arena.Release(all)
		for i, to := range []**kernel.Array{&g.q, &g.new[0], &g.new[1]} {
			first, count := []int{0, n, n + kv}[i], kv
			if i == 0 {
				count = n
			}
			s := all.Shape
			if *to, err = g.Arena.New(onnx.FLOAT, s[0], count, s[2], s[3]); err != nil {
				return err
			}
			g.Strided(*to, all, (*to).Shape, first*s[2]*s[3], kernel.Strides(s))
		}
		return nil
	}
	if k == nil || v == nil || k.Rank() != 3 || v.Rank() != 3 || fmt.Sprint(k.Shape) != fmt.Sprint(v.Shape) || k.Shape[0] != x.Shape[0] || k.Shape[1] != x.Shape[1] {
		return fmt.Errorf("missing or unequal keys and values")
	}
	if g.q, err = split(g.Call, x, n); err != nil {
		return err
	}
	for i, a := range []*kernel.Array{k, v} {
		if g.new[i], err = split(g.Call, a, kv); err != nil {
			return err
		}
	}
	if g.q.Shape[3] != g.new[0].Shape[3] {
		return fmt.Errorf("shape mismatch: heads of %d and %d numbers", g.q.Shape[3], g.new[0].Shape[3])
	}
	return nil
}

// lengths reads the number of positions of each batch.
func (g *grouped) lengths() error {
	lens, err := g.Integers(5)
	if err != nil {
		return err
	}
	total, err := g.Integers(6)
	if err != nil {
		return err
	}
	batch, positions := g.q.Shape[0], g.q.Shape[2]
	if len(total) != 1 || len(lens) != batch || total[0] < positions || total[0] > math.MaxInt32/2 {
		return fmt.Errorf("got %d lengths of %d batches and a total of %v for %d positions", len(lens), batch, total, positions)
	}
	g.total, g.prompt = total[0], total[0] == positions
	for _, n := range lens {
		if n++; n < 1 || n > g.total || !g.prompt && n < positions {
			return fmt.Errorf("length %d out of range, want %d to %d", n, positions, g.total)
		}
		g.lens = append(g.lens, n)
	}
	if g.places, err = g.Integers(9); err != nil || g.places != nil && len(g.places) != batch*positions {
		return fmt.Errorf("got %d positions, want %d: %v", len(g.places), batch*positions, err)
	}
	return nil
}

// past returns the number of positions before the new ones.
func (g *grouped) past(b int) int {
	if g.prompt {
		return 0
	}
	return g.lens[b] - g.q.Shape[2]
}

// rotateHeads rotates the heads of [batch, heads, positions, size] in place.
func (g *grouped) rotateHeads(x *kernel.Array) error {
	s, data := x.Shape, kernel.Elements[float32](x)
	for b := range s[0] {
		for p := range s[2] {
			at := g.past(b) + p
			if g.places != nil {
				if at = g.places[b*s[2]+p]; g.prompt { // defined to read the first only
					at = g.places[0] + p
				}
			}
			if at < 0 || at >= g.rotation.rows {
				return fmt.Errorf("position %d out of range, want 0 to %d", at, g.rotation.rows-1)
			}
			for h := range s[1] {
				i := ((b*s[1]+h)*s[2] + p) * s[3]
				g.rotation.turn(data[i:i+s[3]], at)
			}
		}
	}
	return nil
}

// cache returns the past keys (0) or values (1) of each batch followed by the
// new ones, and zeros.
func (g *grouped) cache(i int) (*kernel.Array, error) {
	past, s := g.Input(3+i), g.new[i].Shape
	room := g.total
	if past != nil {
		if p := past.Shape; len(p) != 4 || p[0] != s[0] || p[1] != s[1] || p[3] != s[3] {
			return nil, fmt.Errorf("shape mismatch: past %v before %v", past.Shape, s)
		}
		room = max(room, past.Shape[2])
	}
	out, err := g.Arena.Zeros(onnx.FLOAT, s[0], s[1], room, s[3])
	if err != nil || out.Len() == 0 {
		return out, err
	}
	o, x := kernel.Elements[float32](out), kernel.Elements[float32](g.new[i])
	for r := range s[0] * s[1] {
		n := g.past(r / s[1])
		if n > 0 {
			if past == nil || n > past.Shape[2] {
				return nil, fmt.Errorf("%d past positions are missing", n)
			}
			copy(o[r*room*s[3]:][:n*s[3]], kernel.Elements[float32](past)[r*past.Shape[2]*s[3]:])
		}
		copy(o[(r*room+n)*s[3]:][:s[2]*s[3]], x[r*s[2]*s[3]:])
	}
	return out, nil
}

// mask limits each row to the positions up to its own, and within a window.
func (g *grouped) mask(a *heads) error {
	window, inf := g.Int("local_window_size", -1), float32(math.Inf(-1))
	var bias func(b, h, s int, row []float32)
	if m := g.Input(10); m != nil {
		var err error
		if bias, err = a.added(m); err != nil {
			return err
		}
	}
	a.row = func(b, h, s int, row []float32) {
		end := min(g.past(b)+s+1, g.lens[b]) // rows of padding see every position
		if bias != nil {
			bias(b, h, s, row)
		}
		for j := range row {
			if j >= end || window > 0 && j < end-window {
				row[j] = inf
			}
		}
	}
	return nil
}

// sinks adds a term to the sum of the softmax: one of each head, or one of the
// score zero.
func (g *grouped) sinks(a *heads) error {
	list := g.Input(11)
	switch {
	case list != nil:
		if err := g.Lengths(a.heads, 11); err != nil {
			return err
		}
		terms := kernel.Elements[float32](list)
		a.soften = func(h int, row []float32) { soften(row, terms[h], true) }
	case g.Int("smooth_softmax", 0) > 0:
		a.soften = func(_ int, row []float32) { soften(row, 0, true) }
	}
	return nil
}
