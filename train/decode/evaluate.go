package decode

import (
	"context"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/nn"
)

// Look selects the prompt for which the judged output is generated.
type Look string

// The looks.
const (
	Actual  Look = ""        // the prompt of the target
	Another Look = "another" // the prompt of another example
)

// Name returns the look in words.
func (l Look) Name() string {
	if l == Actual {
		return "its own"
	}
	return string(l)
}

// Trial configures an evaluation. N must be set.
type Trial struct {
	N    int // held-out examples
	Look Look
}

// Evaluate implements [train.Task].
func (d *Decoding) Evaluate() (train.Evaluation, error) {
	e, err := d.Try(Trial{N: d.recipe.Eval.N})
	if err == nil {
		d.last = &e
	}
	return e, err
}

// Try evaluates the decoder on held-out prompts without training: the mean loss
// and, if the source can judge, how often the output is right.
func (d *Decoding) Try(t Trial) (train.Evaluation, error) {
	var e train.Evaluation
	tally := train.Tally{}
	judge, judges := d.held.(Judge)
	b := make([]example, d.recipe.BatchSize)
	var sum float64
	for from := 0; from < t.N; from += len(b) {
		n := min(len(b), t.N-from)
		b = b[:n]
		err := d.fill(b, d.held, 0, func(i int) (int, int, *nn.Random) {
			i += from
			r := nn.NewRandom(nn.Mix(^d.recipe.Seed, uint64(i)))
			if t.Look == Another {
				i += t.N // beyond all evaluated examples
			}
			return i, -1, r
		})
		if err != nil {
			return e, err
		}
		for s := range b {
			d.learner.give(s, &b[s])
		}
		sum += d.learner.loss(n, 1, false)
		e.Predictions += n * d.outShape.Rows * d.outShape.Cols
		if judges {
			d.judge(judge, tally, d.learner.make(n), from, n)
		}
	}
	e.Loss = sum / float64(e.Predictions)
	e.Scores = tally.Scores()
	return e, nil
}

// judge counts the verdicts on the output for n samples from one on.
func (d *Decoding) judge(judge Judge, tally train.Tally, y nn.Matrix[float32], from, n int) {
	verdicts := make([][]Verdict, n)
	d.pool.For(n, 1, pool.Func(func(_, lo, hi int) {
		for s := lo; s < hi; s++ {
			verdicts[s] = judge.Judge(from+s, flat(nil, d.learner.part(y, s)))
		}
	}))
	for _, list := range verdicts {
		for _, v := range list {
			tally.Add(v.Kind, v.Want, v.Want == v.Got)
		}
	}
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

// MeasureOptions configure a measurement.
type MeasureOptions struct {
	N       int    // held-out examples
	Dir     string // folder of the recipe's paths; "": as recorded in the checkpoint
	Threads int    // 0: all of the machine
}

// Measure evaluates the checkpoint at path on held-out prompts, for each of the
// looks. It writes nothing.
func Measure(ctx context.Context, path string, looks []Look, opt MeasureOptions) ([]train.Evaluation, error) {
	c, err := OpenCheckpoint(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if opt.Dir == "" {
		opt.Dir = c.Dir()
	}
	workers := pool.New(opt.Threads)
	defer workers.Close()
	d, err := newDecoding(c.Decoding.Recipe, opt.Dir, workers, false)
	if err != nil {
		return nil, err
	}
	for _, t := range d.tensors {
		if err := c.Read(t.Name, t.Data, t.Shape); err != nil {
			return nil, err
		}
	}
	d.Refresh()
	var all []train.Evaluation
	for _, look := range looks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := d.Try(Trial{N: opt.N, Look: look})
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}
