package improve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/llm"
)

// The files of a run.
const (
	specFile    = "spec.json"
	resultFile  = "result.json"
	SummaryFile = "summary.json"
)

// maxResult bounds a file of a run, in bytes.
const maxResult = 1 << 20

// ErrOther is returned for a folder with the run of another spec.
var ErrOther = errors.New("holds a run of another spec")

// Round is the result of a round.
type Round struct {
	Round   int    `json:"round"`
	Sampled int    `json:"sampled,omitempty"` // questions tried
	Right   int    `json:"right,omitempty"`   // of them, with a right program
	Hinted  int    `json:"hinted,omitempty"`  // of the rest, right with the answer as a hint
	Learned int    `json:"learned"`           // documents or pairs of the round's training
	Skipped int    `json:"skipped,omitempty"` // SPIN: answers too long for the model
	Choice  string `json:"choice"`            // the questions of the choice in order: 1 is right
	Held    string `json:"held"`              // the held-out questions in order: 1 is right
	// Teacher is the number of held-out questions with a right program of the teacher.
	Teacher int `json:"teacher,omitempty"`
	// Sealed is the core without the trained adapters. Of tuning only.
	Sealed *train.Seal `json:"sealed,omitempty"`
	// Start and Last compare the held-out answers with round 0 and with the
	// round before.
	Start train.Change `json:"start"`
	Last  train.Change `json:"last"`
}

// Accuracy returns the share of right held-out answers.
func (r Round) Accuracy() float64 { return float64(r.Start.After) / float64(max(r.Start.N, 1)) }

// right returns the number of right answers in the choice.
func (r Round) right() int { return strings.Count(r.Choice, "1") }

// Summary is the result of a run.
type Summary struct {
	Spec   Spec    `json:"spec"`
	Rounds []Round `json:"rounds"`
	Best   int     `json:"best"` // the round with the most right answers in the choice, the first of equals
	Reason string  `json:"reason"`
	// Change is that of the held-out answers from round 0 to the best round,
	// with its 95 % interval; Helps reports that the interval is above 0.
	Change train.Change `json:"change"`
	Low    float64      `json:"low"`
	High   float64      `json:"high"`
	Helps  bool         `json:"helps"`
}

// Options configure a run.
type Options struct {
	Dir, From string      // folder of the run; folder of the spec's paths
	Resume    bool        // continue the run of the folder, which is [train.ErrHeld] otherwise
	Say       func(Round) // after each round, also those of an earlier session
	Copies    Copies      // of complete rounds, from which a resumed run takes those that the folder lacks. Nil: none
	Warn      func(error) // receives failures to copy, which do not end the run. Nil: none
}

// runner holds the state of a run.
type runner struct {
	spec    Spec
	opt     Options
	tok     *tokenizer.Tokenizer
	shape   llm.Config
	verify  *verifier
	workers *pool.Pool
	copied  int // rounds that the copies hold

	examples, questions, choice, held []synth.Errand
}

// Run runs the rounds of a spec in opt.Dir, or those that it lacks.
func Run(ctx context.Context, spec Spec, opt Options) (Summary, error) {
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return Summary{}, err
	}
	r := &runner{spec: spec, opt: opt, workers: pool.New(spec.Threads)}
	defer r.workers.Close()
	if err := r.open(ctx); err != nil {
		return Summary{}, err
	}
	defer r.verify.guest.Close()
	return r.run(ctx)
}

