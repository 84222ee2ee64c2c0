package decode

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/net/onnxfile"
	"mm-abi.org/mm/train/nn"
)

// Decoding is a [train.Task]: a decoder learns the targets of prompts.
type Decoding struct {
	recipe Recipe
	from   string // folder of the recipe, relative to that of the checkpoints

	reader   *reader
	net      *net.Net[float32]
	tensors  []*nn.Tensor[float32] // of the network, by their names in the run
	learner  *learner
	outShape net.Port // shape of an output
	pool     *pool.Pool

	train, held Source
	size        int // examples in an epoch; 0: unlimited
	next        int // examples drawn
	batches     [][]example
	chances     []float32 // normal numbers, of which each example uses a range
	packed      bool
	last        *train.Evaluation
}

// example is a sample prepared for a pass.
type example struct {
	key    int // for the cache of states; negative: not cached
	prompt string
	states []float32 // [n, d_model], at most Core.States
	target []float32
	step   int       // of a flow
	noise  []float32 // start of a flow
	chance *nn.Random
	jitter []float32 // scratch: states with noise added
}

// Trainer is the trainer of a decoding.
type Trainer struct {
	*train.Trainer
	Task *Decoding
}

// New builds the run of a recipe from the start. Paths are relative to opt.From.
func New(r Recipe, opt train.Options) (*Trainer, error) { return start(r, opt, nil) }

// Resume builds the interrupted run with the checkpoint at path; the result is
// bit-identical to that of an uninterrupted run.
func Resume(path string, opt train.Options) (*Trainer, error) {
	c, err := OpenCheckpoint(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r := c.Decoding.Recipe
	if err := opt.Continue(r, &r.Stop, &r.Threads, c.Dir()); err != nil {
		return nil, err
	}
	t, err := start(r, opt, c)
	if err != nil {
		return nil, fmt.Errorf("resuming %s: %w", path, err)
	}
	return t, nil
}

// start builds a run from a checkpoint or, if from is nil, from the start.
func start(r Recipe, opt train.Options, from *Checkpoint) (*Trainer, error) {
	r = r.WithDefaults()
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("recipe: %w", err)
	}
	workers := opt.Pool(r.Threads)
	d, err := newDecoding(r, opt.From, workers, true)
	if err == nil && from != nil {
		err = d.goOn(from)
	}
	if err != nil {
		workers.Close()
		return nil, err
	}
	d.from = train.Way(opt.Dir, opt.From)
	var t *train.Trainer
	if from == nil {
		t, err = train.New(r.run(), d, workers, opt)
	} else {
		t, err = train.Resume(from.Checkpoint, r.run(), d, workers, opt)
	}
	if err != nil {
		return nil, err
	}
	return &Trainer{t, d}, nil
}

// goOn restores the position in the data from a checkpoint.
func (d *Decoding) goOn(c *Checkpoint) error {
	if c.Decoding.Vocabulary != dataset.TokenizerDigest(d.reader.tok) {
		return fmt.Errorf("checkpoint %s: tokenizer of the core has changed", c.Path())
	}
	d.next = c.Decoding.Next
	return nil
}

// newDecoding opens everything in a recipe and allocates a step.
func newDecoding(r Recipe, dir string, workers *pool.Pool, trains bool) (*Decoding, error) {
	d := &Decoding{recipe: r, pool: workers}
	var err error
	if d.reader, err = openReader(r.Core, dir, workers); err != nil {
		return nil, err
	}
	if d.net, err = r.Decoder.open(dir, r.Seed); err != nil {
		return nil, train.At("/decoder", err)
	}
	if err := r.check(d.net, d.reader.model.Config.Dim); err != nil {
		return nil, train.At("/decoder", err)
	}
	if d.outShape, err = outputShape(d.net); err != nil {
		return nil, train.At("/decoder", err)
	}
	if d.train, d.size, err = r.Data.open(trainSplit, dir); err != nil {
		return nil, err
	}
	if d.held, _, err = r.Data.open(heldSplit, dir); err != nil {
		return nil, err
	}
	if n := len(d.train.Make(0).Target); n != d.outShape.Rows*d.outShape.Cols {
		return nil, train.Atf("/decoder", "output size mismatch: decoder [%d, %d] has %d numbers, target %d", d.outShape.Rows, d.outShape.Cols, d.outShape.Rows*d.outShape.Cols, n)
	}
	d.chances = make([]float32, chances+max(d.outShape.Rows*d.outShape.Cols, r.Core.States*d.reader.model.Config.Dim))
	nn.FillNormal(d.chances, nn.NewRandom(nn.Mix(r.Seed, 0)), 1)
	d.net.Params().Freeze(func(string) bool { return !trains })
	for _, t := range d.net.Params().Tensors() {
		named := *t
		named.Name = DecoderPart + "." + t.Name
		d.tensors = append(d.tensors, &named)
	}
	d.learner = newLearner(r.Objective, d.net, d.net.NewPass(workers, r.BatchSize), trains)
	return d, nil
}

// open creates or reads the network of a recipe.
func (n Decoder) open(dir string, seed uint64) (*net.Net[float32], error) {
	if n.Net != nil {
		one, err := net.New[float32](*n.Net)
		if err != nil {
			return nil, err
		}
		one.Init(seed)
		if n.Begin != "" {
			err = train.At("/decoder/begin", onnxfile.ReadFile(one, train.Resolve(dir, n.Begin)))
		}
		return one, err
	}
	c, err := OpenCheckpoint(train.Resolve(dir, n.From))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	one, _, err := c.Network()
	return one, err
}

