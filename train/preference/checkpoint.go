package preference

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
)

// TaskKind is the task kind of the checkpoints.
const TaskKind = "preference"

// referenceName is the name of the reference's losses in a checkpoint, float32
// pairs of high and low part.
const referenceName = "reference.nats"

// Header is the task header of a checkpoint.
type Header struct {
	Recipe     Recipe            `json:"recipe"`
	From       string            `json:"from"` // folder of the recipe, relative to the checkpoint's
	Vocabulary string            `json:"vocabulary"`
	Pairs      string            `json:"pairs"`          // digest of the pairs
	Reference  string            `json:"reference"`      // digest of the reference's weights
	Answers    int               `json:"answers"`        // of which the reference's losses are in the file
	Next       int               `json:"next"`           // pairs drawn
	Held       *train.Evaluation `json:"held,omitempty"` // the last evaluation
}

// Checkpoint is an open checkpoint of a [Task].
type Checkpoint struct {
	*train.Checkpoint
	Preference Header
}

// OpenCheckpoint maps the checkpoint at path and validates its untrusted
// header.
func OpenCheckpoint(path string) (*Checkpoint, error) {
	c, h, err := train.OpenAs(path, parseHeader)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{c, h}, nil
}

func parseHeader(of train.Header) (Header, error) {
	var h Header
	if err := of.Decode(TaskKind, &h); err != nil {
		return h, err
	}
	if err := h.Recipe.Validate(); err != nil {
		return h, fmt.Errorf("recipe: %w", err)
	}
	h.Recipe = h.Recipe.WithDefaults()
	if h.Next < 0 || h.Answers < 0 || h.Answers > 2*maxPairs*3 {
		return h, errors.New("count out of range in header")
	}
	return h, nil
}

// Dir returns the folder of the recipe's paths.
func (c *Checkpoint) Dir() string { return c.Folder(c.Preference.From) }

// Core returns the model of the checkpoint. dir is the folder of the recipe's
// paths, by default as recorded.
func (c *Checkpoint) Core(dir string) (*llm.Model[float32], error) {
	if dir == "" {
		dir = c.Dir()
	}
	core := c.Preference.Recipe.Core
	core.From = ""
	m, _, err := core.open(dir, c.Preference.Recipe.Seed)
	if err != nil {
		return nil, err
	}
	if err := c.ReadInto(m.Tensors()); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", c.Path(), err)
	}
	m.Stale()
	return m, nil
}

// State implements [train.Task].
func (t *Task) State() (train.State, error) {
	nats := t.nats()
	return train.State{
		Kind: TaskKind,
		Header: Header{
			Recipe: t.recipe, From: t.from, Vocabulary: dataset.TokenizerDigest(t.tok), Pairs: t.pairs, Reference: t.reference,
			Answers: len(nats), Next: t.next, Held: t.last,
		},
		Tensors: []safetensors.Source{{Name: referenceName, DType: safetensors.F32, Shape: []int{2 * len(nats)}, Data: safetensors.Bytes(halves(nats))}},
	}, nil
}

// nats lists the reference's losses.
func (t *Task) nats() []float64 {
	var all []float64
	for _, list := range [][]example{t.learned, t.held} {
		for _, e := range list {
			all = append(all, e.nats...)
		}
	}
	return all
}

// halves encodes each number as the bits of a float64 in two float32, so that a
// checkpoint has one element type.
func halves(x []float64) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// goOn restores the position and the reference's losses from a checkpoint.
func (t *Task) goOn(c *Checkpoint) error {
	h := c.Preference
	switch {
	case h.Vocabulary != dataset.TokenizerDigest(t.tok):
		return fmt.Errorf("checkpoint %s: tokenizer of the core has changed", c.Path())
	case h.Pairs != t.pairs:
		return fmt.Errorf("checkpoint %s: pairs have changed: sha256 %s, want %s", c.Path(), t.pairs, h.Pairs)
	case h.Answers != len(t.nats()):
		return fmt.Errorf("checkpoint %s: reference has %d losses, want %d", c.Path(), h.Answers, len(t.nats()))
	}
	raw := make([]float32, 2*h.Answers)
	if err := c.Read(referenceName, raw, []int{len(raw)}); err != nil {
		return err
	}
	at := 0
	for _, list := range [][]example{t.learned, t.held} {
		for _, e := range list {
			for i := range e.nats {
				e.nats[i] = math.Float64frombits(uint64(math.Float32bits(raw[at])) | uint64(math.Float32bits(raw[at+1]))<<32)
				at += 2
			}
		}
	}
	t.next, t.reference = h.Next, h.Reference
	return nil
}

// Trainer is the trainer of a [Task].
type Trainer struct {
	*train.Trainer
	Task *Task
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
	r := c.Preference.Recipe
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
	t, err := open(r, opt, from, func(core Core) (*Task, error) {
		m, tok, err := core.open(opt.From, r.Seed)
		if err != nil {
			return nil, err
		}
		learned, held, err := r.pairs(opt.From, m, tok, workers)
		if err != nil {
			return nil, err
		}
		return newTask(r, m, tok, learned, held, workers)
	})
	if err != nil {
		workers.Close()
		return nil, err
	}
	var trainer *train.Trainer
	if from == nil {
		trainer, err = train.New(r.run(), t, workers, opt)
	} else {
		trainer, err = train.Resume(from.Checkpoint, r.run(), t, workers, opt)
	}
	if err != nil {
		return nil, err
	}
	return &Trainer{trainer, t}, nil
}

// open builds the task and its reference.
func open(r Recipe, opt train.Options, from *Checkpoint, build func(Core) (*Task, error)) (*Task, error) {
	t, err := build(r.Core)
	if err != nil {
		return nil, err
	}
	t.from = train.Way(opt.Dir, opt.From)
	if from != nil {
		return t, t.goOn(from)
	}
	return t, t.refer()
}

// RunFolder trains the recipe in the folder opt.Dir, as [train.RunFolder] does
// a language model. The caller closes the returned trainer.
func RunFolder(ctx context.Context, r Recipe, resume bool, opt train.Options) (*Trainer, error) {
	r = r.WithDefaults()
	if resume {
		opt.Resumed = &train.Resumed{Recipe: r, Stop: r.Stop, Threads: r.Threads}
	}
	return train.InFolder(ctx, resume, opt,
		func(opt train.Options) (*Trainer, error) { return New(r, opt) },
		Resume)
}
