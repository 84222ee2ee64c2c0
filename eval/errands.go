package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/synth"
)

// ErrandOptions configures [Errands]. N is required.
type ErrandOptions struct {
	N        int
	Seed     uint64                // selects the questions
	Kinds    []string              // of synth.ErrandKinds; empty: all
	Progress func(done, total int) // may be nil
}

// Check reports an unknown kind.
func (o ErrandOptions) Check() error {
	for _, k := range o.Kinds {
		if !slices.Contains(synth.ErrandKinds(), k) {
			return fmt.Errorf("unknown kind %q, want one of %v", k, synth.ErrandKinds())
		}
	}
	return nil
}

// Errand is the score of one kind of questions that tools answer, with tools or without.
type Errand struct {
	Tools  bool          `json:"tools"`
	Scores []train.Score `json:"scores"`
}

// maxErrand bounds the tokens of a call and an answer, several times the longest expected.
const maxErrand = 160

// Errands asks held-out questions with the build's skills and without them. A call is correct
// if it is the first one and has the right tool and arguments; an answer, if it contains the
// solution. Chance is the rate of the most common answer of a kind.
func Errands(ctx context.Context, a Answerer, opt ErrandOptions) ([]Errand, error) {
	errands := synth.Errands(opt.Seed, opt.N, true, opt.Kinds...)
	var out []Errand
	for pass, with := range []bool{true, false} {
		tally := train.Tally{}
		for i, e := range errands {
			called, answered, err := errand(ctx, a, e, with)
			if err != nil {
				return nil, fmt.Errorf("question %d, %s: %w", i, e.Ask, err)
			}
			if with {
				tally.Add(e.Kind+"/call", e.Tool, called)
			}
			tally.Add(e.Kind+"/answer", e.Answer, answered)
			if opt.Progress != nil {
				opt.Progress(pass*opt.N+i+1, 2*opt.N)
			}
		}
		out = append(out, Errand{with, tally.Scores()})
	}
	return out, nil
}

// errand asks one question.
func errand(ctx context.Context, a Answerer, e synth.Errand, with bool) (called, answered bool, err error) {
	req := runner.Request{Inputs: []talk.Part{{Type: abi.Text, Text: e.Ask}}, Preferences: runner.Preferences{MaxTokens: maxErrand}}
	if e.Table != nil {
		req.Assets = []runner.Asset{{Name: e.Asset(), Data: e.CSV()}}
	}
	if !with {
		req.ToolsAllowed = []string{}
	}
	answer, err := a.Answer(ctx, req, nil)
	if err != nil {
		return false, false, err
	}
	if len(answer.Called) > 0 {
		c := answer.Called[0].Call
		if called, err = sameCall(e, c); err != nil {
			return false, false, err
		}
	}
	_, solution, ok := strings.Cut(answer.Text, "The answer is ")
	return called, ok && strings.TrimSpace(solution) == e.Answer+".", nil
}

// sameCall reports whether a call is the expected one.
func sameCall(e synth.Errand, c talk.Call) (bool, error) {
	var want abi.ToolCall
	if err := json.Unmarshal([]byte(e.Call), &want); err != nil {
		return false, err
	}
	var got map[string]any
	if json.Unmarshal(c.Arguments, &got) != nil {
		return false, nil // an error of the model
	}
	return c.Name == want.Tool && reflect.DeepEqual(got, want.Args), nil
}
