package modal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// Perception is a [train.Task]: encoders, projectors and adapters learn from a
// core's answers.
type Perception struct {
	recipe Recipe
	from   string // folder of the recipe, relative to that of the checkpoints
	ctx    context.Context

	senses []*sense
	model  *llm.Model[float32]
	pass   *llm.Pass[float32]
	tok    *tokenizer.Tokenizer
	layout *layout
	pool   *pool.Pool

	train, held sources
	corpus      *train.Corpus   // documents without media; may be nil
	loader      *dataset.Loader // of the corpus
	next        int             // examples drawn
	batches     []*batch        // of one step
	trial       *batch          // of an evaluation
	grads       []float32
	last        *train.Evaluation
	words       *words // if words are learned
}

// Trainer is the trainer of a Perception or a Reader.
type Trainer struct {
	*train.Trainer
	Task   *Perception // nil for a Reader
	Reader *Reader     // nil for a Perception
}

// New builds the run of a recipe from the start. Paths are relative to opt.From.
func New(ctx context.Context, r Recipe, opt train.Options) (*Trainer, error) {
	return start(ctx, r, opt, nil)
}

// Resume builds the interrupted run with the checkpoint at path; the result is
// bit-identical to that of an uninterrupted run.
func Resume(ctx context.Context, path string, opt train.Options) (*Trainer, error) {
	c, err := OpenCheckpoint(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r := c.Perception.Recipe.WithDefaults()
	if err := opt.Continue(r, &r.Stop, &r.Threads, c.Dir()); err != nil {
		return nil, err
	}
	t, err := start(ctx, r, opt, c)
	if err != nil {
		return nil, fmt.Errorf("resuming %s: %w", path, err)
	}
	return t, nil
}

// start builds a run from a checkpoint or, if from is nil, from the start.
func start(ctx context.Context, r Recipe, opt train.Options, from *Checkpoint) (*Trainer, error) {
	r = r.WithDefaults()
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("recipe: %w", err)
	}
	workers := opt.Pool(r.Threads)
	if r.Reads() {
		return startReader(r, opt, from, workers)
	}
	p, err := newPerception(ctx, r, opt.From, workers)
	if err != nil {
		workers.Close()
		return nil, err
	}
	p.from = train.Way(opt.Dir, opt.From)
	t, err := p.trainer(opt, from)
	if err != nil {
		if e := p.Close(); e != nil {
			err = errors.Join(err, e)
		}
		return nil, err
	}
	return &Trainer{Trainer: t, Task: p}, nil
}

// trainer builds the task's trainer. On failure it stops the threads.
func (p *Perception) trainer(opt train.Options, from *Checkpoint) (*train.Trainer, error) {
	if from == nil {
		return train.New(p.recipe.run(), p, p.pool, opt)
	}
	if err := p.goOn(from); err != nil {
		p.pool.Close()
		return nil, err
	}
	return train.Resume(from.Checkpoint, p.recipe.run(), p, p.pool, opt)
}

// goOn restores the position in the data from a checkpoint.
func (p *Perception) goOn(c *Checkpoint) error {
	if c == nil {
		return nil
	}
	h := c.Perception
	if h.Vocabulary != dataset.TokenizerDigest(p.tok) {
		return fmt.Errorf("checkpoint %s: tokenizer of the core has changed", c.Path())
	}
	if err := c.checkEncoders(p.senses); err != nil {
		return err
	}
	p.next = h.Next
	if (h.Text == nil) != (p.loader == nil) {
		return fmt.Errorf("checkpoint %s: documents do not match the recipe", c.Path())
	}
	if h.Text != nil {
		return p.read(*h.Text)
	}
	return nil
}

// newPerception opens everything in a recipe.
func newPerception(ctx context.Context, r Recipe, dir string, workers *pool.Pool) (*Perception, error) {
	p := &Perception{recipe: r, ctx: ctx, pool: workers}
	if err := p.build(dir); err != nil {
		if e := p.Close(); e != nil {
			err = errors.Join(err, e)
		}
		return nil, err
	}
	return p, nil
}

