package infer

import (
	"math"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// altup is the part of a model of several residual streams outside its layers.
type altup struct {
	table    *embedding // V × (L·P), numbers of each token for all layers
	project  linear     // C → L·P, the same of an input vector
	norm     norm       // P
	up, down []linear   // C → C, from the first stream to the others and back
}

// altupLayer is the part of a layer of such a model next to attention and the feed-forward half.
type altupLayer struct {
	predict, correct []float32 // K² × K, K × K
	router           []float32 // K × C
	routerNorm       norm
	scale            []float32 // C
	left, right      linear    // C → R → C
	laurel           norm      // C
	gate, proj       linear    // C → P → C
	post             norm      // C
}

// load loads the part outside the layers.
func (a *altup) load(l *loader, c Config) {
	p := c.Altup
	for i := range p.Streams - 1 {
		a.up = append(a.up, l.slice("altup_proj", nil, i, p.Streams-1, c.Width, c.Width))
		a.down = append(a.down, l.slice("altup_unembd_proj", nil, i, p.Streams-1, c.Width, c.Width))
	}
	if p.PerLayer == 0 {
		return
	}
	a.table = l.embedding(arch.PerLayerEmbedding, p.PerLayer*c.Layers, c.Vocab)
	a.project = l.linear("per_layer_model_proj", c.Width, p.PerLayer*c.Layers)
	a.norm = l.norm("per_layer_proj_norm", p.PerLayer, c.Style())
}

// loadAltup loads the part of a layer.
func (y *layer) loadAltup(l *loader, c Config) {
	p, style := c.Altup, c.Style()
	if p.Streams == 1 {
		if y.scale = l.vector("layer_output_scale.weight", 1); p.PerLayer > 0 {
			y.altup = &altupLayer{gate: l.linear("inp_gate", c.Width, p.PerLayer), proj: l.linear("proj", p.PerLayer, c.Width), post: l.norm("post_norm", c.Width, style)}
		}
		return
	}
	y.altup = &altupLayer{
		predict: l.vector("altup_predict_coef.weight", p.Streams*p.Streams*p.Streams), correct: l.vector("altup_correct_coef.weight", p.Streams*p.Streams),
		router: l.vector("altup_router.weight", p.Streams*c.Width), routerNorm: l.norm("altup_router_norm", c.Width, style),
		scale: l.vector("altup_correct_scale.weight", c.Width),
		left:  l.linear("laurel_l", c.Width, p.Rank), right: l.linear("laurel_r", p.Rank, c.Width), laurel: l.norm("laurel_post_norm", c.Width, style),
		gate: l.linear("inp_gate", c.Width, p.PerLayer), proj: l.linear("proj", p.PerLayer, c.Width), post: l.norm("post_norm", c.Width, style),
	}
}

func (a *altup) bytes() (n int) {
	if a == nil {
		return 0
	}
	for i := range a.up {
		n += a.up[i].bytes() + a.down[i].bytes()
	}
	return n + a.project.bytes()
}

func (a *altupLayer) bytes() int {
	if a == nil {
		return 0
	}
	return a.left.bytes() + a.right.bytes() + a.gate.bytes() + a.proj.bytes()
}

// matrices and vectors list the weights in the order of a fingerprint.
func (a *altup) matrices() []linear {
	return append(append([]linear{a.project}, a.up...), a.down...)
}

func (a *altupLayer) matrices() []linear { return []linear{a.left, a.right, a.gate, a.proj} }

func (a *altupLayer) vectors() [][]float32 {
	return [][]float32{a.predict, a.correct, a.router, a.routerNorm.gain, a.scale, a.laurel.gain, a.post.gain}
}

// altupWork holds the buffers of residual streams. The first stream is w.x between
// layers. As a task its indices are rows.
type altupWork struct {
	w       *work
	inputs  matrix   // T×(L·P)
	others  []matrix // K-1: T×C
	first   matrix   // T×C, the prediction of the first stream
	laurel  matrix   // T×C
	low     matrix   // T×R
	gates   matrix   // T×P
	batch   panel.Batch
	scratch []altupScratch // one a thread

	phase, layer, stream int
}

// altupScratch is the memory of a thread.
type altupScratch struct {
	numbers []float32 // max(L·P, (K+1)·C)
	routes  []float32 // K
	factors []float32 // K²
}

func (x *altupWork) resize(m *Model, rows int) {
	c, p := &m.cfg, m.cfg.Altup
	x.inputs.resize(rows, p.PerLayer*c.Layers)
	if x.others == nil {
		x.others = make([]matrix, p.Streams-1)
		x.scratch = make([]altupScratch, m.threads.Threads())
		for i := range x.scratch {
			x.scratch[i] = altupScratch{make([]float32, max(p.PerLayer*c.Layers, (p.Streams+1)*c.Width)), make([]float32, p.Streams), make([]float32, p.Streams*p.Streams)}
		}
	}
	for i := range x.others {
		x.others[i].resize(rows, c.Width)
	}
	x.first.resize(rows, c.Width)
	x.laurel.resize(rows, c.Width)
	x.low.resize(rows, p.Rank)
	x.gates.resize(rows, p.PerLayer)
}

// Phases of residual streams, each on rows.
const (
	copyFirst = iota // batch: the first stream
	copyOther
	mixInputs
	scaleOther
	predictAll
	copyLow
	addLaurel
	joinLaurel
	correctAll
	gateInputs
	addInputs
	sumOther
	cutGates
)

func (x *altupWork) run(phase int) {
	x.phase = phase
	x.w.m.threads.For(x.w.rows, 1, x)
}

// fill sets the batch by a phase and prepares it.
func (x *altupWork) fill(phase, cols int) *panel.Batch {
	x.batch.Resize(x.w.rows, cols)
	x.run(phase)
	x.w.ready(&x.batch)
	return &x.batch
}

// spread sets the numbers of each layer and all streams from the input vectors.
func (w *work) spread() {
	x, a := &w.altup, w.m.altup
	batch := x.fill(copyFirst, w.m.cfg.Width)
	w.multiply(batch, term{&a.project, &x.inputs})
	x.run(mixInputs)
	for x.stream = range x.others {
		w.multiply(batch, term{&a.up[x.stream], &x.others[x.stream]})
		x.run(scaleOther)
	}
}

// predict sets the streams to the predictions of a layer.
func (w *work) predict() { w.altup.run(predictAll) }

// aside computes the residual of low rank of the normalized rows.
func (w *work) aside(y *altupLayer) {
	x := &w.altup
	w.multiply(&w.normed, term{&y.left, &x.low})
	w.multiply(x.fill(copyLow, w.m.cfg.Altup.Rank), term{&y.right, &x.laurel})
	x.run(addLaurel)
}

// correct updates the streams by the result of a layer, and all but the first by
// the layer's numbers of the tokens.
func (w *work) correct(y *altupLayer) {
	x, c, phase := &w.altup, &w.m.cfg, correctAll
	if !w.m.many {
		phase = copyFirst
	}
	w.multiply(x.fill(phase, c.Width), term{&y.gate, &x.gates})
	w.multiply(x.fill(gateInputs, c.Altup.PerLayer), term{&y.proj, &w.out})
	x.run(addInputs)
}

// gather sets x to the mean of all streams.
func (w *work) gather() {
	x := &w.altup
	for t := range w.rows {
		copy(x.first.row(t, w.m.cfg.Width), w.stream(t))
	}
	for x.stream = range x.others {
		w.multiply(x.fill(copyOther, w.m.cfg.Width), term{&w.m.altup.down[x.stream], &w.out})
		x.run(sumOther)
	}
}

// stream returns a row of the first residual stream.
func (w *work) stream(t int) []float32 {
	c := w.m.cfg.Width
	return w.x[t*c : (t+1)*c]
}

func (x *altupWork) Do(thread, lo, hi int) {
	for t := lo; t < hi; t++ {
		x.row(&x.scratch[thread], t)
	}
}

// row does a phase of a row.
func (x *altupWork) row(s *altupScratch, t int) {
	w, c := x.w, &x.w.m.cfg
	y := w.m.layers[x.layer].altup
	switch x.phase {
	case copyFirst:
		copy(x.batch.Row(t), w.stream(t))
	case copyOther:
		copy(x.batch.Row(t), x.others[x.stream].row(t, c.Width))
	case copyLow:
		copy(x.batch.Row(t), x.low.row(t, c.Altup.Rank))
	case mixInputs:
		x.mixInputs(s, t)
	case scaleOther:
		other := x.others[x.stream].row(t, c.Width)
		tensor.Scale(other, magnitude(w.stream(t), 0)/magnitude(other, leastMagnitude))
	case predictAll:
		x.predict(s, y, t)
	case addLaurel:
		row := x.laurel.row(t, c.Width)
		y.laurel.apply(row, row, c.Epsilon)
		tensor.Add(row, w.normed.Row(t))
	case joinLaurel:
		tensor.Add(w.stream(t), x.laurel.row(t, c.Width))
		tensor.Scale(w.stream(t), math.Sqrt2/2)
	case correctAll:
		x.correct(s, y, t)
	case gateInputs:
		out := x.batch.Row(t)
		activation(out, x.gates.row(t, c.Altup.PerLayer), w.m.act)
		tensor.Times(out, out, x.inputs.row(t, c.Altup.PerLayer*c.Layers)[x.layer*c.Altup.PerLayer:][:c.Altup.PerLayer])
	case addInputs:
		row := w.out.row(t, c.Width)
		y.post.apply(row, row, c.Epsilon)
		for i := range x.others {
			tensor.Add(x.others[i].row(t, c.Width), row)
		}
		if len(x.others) == 0 {
			tensor.Add(w.stream(t), row)
		}
	case sumOther:
		row := w.out.row(t, c.Width)
		tensor.Axpy(w.stream(t), magnitude(x.first.row(t, c.Width), 0)/magnitude(row, leastMagnitude), row)
		if x.stream == len(x.others)-1 {
			tensor.Scale(w.stream(t), 1/float32(c.Altup.Streams))
		}
	case cutGates:
		x.cut(t)
	}
}

// leastMagnitude is the least mean square that a stream is divided by the root of.
const leastMagnitude = 1e-5

// magnitude returns the root of the mean square, which is at least least.
func magnitude(x []float32, least float32) float32 {
	return float32(math.Sqrt(float64(max(tensor.Dot(x, x)/float32(len(x)), least))))
}

// mixInputs adds the token's numbers for all layers to those of its vector. A
// vector without a token has those of token 0, as transformers has pictures.
func (x *altupWork) mixInputs(s *altupScratch, t int) {
	c, a := &x.w.m.cfg, x.w.m.altup
	p := c.Altup.PerLayer
	row, own := x.inputs.row(t, p*c.Layers), s.numbers[:p*c.Layers]
	a.table.row(own, max(x.w.token(t), 0))
	tensor.Scale(row, float32(1/math.Sqrt(float64(c.Width))))
	for i := range c.Layers {
		a.norm.apply(row[i*p:][:p], row[i*p:][:p], c.Epsilon)
	}
	tensor.Axpy(row, float32(math.Sqrt(float64(p))), own)
	tensor.Scale(row, math.Sqrt2/2)
}

// token returns the token of row t, or vector.
func (w *work) token(t int) int32 {
	s := &w.spans[w.owner[t]]
	return s.tokens[t-s.row]
}

// route sets the thread's routes to those of a row of the first stream.
func (x *altupWork) route(s *altupScratch, y *altupLayer, row []float32) {
	c := &x.w.m.cfg
	normed := s.numbers[c.Altup.Streams*c.Width:][:c.Width]
	y.routerNorm.apply(normed, row, c.Epsilon)
	for i := range s.routes {
		dot := tensor.Dot(y.router[i*c.Width:][:c.Width], normed) / float32(c.Width)
		s.routes[i] = float32(math.Tanh(float64(dot)))
	}
}

// combine returns the product of the routes and a row of coefficients.
func (s *altupScratch) combine(coefficients []float32, row int) (sum float32) {
	for i, r := range s.routes {
		sum += r * coefficients[row*len(s.routes)+i]
	}
	return sum
}

// predict replaces a row of all streams by the layer's predictions.
func (x *altupWork) predict(s *altupScratch, y *altupLayer, t int) {
	c := &x.w.m.cfg
	k := c.Altup.Streams
	x.route(s, y, x.w.stream(t))
	for i := range s.factors {
		s.factors[i] = s.combine(y.predict, i)
	}
	for to := range k {
		out := s.numbers[to*c.Width:][:c.Width]
		copy(out, x.streamOf(to, t))
		for from := range k {
			tensor.Axpy(out, s.factors[to*k+from], x.streamOf(from, t))
		}
	}
	for to := range k {
		copy(x.streamOf(to, t), s.numbers[to*c.Width:])
	}
	copy(x.first.row(t, c.Width), x.w.stream(t))
}

// streamOf returns a row of a stream.
func (x *altupWork) streamOf(stream, t int) []float32 {
	if stream == 0 {
		return x.w.stream(t)
	}
	return x.others[stream-1].row(t, x.w.m.cfg.Width)
}

// correct adds the difference of a layer's result and prediction to all streams,
// and sets a row of the batch to the first of them, scaled.
func (x *altupWork) correct(s *altupScratch, y *altupLayer, t int) {
	c := &x.w.m.cfg
	row, more := x.w.stream(t), s.numbers[:c.Width]
	x.route(s, y, row)
	copy(more, row)
	tensor.Axpy(more, -1, x.first.row(t, c.Width))
	copy(row, x.first.row(t, c.Width))
	for i := range c.Altup.Streams {
		tensor.Axpy(x.streamOf(i, t), 1+s.combine(y.correct, i), more)
	}
	tensor.Times(x.batch.Row(t), row, y.scale)
}

// sparse computes hidden of a layer whose gates are cut.
func (w *work) sparse(y *layer) {
	w.multiply(&w.normed, term{&y.feed.gate, &w.gate}, term{&y.feed.up, &w.up})
	w.altup.run(cutGates)
	w.ready(&w.hidden)
}

// cut sets a row of hidden to the activations of gates above the cutoff, times up.
func (x *altupWork) cut(t int) {
	w, c := x.w, &x.w.m.cfg
	gate, out := w.gate.row(t, c.Hidden), w.hidden.Row(t)
	var sum, squares float64
	for _, v := range gate {
		sum += float64(v)
	}
	mean := sum / float64(len(gate))
	for _, v := range gate {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	cutoff := float32(mean + math.Sqrt(squares/float64(len(gate)))*float64(c.Cutoff(x.layer)))
	for i, v := range gate {
		gate[i] = max(v-cutoff, 0)
	}
	activation(out, gate, w.m.act)
	tensor.Times(out, out, w.up.row(t, c.Hidden))
}
