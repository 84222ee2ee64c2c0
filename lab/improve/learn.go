package improve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
	"mm-abi.org/mm/train/optim"
	"mm-abi.org/mm/train/preference"
)

// The files of a round.
const (
	learnedFile = "learned.txt" // documents, or pairs as JSON lines
	trainFolder = "train"
	modelFile   = "model.gguf" // the round's model, its adapters merged
)

// document is a question with its program.
type document struct{ question, program string }

// texts returns documents as the text that mm train reads: a line each, the
// question as context.
func texts(all []document) []byte {
	var out []byte
	for _, d := range all {
		out = append(out, dataset.ContextOpen+d.question+dataset.ContextClose+d.program+dataset.Separator+"\n"...)
	}
	return out
}

// errSame ends a run of SPIN: there is nothing to prefer.
var errSame = errors.New("no answer differs from the known program")

// pair is a line of learnedFile of SPIN.
type pair struct {
	Prompt   string `json:"prompt"`
	Chosen   string `json:"chosen"`
	Rejected string `json:"rejected"`
}

// gold returns the known program of a question as an answer.
func gold(e synth.Errand) string { return " " + callOpen + e.Call + callClose }

// hinted returns a question with its answer as a hint.
func hinted(e synth.Errand) string { return e.Ask + " (" + e.Answer + ")" }