// The parts of a run. DecoderPart is the prefix of the network's tensors.
const (
	DecoderPart = "decoder"
	CorePart    = "core"
)

// Tensors implements [train.Task].
func (d *Decoding) Tensors() []*nn.Tensor[float32] {
	return append(append([]*nn.Tensor[float32](nil), d.tensors...), d.reader.model.Tensors()...)
}

// Part implements [train.Parted].
func (d *Decoding) Part(tensor string) string {
	for _, t := range d.tensors {
		if t.Name == tensor {
			return DecoderPart
		}
	}
	return CorePart
}

// endless is the length of an epoch of an unlimited source.
const endless = 1 << 20

// Size implements [train.Task]: a position is an example.
func (d *Decoding) Size() train.Size {
	n := d.size
	if n == 0 {
		n = endless
	}
	return train.Size{FLOPs: d.net.FLOPs(), Batch: d.recipe.BatchSize, Train: n, Held: d.recipe.Eval.N}
}

// Batches implements [train.Task].
func (d *Decoding) Batches(k int) (terms int, err error) {
	n := d.recipe.BatchSize
	for len(d.batches) < k {
		d.batches = append(d.batches, make([]example, n))
	}
	for _, b := range d.batches[:k] {
		first := d.next
		d.next += n
		if err := d.fill(b, d.train, d.recipe.Core.Noise, func(i int) (int, int, *nn.Random) {
			r := nn.NewRandom(nn.Mix(d.recipe.Seed, uint64(first+i)))
			if d.size == 0 {
				return first + i, -1, r
			}
			i = int(r.Uniform() * float64(d.size))
			return i, i, r
		}); err != nil {
			return 0, err
		}
	}
	return k * n * d.outShape.Rows * d.outShape.Cols, nil
}

// fill makes examples of a source. which returns an example's number, its key
// for the cache and its random numbers.
func (d *Decoding) fill(b []example, from Source, noise float64, which func(i int) (number, key int, r *nn.Random)) error {
	var mu sync.Mutex
	var failed error
	d.pool.For(len(b), 1, pool.Func(func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			if err := d.draw(&b[i], from, i, which); err != nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		}
	}))
	if failed != nil {
		return failed
	}
	if err := d.reader.read(b); err != nil {
		return err
	}
	if noise > 0 {
		d.pool.For(len(b), 1, pool.Func(func(_, lo, hi int) {
			for i := lo; i < hi; i++ {
				b[i].shake(noise, d.stretch(b[i].chance, len(b[i].states)))
			}
		}))
	}
	return nil
}

// draw makes one example without its states.
func (d *Decoding) draw(e *example, from Source, i int, which func(i int) (int, int, *nn.Random)) error {
	number, key, r := which(i)
	s := from.Make(number)
	if n := d.outShape.Rows * d.outShape.Cols; len(s.Target) != n {
		return fmt.Errorf("sample %d: target has %d numbers, want %d", number, len(s.Target), n)
	}
	e.key, e.prompt, e.target = key, s.Prompt, s.Target
	if d.recipe.Objective.Kind == Flow {
		e.step = d.recipe.Objective.when(r)
		e.noise = d.stretch(r, len(e.target))
	}
	e.chance = r
	return nil
}

// chances is the number of normal numbers to take ranges of, in addition to the
// longest range. Drawing new ones for each example would take as long as a
// small network.
const chances = 1 << 20

// stretch returns n normal numbers from a random position.
func (d *Decoding) stretch(r *nn.Random, n int) []float32 {
	from := int(r.Uniform() * chances)
	return d.chances[from : from+n]
}

// shake adds noise to the states, relative to their root mean square.
func (e *example) shake(share float64, chances []float32) {
	var sum float64
	for _, v := range e.states {
		sum += float64(v) * float64(v)
	}
	by := share * math.Sqrt(sum/float64(max(len(e.states), 1)))
	if len(e.jitter) < len(e.states) {
		e.jitter = make([]float32, len(e.states))
	}
	shaken := e.jitter[:len(e.states)]
	copy(shaken, e.states)
	tensor.AddScaled(shaken, float32(by), chances)
	e.states = shaken
}

// Pass implements [train.Task].
func (d *Decoding) Pass(i int, scale float64, add bool) (float64, error) {
	b := d.batches[i]
	for s := range b {
		d.learner.give(s, &b[s])
	}
	sum := d.learner.loss(len(b), scale, true)
	d.learner.pass.Backward(len(b), add)
	return sum, nil
}

// Refresh implements [train.Task].
func (d *Decoding) Refresh() {
	d.net.Pack(!d.packed)
	d.packed = true
	d.reader.model.Refresh(d.pool)
}

// State implements [train.Task].
func (d *Decoding) State() (train.State, error) {
	return train.State{Kind: kind, Header: Header{
		Recipe: d.recipe, Net: d.net.Config(), Width: d.reader.model.Config.Dim, From: d.from,
		Vocabulary: dataset.TokenizerDigest(d.reader.tok), Next: d.next, Held: d.last,
	}}, nil
}
