package study

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
)

// ChainDir is the folder of the chain in that of a run.
const ChainDir = "chain"

// The errors of this package.
var (
	// ErrExists reports that the folder holds a run.
	ErrExists = errors.New("run exists")
	// ErrBaseDiverged reports that no comparison is possible.
	ErrBaseDiverged = errors.New("the base diverged")
)

// Options for [Run].
type Options struct {
	Dir      string // folder of the run
	Resume   bool
	Key      chain.Signer
	Verifier chain.Verifier
	Runner   Runner           // nil: Local, one trial after the other
	AtOnce   int              // trials that Runner executes at the same time; 0: one
	Observer train.Observer   // of local trials; may be nil
	Now      func() time.Time // of the rows; nil: time.Now
	Energy   Meter            // of local trials; nil: the counters of this machine
	Files    fsx.Options      // for tests
	Each     func(chain.Row)  // if not nil, called with each new row
	Text     Texts            // of the study and its recipe
}

// Texts are the texts of a study and its recipe, which the first row holds.
type Texts struct{ Study, Recipe []byte }

// runner is a run in progress.
type runner struct {
	s    Study
	opt  Options
	log  *chain.Log
	at   *state
	part Parts
	pool *pending
}

// Run runs the trials of a study that have no row yet, and concludes.
func Run(ctx context.Context, s Study, opt Options) (Answer, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Runner != nil {
		opt.Energy = unknown{}
	} else {
		opt.Runner, opt.AtOnce = Local{Dir: opt.Dir, Observer: opt.Observer, Threads: s.Threads}, 1
	}
	if opt.Energy == nil {
		opt.Energy = Packages{}
	}
	r := &runner{s: s, opt: opt, at: newState()}
	if s.Budget.Joules > 0 {
		if _, err := opt.Energy.Read(); err != nil {
			var list diag.List
			list.Add(diag.StudyEnergy, s.doc.Pos("/budget/joules"), err.Error(), "")
			return Answer{}, list.Err()
		}
	}
	if _, err := os.Stat(filepath.Join(opt.Dir, ChainDir)); opt.Resume && err != nil {
		return Answer{}, fmt.Errorf("%s: %w: no run to resume", opt.Dir, chain.ErrNone)
	}
	log, err := chain.Open(ctx, filepath.Join(opt.Dir, ChainDir), opt.Key, opt.Verifier, opt.Files, r.at.apply)
	if err != nil {
		return Answer{}, err
	}
	r.log = log
	err = r.begin()
	if err == nil {
		err = r.loop(ctx)
	}
	var out Answer
	if err == nil {
		out = conclude(r.s, r.at)
	}
	return out, errors.Join(err, log.Close())
}

// begin writes the row that starts or resumes a run.
func (r *runner) begin() error {
	switch {
	case r.at.run != "" && !r.opt.Resume:
		return fmt.Errorf("%s: %w", r.opt.Dir, ErrExists)
	case r.at.run == "" && r.opt.Resume && r.log.Last().Seq > 0:
		return fmt.Errorf("%s: chain without a run", r.opt.Dir)
	case r.at.run == "":
		return r.fresh()
	}
	if err := r.same(); err != nil {
		return err
	}
	if r.at.ended != "" {
		return nil
	}
	ok, err := r.part.present(r.opt.Dir)
	if err != nil {
		return err
	}
	if !ok {
		if err := r.restore(); err != nil {
			return err
		}
	}
	return r.row(Resumed, Payload{})
}

// fresh writes the parts and the first row.
func (r *runner) fresh() error {
	parts, err := r.s.prepare(r.opt.Dir, r.opt.Files)
	if err != nil {
		return err
	}
	r.part = parts
	var id [6]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	r.at.run = ""
	return r.rowOf(r.s.Name+"-"+hex.EncodeToString(id[:]), Started, Payload{Study: string(r.opt.Text.Study), Recipe: string(r.opt.Text.Recipe), Parts: &parts})
}

// restore writes the parts again and compares them with those of the first row.
func (r *runner) restore() error {
	parts, err := r.s.prepare(r.opt.Dir, r.opt.Files)
	if err != nil {
		return err
	}
	var list diag.List
	for _, name := range sortedKeys(r.part.Files) {
		if parts.Files[name] != r.part.Files[name] {
			list.Add(diag.StudyText, diag.Pos{File: filepath.Join(r.opt.Dir, filepath.FromSlash(name))},
				fmt.Sprintf("got %.12s…, the first row has %.12s…", parts.Files[name], r.part.Files[name]), "")
		}
	}
	return list.Err()
}

// row appends a row of the run.
func (r *runner) row(event string, p Payload) error { return r.rowOf(r.at.run, event, p) }

func (r *runner) rowOf(run, event string, p Payload) error {
	row, err := r.log.Append(r.opt.Now().UTC().Format(time.RFC3339Nano), run, event, p)
	if err != nil {
		return err
	}
	if r.opt.Each != nil {
		r.opt.Each(row)
	}
	return r.at.apply(row)
}

