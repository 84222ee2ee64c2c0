package tower

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// Names of dimensions of models for pictures of any size.
const (
	heightDim  = "height"
	widthDim   = "width"
	patchesDim = "patches"
	vectorsDim = "vectors"
)

// gridWriter writes a tower for pictures of any size. Its values are of this
// picture: rows and columns of patches, in the order of the features.
type gridWriter struct {
	*writer
	rows, columns string // R, S: numbers of one element
	mask          string // 1×1×P×P, 0 within a window and -Inf elsewhere; "" without
}

func newGridWriter(c Config, t Weights, name string) *gridWriter {
	w := &gridWriter{writer: newWriter(c, t, name)}
	w.names.embed = w.tower + c.names.embed
	if c.grid.qkv {
		w.names.projector = w.tower + c.names.projector
	}
	return w
}

// gridEncoder writes the tower. Features are those of the last layer and, if it
// has deep layers, of these, next to each other: 1×P×(1+K)·C.
func (c Config) gridEncoder(t Weights) (m *onnx.Model, err error) {
	w := newGridWriter(c, t, "encoder")
	defer w.halted(&m, &err)
	g := w.g
	wide := (1 + len(c.grid.deep)) * c.Width
	g.Inputs = []onnx.Value{onnx.TensorValue(Pixels, onnx.FLOAT, 1, 3, heightDim, widthDim)}
	g.Outputs = []onnx.Value{onnx.TensorValue(Features, onnx.FLOAT, 1, patchesDim, wide)}
	x := w.patches(Pixels) // 1×P×C
	w.rotation()
	w.windows()
	var deep []string
	for i := range c.Layers {
		x = w.layer(i, x, w.masked(i))
		for _, at := range c.grid.deep {
			if at == i {
				deep = append(deep, x)
			}
		}
	}
	if len(deep) > 0 {
		x = g.Add("Concat", append([]string{x}, deep...), "features", onnx.Int("axis", -1))
	}
	if c.grid.one {
		x = w.cropped(x)
	}
	g.Add("Identity", []string{x}, Features)
	return w.m, w.err
}

// cropped drops the last row and the last column of features outside of whole blocks,
// and orders the others by blocks.
func (w *gridWriter) cropped(x string) string {
	c, g := w.c, w.g
	dims := g.Add("Concat", []string{w.rows, w.columns, w.ints("wide", c.Width)}, "features.dims", onnx.Int("axis", 0))
	x = g.Add("Reshape", []string{x, dims}, "features.grid")
	m := w.ints("merge", c.Shuffle)
	down, across := g.Add("Div", []string{w.rows, m}, "blocks.rows"), g.Add("Div", []string{w.columns, m}, "blocks.columns")
	for axis, n := range []string{down, across} {
		end := g.Add("Mul", []string{n, m}, fmt.Sprint("features.end.", axis))
		x = g.Add("Slice", []string{x, w.ints("0", 0), end, w.ints(fmt.Sprint("axis", axis), axis)}, fmt.Sprint("features.whole.", axis))
	}
	blocks := g.Add("Concat", []string{down, m, across, m, w.ints("wide", c.Width)}, "features.blocks", onnx.Int("axis", 0))
	x = g.Add("Transpose", []string{g.Add("Reshape", []string{x, blocks}, "features.split")}, "features.merged", onnx.IntList("perm", 0, 2, 1, 3, 4))
	return g.Add("Reshape", []string{x, w.ints("features.flat", 1, -1, c.Width)}, "features.ordered")
}

// patches writes the embedding of patches, with learnt positions if the tower has
// them.
func (w *gridWriter) patches(pixels string) string {
	c, g, n := w.c, w.g, w.names
	side := int64(c.Patch)
	conv := []string{pixels, w.floats("patch.weight", w.kernel(n.embed+n.patch+".weight"), c.Width, 3, c.Patch, c.Patch)}
	if w.t.has(n.embed + n.patch + ".bias") {
		conv = append(conv, w.constant(n.embed+n.patch+".bias", c.Width))
	}
	x := g.Add("Conv", conv, "patches", onnx.IntList("strides", side, side), onnx.IntList("kernel_shape", side, side))
	shape := g.Add("Shape", []string{x}, "patches.shape")
	w.rows = g.Add("Slice", []string{shape, w.ints("2", 2), w.ints("3", 3)}, "rows")
	w.columns = g.Add("Slice", []string{shape, w.ints("3", 3), w.ints("4", 4)}, "columns")
	x = g.Add("Transpose", []string{x}, "patches.last", onnx.IntList("perm", 0, 2, 3, 1))
	if c.grid.table > 0 {
		x = g.Add("Add", []string{x, w.learnt()}, "patches.placed")
	}
	x = w.ordered("patches.ordered", x, c.Width)
	if n.pre != "" {
		x = w.norm(n.pre, x, c.Width)
	}
	return x
}

