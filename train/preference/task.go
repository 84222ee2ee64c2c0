package preference

import (
	"errors"
	"fmt"
	"strings"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// Task is a [train.Task]: a language model learns which of two answers is
// preferred.
type Task struct {
	recipe Recipe
	from   string // folder of the recipe, relative to that of the checkpoints

	model *llm.Model[float32]
	tok   *tokenizer.Tokenizer
	coder *coder
	pass  *llm.Pass[float32]
	pool  *pool.Pool

	learned, held []example
	pairs         string // digest of the pairs
	reference     string // digest of the reference's weights

	next    int     // pairs drawn
	order   []int   // of the epoch
	epoch   int     // of order; -1 before the first
	batches [][]int // indices of learned
	batch   llm.Batch[float32]
	answers []Answer
	last    *train.Evaluation
}

// NewTask builds a task around a model, whose frozen tensors are set, and
// pairs. It computes the reference's losses. SPIN is this task with the model's
// own answers as the rejected ones.
func NewTask(r Recipe, m *llm.Model[float32], tok *tokenizer.Tokenizer, learned, held []Pair, workers *pool.Pool) (*Task, error) {
	t, err := newTask(r.WithDefaults(), m, tok, learned, held, workers)
	if err == nil {
		err = t.refer()
	}
	return t, err
}

func newTask(r Recipe, m *llm.Model[float32], tok *tokenizer.Tokenizer, learned, held []Pair, workers *pool.Pool) (*Task, error) {
	t := &Task{recipe: r, model: m, tok: tok, pool: workers, epoch: -1, pairs: digest(learned, held)}
	var err error
	if t.coder, err = newCoder(tok, r.SeqLen); err != nil {
		return nil, err
	}
	if tok.Size() > m.Config.Vocab {
		return nil, train.Atf("/core/base", "vocabulary mismatch: tokenizer has %d tokens, model %d", tok.Size(), m.Config.Vocab)
	}
	if r.SeqLen > m.Config.Context {
		return nil, train.Atf("/seq_len", "seq_len out of range: got %d, the core has %d positions", r.SeqLen, m.Config.Context)
	}
	if len(learned) == 0 {
		return nil, train.Atf("/data", "no pairs")
	}
	if t.learned, err = t.coder.examples(learned, r.Objective.Rows()); err != nil {
		return nil, err
	}
	if t.held, err = t.coder.examples(held, r.Objective.Rows()); err != nil {
		return nil, err
	}
	m.BF16 = r.Precision == train.BF16
	rows := r.BatchSize * r.Objective.Rows()
	t.pass = m.NewPass(workers, rows, r.SeqLen)
	t.batch = llm.Batch[float32]{Tokens: make([]int32, rows*r.SeqLen), Targets: make([]int32, rows*r.SeqLen)}
	t.answers = make([]Answer, rows)
	return t, nil
}

// refer computes the reference's losses of all answers.
func (t *Task) refer() error {
	t.reference = train.Digest(t.model.Tensors())
	t.Refresh()
	if !t.recipe.Objective.Referenced() {
		return nil
	}
	for _, list := range [][]example{t.learned, t.held} {
		for from := 0; from < len(list); from += t.recipe.BatchSize {
			some := list[from:min(from+t.recipe.BatchSize, len(list))]
			nats := make([]float64, len(t.answers))
			if err := t.pass.Losses(t.fill(some), nats); err != nil {
				return err
			}
			for i := range some {
				copy(some[i].nats, nats[i*t.recipe.Objective.Rows():])
			}
		}
	}
	return nil
}

// fill writes examples into the batch. Rows without an example have no targets.
func (t *Task) fill(list []example) llm.Batch[float32] {
	pad, n := t.tok.Special().EOS, t.recipe.Objective.Rows()
	for row := range t.answers {
		var s sequence
		t.answers[row] = Answer{}
		if i := row / n; i < len(list) {
			s = list[i].answers[row%n]
			t.answers[row] = Answer{Reference: list[i].nats[row%n], Tokens: s.answer()}
		}
		s.put(t.batch.Tokens, t.batch.Targets, row, t.recipe.SeqLen, pad)
	}
	return t.batch
}

// Tensors implements [train.Task].
func (t *Task) Tensors() []*nn.Tensor[float32] { return t.model.Tensors() }

// Part implements [train.Parted].
func (t *Task) Part(tensor string) string {
	if strings.HasSuffix(tensor, ".lora_a") || strings.HasSuffix(tensor, ".lora_b") {
		return "adapter"
	}
	return "core"
}

// Model returns the model that learns.
func (t *Task) Model() *llm.Model[float32] { return t.model }

// Size implements [train.Task]: a position is that of a token of an answer's
// row.
func (t *Task) Size() train.Size {
	rows := t.recipe.Objective.Rows() * t.recipe.SeqLen
	return train.Size{FLOPs: t.model.Config.FLOPs(t.recipe.SeqLen), Batch: t.recipe.BatchSize * rows, Train: len(t.learned) * rows, Held: len(t.held) * rows}
}

// Batches implements [train.Task]. Terms are pairs.
func (t *Task) Batches(k int) (terms int, err error) {
	for len(t.batches) < k {
		t.batches = append(t.batches, make([]int, t.recipe.BatchSize))
	}
	for _, b := range t.batches[:k] {
		for i := range b {
			b[i] = t.draw()
		}
	}
	return k * t.recipe.BatchSize, nil
}

// draw returns the index of the next pair: each once per epoch, in an order of
// the epoch's own.
func (t *Task) draw() int {
	n := len(t.learned)
	if epoch := t.next / n; epoch != t.epoch {
		t.epoch, t.order = epoch, make([]int, n)
		r := nn.NewRandom(nn.Mix(t.recipe.Seed, uint64(epoch)))
		for i := range t.order {
			j := int(r.Uniform() * float64(i+1))
			t.order[i], t.order[j] = t.order[j], i
		}
	}
	t.next++
	return t.order[(t.next-1)%n]
}

// Pass implements [train.Task].
func (t *Task) Pass(i int, scale float64, add bool) (loss float64, err error) {
	some := make([]example, len(t.batches[i]))
	for k, at := range t.batches[i] {
		some[k] = t.learned[at]
	}
	err = t.pass.TrainWeighted(t.fill(some), func(nats, factors []float64) {
		loss = t.judge(nats, len(some), scale, factors)
	}, add)
	return loss, err
}

// judge returns the loss of the first n pairs of the batch, given the policy's
// nats.
func (t *Task) judge(nats []float64, n int, scale float64, factors []float64) float64 {
	for row := range t.answers {
		t.answers[row].Nats = nats[row]
	}
	clear(factors)
	return t.recipe.Objective.Loss(t.answers[:n*t.recipe.Objective.Rows()], scale, factors)
}

// Refresh implements [train.Task].
func (t *Task) Refresh() { t.model.Refresh(t.pool) }

// Evaluate implements [train.Task]: the loss of held-out pairs, how many are in
// the right order and, of errands, how many calls are right.
func (t *Task) Evaluate() (train.Evaluation, error) {
	e, _, err := t.Try()
	if err == nil {
		t.last = &e
	}
	return e, err
}

// Verdict holds what the model does with a held-out pair.
type Verdict struct {
	Kind    string
	Prefers bool // the pair is in the right order
	Routes  bool // greedy decoding names the right tool
	Right   bool // greedy decoding gives the chosen answer
}

// The kinds of scores, after the kind of the errand.
const (
	preferScore = "prefers" // pairs in the right order
	routeScore  = "/tool"
	rightScore  = "/call"
)

// Try evaluates the held-out pairs and returns a verdict on each.
func (t *Task) Try() (train.Evaluation, []Verdict, error) {
	var e train.Evaluation
	if len(t.held) == 0 {
		return e, nil, errors.New("evaluation: no held-out pairs")
	}
	tally := train.Tally{}
	n, nats, factors := t.recipe.Objective.Rows(), make([]float64, len(t.answers)), make([]float64, len(t.answers))
	best := make([]int32, len(t.batch.Tokens))
	var all []Verdict
	for from := 0; from < len(t.held); from += t.recipe.BatchSize {
		some := t.held[from:min(from+t.recipe.BatchSize, len(t.held))]
		b := t.fill(some)
		b.Best = best
		if err := t.pass.Losses(b, nats); err != nil {
			return e, nil, err
		}
		e.Loss += t.judge(nats, len(some), 1, factors)
		for i, one := range some {
			v := verdict(one, best[i*n*t.recipe.SeqLen:], t.recipe.Objective.Prefers(t.answers[i*n], t.answers[i*n+1]))
			v.count(one, tally)
			all = append(all, v)
		}
	}
	e.Predictions = len(t.held)
	e.Loss /= float64(e.Predictions)
	e.Scores = tally.Scores()
	return e, all, nil
}

// verdict compares the likeliest tokens with the chosen answer.
func verdict(e example, best []int32, prefers bool) Verdict {
	v := Verdict{Kind: e.Kind, Prefers: prefers, Routes: true, Right: true}
	s := e.answers[0]
	for i := s.prompt; i < len(s.tokens); i++ {
		if best[i-1] != s.tokens[i] {
			v.Right = false
			v.Routes = v.Routes && i-s.prompt >= s.route
		}
	}
	return v
}

func (v Verdict) count(e example, tally train.Tally) {
	tally.Add(preferScore, "", v.Prefers)
	if e.Kind != "" {
		tally.Add(e.Kind+routeScore, e.Route, v.Routes)
		tally.Add(e.Kind+rightScore, e.Chosen, v.Right)
	}
}

// open opens the core of a recipe.
func (c Core) open(dir string, seed uint64) (*llm.Model[float32], *tokenizer.Tokenizer, error) {
	m, tok, err := train.OpenAdapted(train.Resolve(dir, c.Base), c.LoRA)
	if err != nil {
		return nil, nil, train.At("/core/base", err)
	}
	if c.Adapter != "" {
		if err := train.MergeAdapter(m, train.Resolve(dir, c.Adapter)); err != nil {
			return nil, nil, train.At("/core/adapter", err)
		}
	}
	if c.LoRA == nil {
		return m, tok, nil
	}
	if err := m.Adapt(*c.LoRA, seed); err != nil {
		return nil, nil, train.At("/core/lora", err)
	}
	if c.From != "" {
		if err := train.BeginAdapter(m, *c.LoRA, train.Resolve(dir, c.From)); err != nil {
			return nil, nil, train.At("/core/from", fmt.Errorf("%w", err))
		}
	}
	return m, tok, nil
}
