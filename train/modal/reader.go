package modal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/nn"
)

// Reader is a [train.Task]: an encoder learns the signs in its inputs, without
// a core. The heads for training are not part of the resulting encoder.
type Reader struct {
	recipe   Recipe
	modality Modality
	from     string // folder of the recipe, relative to that of the checkpoints
	pool     *pool.Pool
	net      *net.Net[float32]
	tensors  []*nn.Tensor[float32] // by their names in the run
	pass     *net.Pass[float32]
	in       nn.Matrix[float32]
	outGrad  nn.Matrix[float32] // gradient of the encoder's output
	heads    []head
	signs    signs

	train, held sources
	next        int         // examples drawn
	steps       [][]reading // of one step
	last        *train.Evaluation
}

// head is an output with its targets in a pass.
type head struct {
	Head
	y, dy   nn.Matrix[float32] // [B·rows, classes]
	rows    int
	targets []int32 // [B·rows]
}

// reading is an example prepared for the network.
type reading struct {
	Example
	data []float32
}

// startReader builds a run by signs.
func startReader(r Recipe, opt train.Options, from *Checkpoint, workers *pool.Pool) (*Trainer, error) {
	t, err := newReader(r, opt.From, workers)
	if err != nil {
		workers.Close()
		return nil, err
	}
	t.from = train.Way(opt.Dir, opt.From)
	var tr *train.Trainer
	if from == nil {
		tr, err = train.New(r.run(), t, workers, opt)
	} else {
		t.next = from.Perception.Next
		tr, err = train.Resume(from.Checkpoint, r.run(), t, workers, opt)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return &Trainer{Trainer: tr, Reader: t}, nil
}

// newReader creates the network and opens the sources.
func newReader(r Recipe, dir string, workers *pool.Pool) (*Reader, error) {
	t := &Reader{recipe: r, modality: r.Modalities[0], pool: workers}
	t.signs = signsOf(t.modality.Modality)
	n, err := net.New[float32](*t.modality.Encoder.Net)
	if err != nil {
		return nil, train.At("/modalities/0/encoder/net", err)
	}
	n.Init(r.Seed)
	t.net = n
	if path := t.modality.Encoder.Begin; path != "" {
		if err := begin(n, prefix(EncoderPart, t.modality.Modality), train.Resolve(dir, path)); err != nil {
			return nil, train.At("/modalities/0/encoder/begin", err)
		}
	}
	for _, w := range n.Params().Tensors() {
		named := *w
		named.Name = prefix(EncoderPart, t.modality.Modality) + w.Name
		t.tensors = append(t.tensors, &named)
	}
	if err := t.place(); err != nil {
		return nil, err
	}
	if t.train, err = openSources(r.Data, trainSplit, dir); err != nil {
		return nil, err
	}
	if t.held, err = openSources(r.Data, heldSplit, dir); err != nil {
		return nil, errors.Join(err, t.train.close())
	}
	return t, nil
}

// place allocates the pass and checks the network's inputs and outputs.
func (t *Reader) place() error {
	cfg, B := t.net.Config(), t.recipe.BatchSize
	if len(cfg.Inputs) != 1 {
		return train.Atf("/modalities/0/encoder/net/inputs", "%d inputs, want one", len(cfg.Inputs))
	}
	t.pass = t.net.NewPass(t.pool, B)
	t.in, t.outGrad = t.pass.In(cfg.Inputs[0].Name), t.pass.OutGrad(cfg.Outputs[0])
	var errs []error
	for i, h := range t.modality.Heads {
		if h.Weight == 0 {
			h.Weight = 1
		}
		one := head{Head: h, y: t.pass.Out(h.Output), dy: t.pass.OutGrad(h.Output)}
		one.rows = one.y.Rows / B
		one.targets = make([]int32, one.y.Rows)
		rows, classes := h.Of.shape(t.modality.Modality)
		if rows < 0 {
			rows = side(one.rows) * side(one.rows)
		}
		if rows != one.rows || classes != one.y.Cols {
			errs = append(errs, train.Atf(fmt.Sprintf("/modalities/0/heads/%d", i), "%s is [%d, %d]; %s of %s requires [%d, %d]",
				h.Output, one.rows, one.y.Cols, h.Of, t.modality.Modality, rows, classes))
		}
		t.heads = append(t.heads, one)
	}
	x, err := t.prepare(blank(t.modality.Modality))
	if err != nil {
		errs = append(errs, train.At("/modalities/0/preprocess", err))
	} else if want := t.in.Rows / B * t.in.Cols; len(x) != want {
		errs = append(errs, train.Atf("/modalities/0", "%w: preprocess output has %d numbers, encoder input %d", errShape, len(x), want))
	}
	return errors.Join(errs...)
}

// prepare returns the encoder's input for an example.
func (t *Reader) prepare(e Example) ([]float32, error) {
	x, err := prepare(&t.modality.Preprocess, e)
	if err != nil {
		return nil, err
	}
	return floats(x.Data), nil
}

// floats decodes float32 numbers.
func floats(b []byte) []float32 {
	data := make([]float32, len(b)/4)
	for i := range data {
		data[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return data
}

// Tensors implements [train.Task].
func (t *Reader) Tensors() []*nn.Tensor[float32] { return t.tensors }

// Size implements [train.Task].
func (t *Reader) Size() train.Size {
	n := t.train.media[0].size
	if n == 0 {
		n = endless
	}
	return train.Size{FLOPs: 3 * t.net.FLOPs(), Batch: t.recipe.BatchSize, Train: n, Held: t.recipe.Eval.N}
}

// Batches implements [train.Task].
func (t *Reader) Batches(k int) (terms int, err error) {
	n := t.recipe.BatchSize
	t.steps = t.steps[:0]
	for range k {
		from := t.next
		batch, err := t.make(n, func(i int) Example {
			e, _ := t.train.at(t.train.draw(nn.NewRandom(nn.Mix(t.recipe.Seed, uint64(from+i)))), from+i)
			return e
		})
		if err != nil {
			return 0, err
		}
		t.steps = append(t.steps, batch)
		t.next += n
	}
	return k * n * t.heads[0].rows, nil
}

// make draws n examples and prepares them.
func (t *Reader) make(n int, draw func(i int) Example) ([]reading, error) {
	out := make([]reading, n)
	var mu sync.Mutex
	var err error
	t.pool.For(n, 1, pool.Func(func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			e := draw(i)
			x, failed := t.prepare(e)
			if failed != nil {
				mu.Lock()
				err = errors.Join(err, failed)
				mu.Unlock()
			}
			out[i] = reading{e, x}
		}
	}))
	return out, err
}

// read runs examples forward and sets the targets of the heads.
func (t *Reader) read(batch []reading) {
	for i, one := range batch {
		fill(t.in, i, t.recipe.BatchSize, one.data)
		for _, h := range t.heads {
			t.signs.targets(h.Of, one.Example, h.targets[i*h.rows:(i+1)*h.rows])
		}
	}
	t.pass.Forward(len(batch))
}

// losses returns the sum of the heads' losses over n examples and sets their
// gradients.
func (t *Reader) losses(n int, scale float64) (sum float64) {
	for _, h := range t.heads {
		rows := n * h.rows
		l := net.CrossEntropy(h.y.Part(0, rows), h.dy.Part(0, rows), h.targets[:rows], float32(scale*h.Weight))
		sum += h.Weight * l
	}
	return sum
}

// Pass implements [train.Task].
func (t *Reader) Pass(i int, scale float64, add bool) (float64, error) {
	t.read(t.steps[i])
	sum := t.losses(len(t.steps[i]), scale)
	t.outGrad.Zero() // the heads have the only losses
	t.pass.Backward(len(t.steps[i]), add)
	return sum, nil
}

// Refresh implements [train.Task].
func (t *Reader) Refresh() { t.net.Pack(true) }

// Evaluate implements [train.Task]: the readings of held-out examples.
func (t *Reader) Evaluate() (train.Evaluation, error) {
	e, err := t.try(t.recipe.Eval.N)
	if err == nil {
		t.last = &e
	}
	return e, err
}

// try evaluates n held-out examples.
func (t *Reader) try(n int) (train.Evaluation, error) {
	var e train.Evaluation
	tally := train.Tally{}
	var sum float64
	for from := 0; from < n; from += t.recipe.BatchSize {
		batch, err := t.make(min(t.recipe.BatchSize, n-from), func(i int) Example { return t.held.turn(from + i) })
		if err != nil {
			return e, err
		}
		t.read(batch)
		sum += t.losses(len(batch), 0)
		e.Predictions += len(batch) * t.heads[0].rows
		t.judge(batch, tally)
	}
	e.Loss = sum / float64(e.Predictions)
	e.Scores = tally.Scores()
	return e, nil
}

// judge counts the right readings.
func (t *Reader) judge(batch []reading, tally train.Tally) {
	for _, h := range t.heads {
		for i, one := range batch {
			if h.Of == Reading {
				signs := make([]string, h.rows)
				for j := range signs {
					signs[j] = t.signs.list[h.best(i*h.rows+j)]
				}
				judge(one.Example, signs, tally)
				continue
			}
			for j := range h.rows {
				if to := int(h.targets[i*h.rows+j]); to > 0 {
					tally.Add(one.Kind+"/"+string(h.Of), strconv.Itoa(to), h.best(i*h.rows+j) == to)
				}
			}
		}
	}
}

// best returns the likeliest class of a row.
func (h head) best(row int) int {
	y := h.y.Row(row)
	return slices.Index(y, slices.Max(y))
}

// State implements [train.Task].
func (t *Reader) State() (train.State, error) {
	cfg := t.net.Config()
	kept := cfg.Keep(cfg.Outputs[0])
	return train.State{Kind: kind, Header: Header{Recipe: t.recipe, From: t.from, Next: t.next, Held: t.last,
		Modalities: []Built{{Modality: t.modality.Modality, Preprocess: t.modality.Preprocess, Encoder: &kept}}}}, nil
}

// Close closes the sources.
func (t *Reader) Close() error { return errors.Join(t.train.close(), t.held.close()) }

// measureReader evaluates the encoder of a checkpoint on held-out examples.
func measureReader(c *Checkpoint, opt MeasureOptions, workers *pool.Pool) ([]train.Evaluation, error) {
	t, err := newReader(c.Perception.Recipe.WithDefaults(), opt.Dir, workers)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	for _, w := range t.tensors {
		if err := c.Read(w.Name, w.Data, w.Shape); err != nil {
			return nil, err
		}
	}
	t.Refresh()
	e, err := t.try(opt.N)
	return []train.Evaluation{e}, err
}