// kernel returns the weights of a patch, summed over its equal frames.
func (w *gridWriter) kernel(name string) []float32 {
	c, n := w.c, w.c.Patch*w.c.Patch
	if c.grid.frames == 1 || len(w.t[name].Shape) == 4 {
		x := w.read(name, c.Width, 3, c.Patch, c.Patch)
		for f := 1; f < c.grid.frames; f++ { // stored apart
			for i, v := range w.read(fmt.Sprint(name, ".", f), c.Width, 3, c.Patch, c.Patch) {
				x[i] += v
			}
		}
		return x
	}
	x := w.read(name, c.Width, 3, c.grid.frames, c.Patch, c.Patch)
	out := make([]float32, 3*c.Width*n)
	for i := range 3 * c.Width {
		for f := range c.grid.frames {
			for j, v := range x[(i*c.grid.frames+f)*n:][:n] {
				out[i*n+j] += v
			}
		}
	}
	return out
}

// ordered turns R×S×K into 1×P×K, blocks of Shuffle×Shuffle patches one after the
// other.
func (w *gridWriter) ordered(name, x string, k int) string {
	g, s := w.g, w.c.Shuffle
	if s > 1 && !w.c.grid.one {
		m := w.ints("merge", s)
		down, across := g.Add("Div", []string{w.rows, m}, name+".rows"), g.Add("Div", []string{w.columns, m}, name+".columns")
		dims := g.Add("Concat", []string{down, m, across, m, w.ints(fmt.Sprint("wide.", k), k)}, name+".dims", onnx.Int("axis", 0))
		x = g.Add("Transpose", []string{g.Add("Reshape", []string{x, dims}, name+".split")}, name+".blocks", onnx.IntList("perm", 0, 2, 1, 3, 4))
	}
	return g.Add("Reshape", []string{x, w.ints(fmt.Sprint("flat.", k), 1, -1, k)}, name)
}

// counted returns 0, 1, … for the rows or the columns.
func (w *gridWriter) counted(name, n string) string {
	g := w.g
	end := g.Add("Squeeze", []string{n, w.ints("axis0", 0)}, name+".end")
	return g.Add("Range", []string{w.integer("zero", 0), end, w.integer("one", 1)}, name+".counted")
}

// integer writes an integer without dimensions, once.
func (w *gridWriter) integer(name string, v int64) string {
	name = "number." + name
	if !w.written[name] {
		w.written[name] = true
		w.g.Constant(onnx.Ints(name, nil, []int64{v}))
	}
	return name
}

// rotation writes cosines and sines of the angles of each patch: half of the pairs
// of a head rotate by its row, half by its column.
func (w *gridWriter) rotation() {
	c, g := w.c, w.g
	dim := c.Width / c.Heads
	quarter := dim / 4
	theta := func(axis int) []float32 {
		out := make([]float32, quarter)
		for i := range out {
			at := float64(2*i) / float64(dim/2)
			if c.grid.turns {
				at = float64(2*(2*i+axis)) / float64(dim)
			}
			out[i] = float32(1 / math.Pow(c.grid.base, at))
		}
		return out
	}
	dims := g.Add("Concat", []string{w.rows, w.columns, w.ints("quarter", quarter)}, "angles.dims", onnx.Int("axis", 0))
	angles := func(name, n string, axis int, at ...int) string {
		x := g.Add("Cast", []string{w.counted(name, n)}, name+".real", onnx.Int("to", int64(onnx.FLOAT)))
		x = g.Add("Reshape", []string{x, w.ints(name+".at", at...)}, name+".at")
		x = g.Add("Mul", []string{x, w.floats(name+".theta", theta(axis), quarter)}, name+".angles")
		return g.Add("Expand", []string{x, dims}, name+".spread")
	}
	x := g.Add("Concat", []string{angles("row", w.rows, 0, -1, 1, 1), angles("column", w.columns, 1, 1, -1, 1)}, "angles", onnx.Int("axis", -1))
	x = w.ordered("angles.ordered", x, dim/2)
	x = g.Add("Unsqueeze", []string{g.Add("Concat", []string{x, x}, "angles.twice", onnx.Int("axis", -1)), w.ints("axis2", 2)}, "angles.heads")
	w.cos, w.sin = g.Add("Cos", []string{x}, "cos"), g.Add("Sin", []string{x}, "sin")
}