// loop executes the actions of the plan in its order. Trials that the next one does not wait
// for run ahead of their rows.
func (r *runner) loop(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	r.pool = &pending{runner: r.opt.Runner, most: r.opt.AtOnce, trials: map[string]*future{}}
	defer r.pool.wait()
	defer cancel()
	for r.at.ended == "" {
		if err := ctx.Err(); err != nil {
			return err
		}
		if d := r.at.diverged(BaseArm); d != "" {
			return fmt.Errorf("%w: %s: no arm can be compared with it", ErrBaseDiverged, d)
		}
		next := plan{r.s, r.at}
		a := next.next()
		err := r.ahead(ctx, next, a)
		if err != nil {
			return err
		}
		switch a.event {
		case Trained:
			err = r.trial(ctx, a)
		case Judged:
			err = r.judge(ctx, a)
		case Ended:
			err = r.row(Ended, Payload{Answer: conclude(r.s, r.at).digest()})
		default:
			err = r.row(a.event, a.row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trial executes a trial and writes its row.
func (r *runner) trial(ctx context.Context, a action) error {
	spec, err := r.s.spec(r.part, a.arm, a.seed, a.rung, chooseFile)
	if err != nil {
		return err
	}
	before, metered := r.opt.Energy.Read()
	result, took, err := r.pool.run(ctx, spec)
	if err != nil {
		return fmt.Errorf("arm %s, seed %d: %w", a.arm.Name, a.seed, err)
	}
	p := Payload{Arm: a.arm.Name, Seed: a.seed, Rung: a.rung, Result: result, Seconds: took.Seconds()}
	if after, err := r.opt.Energy.Read(); metered == nil && err == nil {
		p.Joules = after.since(before)
	} else if r.s.Budget.Joules > 0 {
		return errors.Join(errors.New("energy is not readable any more"), metered, err)
	}
	if err := verify(spec, result); err != nil {
		return err
	}
	return r.row(Trained, p)
}

// verify checks that a result is that of the spec.
func verify(spec, result []byte) error {
	var res Result
	if err := json.Unmarshal(result, &res); err != nil {
		return fmt.Errorf("result of a trial: %w", err)
	}
	sum := sha256.Sum256(spec)
	if want := hex.EncodeToString(sum[:]); res.Spec != want {
		return fmt.Errorf("result of another trial: got %.12s…, want %.12s…", res.Spec, want)
	}
	return nil
}

// judge scores an arm on the sealed documents and writes its row.
func (r *runner) judge(ctx context.Context, a action) error {
	if a.rung == 0 {
		return r.count(a.arm.Name)
	}
	spec, err := r.s.spec(r.part, a.arm, a.seed, a.rung, judgeFile)
	if err != nil {
		return err
	}
	result, _, err := r.pool.run(ctx, spec)
	if err == nil {
		err = verify(spec, result)
	}
	if err != nil {
		return fmt.Errorf("arm %s, seed %d: %w", a.arm.Name, a.seed, err)
	}
	return r.row(Judged, Payload{Arm: a.arm.Name, Seed: a.seed, Result: result})
}

// count scores a model of token counts on the sealed documents.
func (r *runner) count(order string) error {
	spec, err := r.s.spec(r.part, r.s.Arms[0], r.s.Seeds[0], r.s.Tokens, judgeFile)
	if err != nil {
		return err
	}
	all, err := countTokens(spec, r.opt.Dir)
	if err != nil {
		return err
	}
	res := Result{Spec: digestOf(order)}
	for _, b := range all {
		n := map[string]float64{"unigram": b.Unigram, "bigram": b.Bigram, "trigram": b.Trigram}[order]
		res.Nats, res.Counts, res.Bytes = append(res.Nats, n*float64(b.Predictions)), append(res.Counts, b.Predictions), append(res.Bytes, 0)
	}
	text, err := json.Marshal(res)
	if err != nil {
		return err
	}
	return r.row(Judged, Payload{Arm: order, Result: text})
}

// countTokens measures models of token counts on the documents that a spec scores on.
func countTokens(spec []byte, dir string) ([]dataset.Baselines, error) {
	s, cfg, err := parseSpec(spec)
	if err != nil {
		return nil, err
	}
	cfg.Data.Cache = "cache"
	corpus, err := train.Prepare(cfg, dir)
	if err != nil {
		return nil, err
	}
	defer corpus.Close()
	docs, err := readDocuments(filepath.Join(dir, filepath.FromSlash(s.Score)))
	if err != nil {
		return nil, err
	}
	tokens, err := dataset.EncodeEach(docs, corpus.Tokenizer, dataset.EncodeOptions{Special: cfg.Data.Special})
	if err != nil {
		return nil, err
	}
	return dataset.NGramsOf(corpus.Train, tokens, cfg.Model.Vocab)
}

// Trials returns the trials of a study that run to the end, in order, and the files that
// they read, which it writes into dir. A scheduler of kind grid executes all of them.
func Trials(s Study, dir string) ([][]byte, Parts, error) {
	parts, err := s.prepare(dir, fsx.Options{})
	if err != nil {
		return nil, parts, err
	}
	var out [][]byte
	for _, a := range append(append([]Arm{}, s.Arms...), s.gridArms()...) {
		if a.Same != "" {
			continue
		}
		for _, seed := range s.Seeds {
			tokens := s.Tokens
			if a.Tokens > 0 {
				tokens = a.Tokens
			}
			spec, err := s.spec(parts, a, seed, tokens, chooseFile)
			if err != nil {
				return nil, parts, err
			}
			out = append(out, spec)
		}
	}
	return out, parts, nil
}
