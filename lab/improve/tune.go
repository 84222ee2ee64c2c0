package improve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// conclusion begins an answer in words, also that of a trace.
const conclusion = " The answer is "

// terms returns the numbers of an errand that only adds.
func terms(e synth.Errand) ([]int, bool) {
	var c struct {
		Args struct {
			Expr string `json:"expr"`
		} `json:"args"`
	}
	if e.Kind != synth.Arithmetic || json.Unmarshal([]byte(e.Call), &c) != nil {
		return nil, false
	}
	var out []int
	for _, text := range strings.Split(c.Args.Expr, "+") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, false
		}
		out = append(out, n)
	}
	return out, len(out) > 1
}

// thought returns the steps to a sum, from the last digits to the first, the carry
// last in each: those to 12+9 are " 2+9=11, 1+1=2.".
func thought(numbers []int) string {
	rest, carry := slices.Clone(numbers), 0
	var steps []string
	for {
		var digits []string
		sum := carry
		for i, n := range rest {
			if n > 0 || len(steps) == 0 {
				digits = append(digits, strconv.Itoa(n%10))
			}
			sum += n % 10
			rest[i] = n / 10
		}
		if len(digits) == 0 {
			break // the carry is in the sum before
		}
		if carry > 0 {
			digits = append(digits, strconv.Itoa(carry))
		}
		steps = append(steps, strings.Join(digits, "+")+"="+strconv.Itoa(sum))
		carry = sum / 10
	}
	return " " + strings.Join(steps, ", ") + "."
}

// lesson returns the answer to a question that the method teaches.
func (s Spec) lesson(e synth.Errand) string {
	sentence := conclusion + e.Answer + "."
	switch numbers, _ := terms(e); s.Method {
	case CoT:
		return thought(numbers) + sentence
	case Answers:
		return sentence
	}
	return gold(e)
}

// lessons returns the documents of a run that tunes.
func (r *runner) lessons(ctx context.Context, one *Round) ([]byte, error) {
	if r.spec.Method == Distill {
		return r.distill(ctx, one)
	}
	var all []document
	for _, e := range r.examples {
		all = append(all, document{e.Ask, r.spec.lesson(e)})
	}
	return texts(all), nil
}

// distill returns the traces of the teacher: its calls that the sandbox executes,
// right or not, the results, and its sentence about them.
func (r *runner) distill(ctx context.Context, one *Round) ([]byte, error) {
	m, tok, err := train.OpenBase(train.Resolve(r.opt.From, r.spec.Teacher.Core))
	if err != nil {
		return nil, train.At("/teacher/core", err)
	}
	if a := r.spec.Teacher.Adapter; a != "" {
		if err := train.MergeAdapter(m, train.Resolve(r.opt.From, a)); err != nil {
			return nil, train.At("/teacher/adapter", err)
		}
	}
	if m.Config.Context < positions || tok.Special().EOS == tokenizer.None {
		return nil, train.Atf("/teacher/core", "teacher with %d positions: want at least %d, and an EOS", m.Config.Context, positions)
	}
	held, err := r.examine(ctx, m, tok, r.held)
	if err != nil {
		return nil, err
	}
	one.Teacher, one.Sampled = strings.Count(held, "1"), len(r.questions)
	asked := make([]prompt, len(r.questions))
	for i, e := range r.questions {
		asked[i].text = e.Ask
	}
	calls, err := r.sampler(m, tok).answers(ctx, asked)
	if err != nil {
		return nil, err
	}
	var traces []document
	var followUps []prompt
	for i, e := range r.questions {
		result, ok, err := r.verify.run(ctx, calls[i])
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if equal(result, []byte(e.Result)) {
			one.Right++
		}
		reply := `{"ok":true,"result":` + string(result) + "}"
		traces = append(traces, document{e.Ask, calls[i] + dataset.ContextOpen + reply + dataset.ContextClose})
		followUps = append(followUps, prompt{text: e.Ask + calls[i] + reply, control: true})
	}
	sentence, err := newSampler(m, tok, r.workers).answers(ctx, followUps)
	if err != nil {
		return nil, err
	}
	kept := traces[:0]
	for i, t := range traces {
		if strings.HasPrefix(sentence[i], conclusion) && r.length(t.question, t.program+sentence[i]) <= positions {
			kept = append(kept, document{t.question, t.program + sentence[i]})
		}
	}
	if one.Skipped = len(asked) - len(kept); len(kept) == 0 {
		return nil, errors.New("no trace: the sandbox executes no call of the teacher")
	}
	return texts(kept), nil
}

// sampler returns a sampler of answers that are judged.
func (r *runner) sampler(m *llm.Model[float32], tok *tokenizer.Tokenizer) *sampler {
	s := newSampler(m, tok, r.workers)
	if r.spec.Method == Distill {
		s.stop = callClose // as a runtime, which executes the call then
	}
	return s
}

// right reports whether an answer is right in the form that the method teaches.
func (r *runner) right(ctx context.Context, e synth.Errand, answer string) (bool, error) {
	if !r.spec.Method.inWords() {
		return r.verify.right(ctx, e, answer)
	}
	_, last, ok := strings.Cut(answer, conclusion)
	return ok && last == e.Answer+".", nil
}

// sealed compares the tensors of the core before and after training, without the adapters.
func (r *runner) sealed(m *llm.Model[float32]) (*train.Seal, error) {
	before, _, err := train.OpenBase(train.Resolve(r.opt.From, r.spec.Core))
	if err != nil {
		return nil, err
	}
	frozen := slices.DeleteFunc(slices.Clone(m.Tensors()), func(t *nn.Tensor[float32]) bool { return t.Grad != nil })
	s := &train.Seal{Part: "core", Tensors: len(frozen), Trained: len(m.Tensors()) - len(frozen), Before: train.Digest(before.Tensors()), After: train.Digest(frozen)}
	if s.Before != s.After {
		return nil, fmt.Errorf("the core moved: SHA-256 %.16s…, want %.16s…", s.After, s.Before)
	}
	return s, nil
}