// rotated rotates queries or keys, 1×P×H×D: pairs are D/2 apart.
func (w *writer) rotated(name, x string) string {
	g, half := w.g, w.c.Width/w.c.Heads/2
	part := func(name string, from, to int) string {
		return g.Add("Slice", []string{x, w.ints(fmt.Sprint("at.", from), from), w.ints(fmt.Sprint("at.", to), to), w.ints("axis3", 3)}, name)
	}
	first, second := part(name+".first", 0, half), part(name+".second", half, 2*half)
	turned := g.Add("Concat", []string{g.Add("Neg", []string{second}, name+".minus"), first}, name+".turned", onnx.Int("axis", -1))
	return g.Add("Add", []string{g.Add("Mul", []string{x, w.cos}, name+".cos"), g.Add("Mul", []string{turned, w.sin}, name+".sin")}, name+".rotated")
}

// windows writes the mask of attention within windows.
func (w *gridWriter) windows() {
	c, g := w.c, w.g
	if c.grid.window == 0 || len(c.grid.full) >= c.Layers {
		return
	}
	size := w.ints("window", c.grid.window)
	index := func(name, n string, at ...int) string {
		x := g.Add("Div", []string{w.counted(name, n), size}, name+".window")
		return g.Add("Reshape", []string{x, w.ints(name+".at", at...)}, name+".window.at")
	}
	down := g.Add("Mul", []string{index("window.row", w.rows, -1, 1, 1), w.ints("many", 1<<20)}, "window.row.wide")
	id := w.ordered("window.id", g.Add("Add", []string{down, index("window.column", w.columns, 1, -1, 1)}, "window.ids"), 1) // 1×P×1
	other := g.Add("Transpose", []string{id}, "window.other", onnx.IntList("perm", 0, 2, 1))
	same := g.Add("Unsqueeze", []string{g.Add("Equal", []string{id, other}, "window.same"), w.ints("axis0", 0)}, "window.same.heads")
	w.mask = g.Add("Where", []string{same, w.number("nothing", 0), w.number("never", math.Inf(-1))}, "window.mask")
}

// masked returns the mask of a layer.
func (w *gridWriter) masked(i int) string {
	if slices.Contains(w.c.grid.full, i) {
		return ""
	}
	return w.mask
}

// part writes queries (0), keys (1) or values (2), which may be of one matrix.
func (w *writer) part(at string, i int, name, x string) string {
	c := w.c
	if c.grid == nil || !c.grid.qkv {
		return w.linear(at+name, x, c.Width, c.Width)
	}
	if one := at + "attn." + "qkv"[i:i+1]; w.t.has(one + ".weight") {
		return w.linear(one, x, c.Width, c.Width)
	}
	all, bias := at+w.names.query, at+w.names.query+".bias"
	rows := w.read(all+".weight", 3*c.Width, c.Width)[i*c.Width*c.Width:][:c.Width*c.Width]
	here := fmt.Sprint(all, ".", i)
	y := w.g.Add("MatMul", []string{x, w.floats(here+".weight", transpose(rows, c.Width, c.Width), c.Width, c.Width)}, here+".product")
	return w.g.Add("Add", []string{y, w.floats(here+".bias", w.read(bias, 3*c.Width)[i*c.Width:][:c.Width], c.Width)}, here+".out")
}

// learnt writes the table of learnt positions, resampled to R×S×C: linearly, with
// equal corners.
func (w *gridWriter) learnt() string {
	c, g := w.c, w.g
	n := c.grid.table
	x := w.floats("table", w.read(w.tower+"pos_embed.weight", n*n, c.Width), n, n, c.Width)
	for axis, count := range []string{w.rows, w.columns} {
		name := fmt.Sprint("learnt.", axis)
		real := func(x, as string) string {
			return g.Add("Cast", []string{x}, as, onnx.Int("to", int64(onnx.FLOAT)))
		}
		// at = i·(n-1)/(count-1), or 0 for one.
		steps := g.Add("Max", []string{g.Add("Sub", []string{count, w.ints("1", 1)}, name+".less"), w.ints("1", 1)}, name+".steps")
		at := g.Add("Div", []string{g.Add("Mul", []string{real(w.counted(name, count), name+".i"), w.number("last", float64(n-1))}, name+".far"), real(steps, name+".steps.real")}, name+".at")
		floor := g.Add("Floor", []string{at}, name+".floor")
		low := g.Add("Cast", []string{floor}, name+".low", onnx.Int("to", int64(onnx.INT64)))
		high := g.Add("Min", []string{g.Add("Add", []string{low, w.ints("1", 1)}, name+".next"), w.ints("top", n-1)}, name+".high")
		dims := []int{-1, 1, 1}
		if axis == 1 {
			dims = []int{1, -1, 1}
		}
		share := g.Add("Reshape", []string{g.Add("Sub", []string{at, floor}, name+".share"), w.ints(name+".dims", dims...)}, name+".share.at")
		a := g.Add("Gather", []string{x, low}, name+".a", onnx.Int("axis", int64(axis)))
		b := g.Add("Gather", []string{x, high}, name+".b", onnx.Int("axis", int64(axis)))
		x = g.Add("Add", []string{a, g.Add("Mul", []string{g.Add("Sub", []string{b, a}, name+".slope"), share}, name+".part")}, name)
	}
	return x
}