// open checks the folder and draws the questions.
func (r *runner) open(ctx context.Context) error {
	d, err := fsx.Create(r.opt.Dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	s := r.spec
	s.Threads = 0 // does not change the result
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := r.fetch(ctx, text); err != nil {
		return err
	}
	old, err := fsx.ReadFile(filepath.Join(r.opt.Dir, specFile), maxResult)
	switch {
	case err == nil && !r.opt.Resume:
		err = fmt.Errorf("%s %w", r.opt.Dir, train.ErrHeld)
	case errors.Is(err, os.ErrNotExist):
		err = d.WriteFile(specFile, text, 0o644)
	case err == nil && string(old) != string(text):
		err = fmt.Errorf("%s %w", r.opt.Dir, ErrOther)
	}
	if err != nil {
		return err
	}
	m, tok, err := train.OpenBase(train.Resolve(r.opt.From, s.Core))
	if err != nil {
		return train.At("/core", err)
	}
	r.tok, r.shape = tok, m.Config
	if m.Config.Context < positions || tok.Special().EOS == tokenizer.None {
		return train.Atf("/core", "core with %d positions: want at least %d, and an EOS", m.Config.Context, positions)
	}
	r.examples = s.draw(1, s.Examples, false, synth.Varied)
	r.questions = s.draw(2, s.Questions, false, synth.Varied)
	r.held = s.draw(3, s.HeldOut, true, synth.Unseen)
	if !s.Method.tunes() {
		r.choice = s.draw(6, s.Choice, true, synth.Unseen)
	}
	r.verify, err = newVerifier(ctx)
	return err
}

func (r *runner) run(ctx context.Context) (Summary, error) {
	sum := Summary{Spec: r.spec, Reason: "rounds"}
	idle := 0
	for n := 0; n <= r.spec.Rounds; n++ {
		one, err := r.round(ctx, n, sum.Rounds)
		if errors.Is(err, errSame) {
			sum.Reason = errSame.Error()
			break
		}
		if err != nil {
			return sum, fmt.Errorf("round %d: %w", n, err)
		}
		sum.Rounds = append(sum.Rounds, one)
		r.save(ctx, len(sum.Rounds))
		if r.opt.Say != nil {
			r.opt.Say(one)
		}
		if idle++; n == 0 || one.right() > sum.Rounds[sum.Best].right() {
			sum.Best, idle = n, 0
		}
		if idle >= r.spec.Patience {
			sum.Reason = "no help"
			break
		}
	}
	if r.spec.Method.tunes() {
		sum.Best = len(sum.Rounds) - 1 // nothing was chosen
	}
	sum.Change = sum.Rounds[sum.Best].Start
	sum.Low, sum.High = sum.Change.Interval()
	sum.Helps = sum.Best > 0 && sum.Low > 0
	return sum, writeJSON(filepath.Join(r.opt.Dir, SummaryFile), sum)
}

// folder returns the folder of a round.
func (r *runner) folder(n int) string { return filepath.Join(r.opt.Dir, folderName(n)) }

func folderName(n int) string { return fmt.Sprintf("round-%d", n) }

// round returns the result of a round, which it reads if the round is complete.
func (r *runner) round(ctx context.Context, n int, before []Round) (Round, error) {
	path := filepath.Join(r.folder(n), resultFile)
	var one Round
	data, err := fsx.ReadFile(path, maxResult)
	if err == nil {
		if err = json.Unmarshal(data, &one); err == nil && (one.Round != n || len(one.Held) != len(r.held) || len(one.Choice) != len(r.choice)) {
			err = errors.New("other questions")
		}
		if err != nil {
			return one, fmt.Errorf("%s: %w", path, err)
		}
		return one, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return one, err
	}
	one.Round = n
	m, err := r.learn(ctx, &one)
	if err != nil {
		return one, err
	}
	if one.Choice, err = r.examine(ctx, m, r.tok, r.choice); err != nil {
		return one, err
	}
	if one.Held, err = r.examine(ctx, m, r.tok, r.held); err != nil {
		return one, err
	}
	start, last := one.Held, one.Held
	if n > 0 {
		start, last = before[0].Held, before[n-1].Held
	}
	one.Start, one.Last = compare("round 0", start, one.Held), compare("last round", last, one.Held)
	return one, writeJSON(path, one)
}

// examine answers questions greedily and returns the verdicts.
func (r *runner) examine(ctx context.Context, m *llm.Model[float32], tok *tokenizer.Tokenizer, questions []synth.Errand) (string, error) {
	prompts := make([]prompt, len(questions))
	for i, e := range questions {
		prompts[i].text = e.Ask
	}
	answers, err := r.sampler(m, tok).answers(ctx, prompts)
	if err != nil {
		return "", err
	}
	marks := make([]byte, len(answers))
	for i, a := range answers {
		ok, err := r.right(ctx, questions[i], a)
		if err != nil {
			return "", err
		}
		marks[i] = '0'
		if ok {
			marks[i] = '1'
		}
	}
	return string(marks), nil
}

// compare counts two lists of verdicts on the same questions.
func compare(kind, before, after string) train.Change {
	c := train.Change{Kind: kind}
	for i := range after {
		c.Add(before[i] == '1', after[i] == '1')
	}
	return c
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return fsx.WriteFile(path, append(data, '\n'), 0o644)
}