// learn trains the model of a round, which may have begun in an earlier
// session.
func (r *runner) learn(ctx context.Context, one *Round) (*llm.Model[float32], error) {
	d, err := fsx.Create(r.folder(one.Round), 0o755, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if r.spec.Method.tunes() && one.Round == 0 {
		m, _, err := train.OpenBase(train.Resolve(r.opt.From, r.spec.Core))
		if err != nil {
			return nil, err
		}
		return m, r.export(d, m, nil)
	}
	spin := r.spec.Method == SPIN && one.Round > 0
	var lines []byte
	switch {
	case spin:
		lines, err = r.pairs(ctx, one)
	case r.spec.Method.tunes():
		lines, err = r.lessons(ctx, one)
	default:
		lines, err = r.documents(ctx, one)
	}
	if err != nil {
		return nil, err
	}
	if err := d.WriteFile(learnedFile, lines, 0o644); err != nil {
		return nil, err
	}
	one.Learned = bytes.Count(lines, []byte{'\n'})
	var m *llm.Model[float32]
	if spin {
		m, err = r.prefer(ctx, one.Round)
	} else {
		m, err = r.imitate(ctx, one.Round)
	}
	if err != nil {
		return nil, err
	}
	if r.spec.Method.tunes() {
		if one.Sealed, err = r.sealed(m); err != nil {
			return nil, err
		}
	}
	m.Merge()
	return m, r.export(d, m, lines)
}

// export completes the folder of a round with its model and the text that it learned.
func (r *runner) export(d *fsx.Dir, m *llm.Model[float32], learned []byte) error {
	if learned == nil {
		if err := d.WriteFile(learnedFile, nil, 0o644); err != nil {
			return err
		}
	}
	return fsx.Replace(filepath.Join(d.Path(), modelFile), 0o644, func(w io.Writer) error { return train.ExportGGUF(w, m, r.tok, nil) })
}

// model reads the model of a complete round.
func (r *runner) model(n int) (*llm.Model[float32], error) {
	m, _, err := train.OpenBase(filepath.Join(r.folder(n), modelFile))
	return m, err
}

// documents returns the documents of a round: the examples, with and without
// hints, and, after round 0, what the last round answered right.
func (r *runner) documents(ctx context.Context, one *Round) ([]byte, error) {
	var all []document
	for _, e := range r.examples {
		all = append(all, document{e.Ask, gold(e)})
		if *r.spec.Hints && r.spec.Method == STaR {
			all = append(all, document{hinted(e), gold(e)})
		}
	}
	if one.Round == 0 {
		return texts(all), nil
	}
	m, err := r.model(one.Round - 1)
	if err != nil {
		return nil, err
	}
	s := newSampler(m, r.tok, r.workers)
	one.Sampled = len(r.questions)
	kept, rest, err := r.try(ctx, s, r.questions, r.spec.Samples, uint64(one.Round), func(e synth.Errand) string { return e.Ask })
	if err != nil {
		return nil, err
	}
	one.Right = len(r.questions) - len(rest)
	if *r.spec.Hints {
		again, still, err := r.try(ctx, s, rest, 1, uint64(one.Round), hinted)
		if err != nil {
			return nil, err
		}
		one.Hinted = len(rest) - len(still)
		kept = append(kept, again...)
	}
	return texts(append(all, kept...)), nil
}

// try answers questions several times each and returns the distinct right
// programs and the questions without one.
func (r *runner) try(ctx context.Context, s *sampler, questions []synth.Errand, samples int, round uint64, ask func(synth.Errand) string) (kept []document, rest []synth.Errand, err error) {
	var prompts []prompt
	for i, e := range questions {
		for k := range samples {
			p := prompt{text: ask(e), seed: nn.Mix(nn.Mix(r.spec.Seed, round), uint64(i*maxSamples+k))}
			if k > 0 {
				p.temperature = r.spec.Temperature
			}
			prompts = append(prompts, p)
		}
	}
	answers, err := s.answers(ctx, prompts)
	if err != nil {
		return nil, nil, err
	}
	for i, e := range questions {
		seen := map[string]bool{}
		for _, a := range answers[i*samples : (i+1)*samples] {
			ok, err := r.verify.right(ctx, e, a)
			if err != nil {
				return nil, nil, err
			}
			if ok && !seen[a] {
				seen[a] = true
				kept = append(kept, document{e.Ask, a})
			}
		}
		if len(seen) == 0 {
			rest = append(rest, e)
		}
	}
	return kept, rest, nil
}

// pairs returns the known programs of the examples paired with the answers of the
// last round, where they differ. An answer whose tokens exceed the model's
// positions is skipped: its text may have more tokens than were sampled.
func (r *runner) pairs(ctx context.Context, one *Round) ([]byte, error) {
	m, err := r.model(one.Round - 1)
	if err != nil {
		return nil, err
	}
	one.Sampled = len(r.examples)
	prompts := make([]prompt, len(r.examples))
	for i, e := range r.examples {
		prompts[i] = prompt{text: e.Ask, temperature: r.spec.Temperature, seed: nn.Mix(nn.Mix(r.spec.Seed, uint64(one.Round)), uint64(i))}
	}
	answers, err := newSampler(m, r.tok, r.workers).answers(ctx, prompts)
	if err != nil {
		return nil, err
	}
	var all []any
	for i, e := range r.examples {
		ok, err := r.verify.right(ctx, e, answers[i])
		if err != nil {
			return nil, err
		}
		if ok {
			one.Right++
		}
		switch {
		case answers[i] == "" || r.length(e.Ask, answers[i]) > positions:
			one.Skipped++
		case answers[i] != gold(e):
			all = append(all, pair{e.Ask, gold(e), answers[i]})
		}
	}
	if len(all) == 0 {
		return nil, errSame
	}
	return jsonLines(all)
}

// length returns the number of positions of a question with an answer and its end,
// as train/preference encodes them.
func (r *runner) length(question, answer string) int {
	ids := r.tok.Append(nil, question, tokenizer.Options{Add: true, Special: true})
	return len(r.tok.Append(ids, answer, tokenizer.Options{Special: true}))
}

func jsonLines(all []any) ([]byte, error) {
	var out []byte
	for _, v := range all {
		line, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

// begun reports whether training in a folder has a checkpoint to resume from.
func begun(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, train.LastFile))
	return err == nil
}

// imitate adapts the core to documents.
func (r *runner) imitate(ctx context.Context, n int) (*llm.Model[float32], error) {
	s, folder := r.spec, r.folder(n)
	core, err := filepath.Abs(train.Resolve(r.opt.From, s.Core))
	if err != nil {
		return nil, err
	}
	lora := s.LoRA
	cfg := train.Config{
		Name: s.Name, Seed: nn.Mix(s.Seed, 4) >> 12, Model: r.shape, Base: core, LoRA: &lora, Tokenizer: train.Tokenizer{File: core},
		Data:      train.Data{Files: []string{learnedFile}, Special: true},
		BatchSize: s.Batch, SeqLen: positions, Optimizer: train.Optimizer{Rate: s.Rate}, Schedule: optim.Schedule{Kind: "cosine", Warmup: s.Steps / 10, Floor: 0.05},
		Stop: train.Stop{Steps: s.Steps}, Eval: train.Eval{Windows: 1}, SaveEvery: max(s.Steps/4, 1), Threads: s.Threads,
	}
	corpus, err := train.Prepare(cfg, folder)
	if err != nil {
		return nil, err
	}
	defer corpus.Close()
	opt := train.Options{Dir: filepath.Join(folder, trainFolder), From: folder}
	t, err := train.RunFolder(ctx, cfg, corpus, begun(opt.Dir), opt)
	if err != nil {
		return nil, err
	}
	return t.Model(), t.Close()
}

// prefer adapts the model of the last round to pairs.
func (r *runner) prefer(ctx context.Context, n int) (*llm.Model[float32], error) {
	s, folder := r.spec, r.folder(n)
	lora := s.LoRA
	recipe := preference.Recipe{
		Name: s.Name, Stage: preference.Preference, Seed: nn.Mix(s.Seed, 5) >> 12,
		Core:      preference.Core{Base: filepath.Join("..", filepath.Base(r.folder(n-1)), modelFile), LoRA: &lora},
		Objective: preference.Objective{Kind: preference.DPO, Beta: s.Beta, SFT: s.SFT},
		Data:      preference.Data{Files: []string{learnedFile}, HeldOut: -1, ControlTokens: true},
		BatchSize: s.Batch, SeqLen: positions,
		Settings: train.Settings{Optimizer: train.Optimizer{Rate: s.Preference}, Schedule: optim.Schedule{Kind: "cosine", Warmup: s.Steps / 10, Floor: 0.05},
			Stop: train.Stop{Steps: s.Steps}, SaveEvery: max(s.Steps/4, 1), Threads: s.Threads},
	}
	opt := train.Options{Dir: filepath.Join(folder, trainFolder), From: folder}
	t, err := preference.RunFolder(ctx, recipe, begun(opt.Dir), opt)
	if err != nil {
		return nil, err
	}
	return t.Task.Model(), t.Close()
}