// gridProjector writes the part that joins blocks of patches into vectors of the
// language model. Further ones follow the first: 1×N×(1+K)·W.
func (c Config) gridProjector(t Weights) (m *onnx.Model, err error) {
	w := newGridWriter(c, t, "projector")
	defer w.halted(&m, &err)
	g, k := w.g, len(c.grid.deep)
	g.Inputs = []onnx.Value{onnx.TensorValue(Features, onnx.FLOAT, 1, patchesDim, (1+k)*c.Width)}
	g.Outputs = []onnx.Value{onnx.TensorValue(Vectors, onnx.FLOAT, 1, vectorsDim, (1+k)*c.Into)}
	at := w.names.projector
	block := c.Width * c.Shuffle * c.Shuffle
	joined := func(x string) string {
		return g.Add("Reshape", []string{x, w.ints("joined", 1, -1, block)}, x+".joined")
	}
	var x string
	switch c.Family {
	case "qwen3_vl":
		parts := []string{Features}
		if k > 0 {
			parts = nil
			for i := range 1 + k {
				parts = append(parts, g.Add("Slice", []string{Features, w.ints(fmt.Sprint("at.", i), i*c.Width), w.ints(fmt.Sprint("at.", i+1), (i+1)*c.Width), w.ints("axis2", 2)}, fmt.Sprint("features.", i)))
			}
		}
		outs := []string{w.merged(at, joined(w.norm(at+"norm", parts[0], c.Width)), block)}
		for i, p := range parts[1:] {
			from := fmt.Sprintf("%sdeepstack_merger_list.%d.", w.tower, i)
			outs = append(outs, w.merged(from, w.norm(from+"norm", joined(p), block), block))
		}
		if x = outs[0]; k > 0 {
			x = g.Add("Concat", outs, "vectors", onnx.Int("axis", -1))
		}
	case "qwen2_vl", "qwen2_5_vl":
		x = joined(w.norm(at+"ln_q", Features, c.Width))
		x = w.activated(at+"act", w.linear(at+"mlp.0", x, block, block), "gelu")
		x = w.linear(at+"mlp.2", x, block, c.Into)
	case "mistral3", "lighton_ocr":
		w.c.Epsilon = c.normal
		x = joined(w.norm(at+"norm", Features, c.Width))
		x = w.product(at+"patch_merger.merging_layer", x, w.merging(at+"patch_merger.merging_layer.weight"), block, c.Width)
		x = w.activated(at+"act", w.linear(at+"linear_1", x, c.Width, c.Into), c.Act)
		x = w.linear(at+"linear_2", x, c.Into, c.Into)
	default: // Pixtral
		x = w.activated(at+"act", w.linear(at+"linear_1", Features, c.Width, c.Into), c.Act)
		x = w.linear(at+"linear_2", x, c.Into, c.Into)
	}
	g.Add("Identity", []string{x}, Vectors)
	return w.m, w.err
}

// merging returns the matrix that joins a block of patches, block × C, for patches one
// after the other; it is stored for blocks of each dimension.
func (w *gridWriter) merging(name string) []float32 {
	c, n := w.c.Width, w.c.Shuffle*w.c.Shuffle
	x := w.read(name, c, c*n)
	out := make([]float32, len(x))
	for to := range c {
		for from := range c {
			for i := range n {
				out[(i*c+from)*c+to] = x[(to*c+from)*n+i]
			}
		}
	}
	return out
}

// merged writes the two layers of Qwen3's merger.
func (w *gridWriter) merged(at, x string, block int) string {
	x = w.activated(at+"act", w.linear(at+"linear_fc1", x, block, block), "gelu")
	return w.linear(at+"linear_fc2", x, block, w.c.Into)
}