// build opens the recipe's core, networks and sources, and allocates a step.
func (p *Perception) build(dir string) error {
	r, workers := p.recipe, p.pool
	var err error
	if p.model, p.tok, err = openCore(r, dir); err != nil {
		return err
	}
	places := map[Medium]int{}
	most := 0
	for i, m := range r.Modalities {
		s, err := newSense(p.ctx, m, r, dir, workers, p.model.Config.Dim, fmt.Sprintf("/modalities/%d", i))
		if err != nil {
			return err
		}
		p.senses = append(p.senses, s)
		places[m.Modality] = s.proj.rows()
		most = max(most, s.proj.rows())
	}
	if n := places[Image]; n > 0 && r.Data.Videos() {
		places[Video] = halves * n
		most = max(most, halves*n)
	}
	if r.SeqLen > p.model.Config.Context {
		return train.Atf("/seq_len", "seq_len out of range: got %d, context of the core is %d", r.SeqLen, p.model.Config.Context)
	}
	if p.layout, err = newLayout(p.tok, places, r.SeqLen); err != nil {
		return err
	}
	p.layout.spelled = r.Data.Spell
	if p.train, err = openSources(r.Data, trainSplit, dir); err != nil {
		return err
	}
	if p.held, err = openSources(r.Data, heldSplit, dir); err != nil {
		return err
	}
	if r.Data.Text != nil {
		if err := p.open(*r.Data.Text, dir); err != nil {
			return err
		}
	}
	if r.Data.Words > 0 {
		p.words = p.newWords()
	}
	p.model.BF16 = r.Precision == train.BF16
	p.pass = p.model.NewPass(workers, r.BatchSize, r.SeqLen)
	p.trial = newBatch(r.BatchSize, r.SeqLen)
	p.trial.Best = make([]int32, r.BatchSize*r.SeqLen)
	p.grads = make([]float32, r.BatchSize*most*p.model.Config.Dim)
	return nil
}

// Tensors implements [train.Task].
func (p *Perception) Tensors() []*nn.Tensor[float32] {
	var all []*nn.Tensor[float32]
	for _, s := range p.senses {
		if s.enc != nil {
			all = append(all, s.enc.tensors...)
		}
		all = append(all, s.proj.tensors...)
	}
	return append(all, p.model.Tensors()...)
}

// Part implements [train.Parted].
func (p *Perception) Part(tensor string) string {
	for _, s := range p.senses {
		for _, kind := range []string{EncoderPart, ProjectorPart} {
			if strings.HasPrefix(tensor, prefix(kind, s.modality)) {
				return kind + " of " + string(s.modality)
			}
		}
	}
	if strings.HasSuffix(tensor, ".lora_a") || strings.HasSuffix(tensor, ".lora_b") {
		return AdapterPart
	}
	return CorePart
}

// endless is the length of an epoch of unlimited sources.
const endless = 1 << 20

// Size implements [train.Task].
func (p *Perception) Size() train.Size {
	n := 0
	for _, m := range p.train.media {
		if m.size == 0 {
			n = endless
			break
		}
		n += m.size
	}
	return train.Size{FLOPs: p.model.Config.FLOPs(p.recipe.SeqLen), Batch: p.recipe.BatchSize * p.recipe.SeqLen,
		Train: n * p.recipe.SeqLen, Held: p.recipe.Eval.N}
}

// Pass implements [train.Task].
func (p *Perception) Pass(i int, scale float64, add bool) (loss float64, err error) {
	b := p.batches[i]
	if err := p.look(b); err != nil {
		return 0, err
	}
	b.EmbedGrads = nil
	if p.recipe.Stage.trains(ProjectorPart) && !b.blank {
		b.EmbedGrads = p.grads[:len(b.Embeds)]
	}
	if loss, err = p.pass.Train(b.Batch, scale, add); err != nil {
		return 0, err
	}
	from := 0
	for _, s := range p.senses {
		n := len(b.items[s.modality])
		size := n * s.proj.rows() * s.proj.cols()
		if b.blank {
			s.back(nil, 0, add)
		} else if b.EmbedGrads != nil {
			p.pull(s, b, b.EmbedGrads[from:from+size], scale)
			s.back(b.EmbedGrads[from:from+size], n, add)
		}
		from += size
	}
	return loss, nil
}

// pull adds the gradients towards words and of the contrast to the vectors of a
// batch's items, if they are learned.
func (p *Perception) pull(s *sense, b *batch, grads []float32, scale float64) {
	rows, C := s.proj.rows(), s.proj.cols()
	if weight := p.recipe.Data.Contrast; weight > 0 {
		p.contrast(b.items[s.modality], rows, C, s.proj.out.Row, grads, weight*scale)
	}
	for i, it := range b.items[s.modality] {
		if len(it.words) == rows {
			p.words.pull(it.words, func(r int) []float32 { return s.proj.out.Row(i*rows + r) }, grads[i*rows*C:(i+1)*rows*C], C, p.recipe.Data.Words*scale)
		}
	}
}

// Refresh implements [train.Task].
func (p *Perception) Refresh() {
	p.model.Refresh(p.pool)
	for _, s := range p.senses {
		s.refresh()
	}
}

// State implements [train.Task].
func (p *Perception) State() (train.State, error) {
	h := Header{Recipe: p.recipe, From: p.from, Vocabulary: dataset.TokenizerDigest(p.tok), Next: p.next, Held: p.last}
	for _, s := range p.senses {
		h.Modalities = append(h.Modalities, s.built())
	}
	if p.loader != nil {
		at := p.loader.Position()
		h.Text = &at
	}
	return train.State{Kind: kind, Header: h}, nil
}
