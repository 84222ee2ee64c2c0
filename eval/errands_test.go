package eval

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train/dataset/synth"
)

// caller answers errands correctly or with a chosen mistake.
type caller struct {
	all  map[string]synth.Errand
	call func(e synth.Errand) string // nil: none
	say  func(e synth.Errand, with bool) string
}

func (c caller) Build() *builds.Build { return nil }

func (c caller) Answer(_ context.Context, req runner.Request, _ func(string) error) (*runner.Answer, error) {
	if req.Preferences.MaxTokens != maxErrand {
		return nil, fmt.Errorf("at most %d tokens requested, want %d", req.Preferences.MaxTokens, maxErrand)
	}
	e, with := c.all[req.Inputs[0].Text], req.ToolsAllowed == nil
	a := &runner.Answer{Text: c.say(e, with)}
	if (e.Table != nil) != (len(req.Assets) == 1) {
		a.Text = "a table without a file, or a file without a table"
	}
	if with && c.call != nil {
		tool, args, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(c.call(e), `{"tool":"`), "}"), `","args":`)
		a.Called = []runner.CallRecord{{Call: talk.Call{Name: tool, Arguments: []byte(args)}}}
	}
	return a, nil
}

func TestErrands(t *testing.T) {
	opt := ErrandOptions{N: 30, Seed: 4}
	all := map[string]synth.Errand{}
	for _, e := range synth.Errands(opt.Seed, opt.N, true) {
		all[e.Ask] = e
	}
	right := func(e synth.Errand, with bool) string {
		if !with {
			return " I do not know."
		}
		return " The answer is " + e.Answer + "."
	}
	for name, c := range map[string]struct {
		caller
		call, answer, without int // correct ones of 10 of each kind
	}{
		"all right":            {caller{all, func(e synth.Errand) string { return e.Call }, right}, 10, 10, 0},
		"spaces in it":         {caller{all, func(e synth.Errand) string { return strings.ReplaceAll(e.Call, `","op`, `", "op`) }, right}, 10, 10, 0},
		"no call":              {caller{all, nil, right}, 0, 10, 0},
		"another's op":         {caller{all, func(e synth.Errand) string { return strings.ReplaceAll(e.Call, `"op`, `"opt`) }, right}, 0, 10, 0},
		"solved without tools": {caller{all, nil, func(e synth.Errand, _ bool) string { return right(e, true) }}, 0, 10, 10},
		"more than requested":  {caller{all, nil, func(e synth.Errand, _ bool) string { return right(e, true) + " Or not." }}, 0, 0, 0},
	} {
		out, err := Errands(t.Context(), c.caller, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out {
			for _, s := range e.Scores {
				want := map[bool]int{true: c.answer, false: c.without}[e.Tools]
				if strings.HasSuffix(s.Kind, "/call") {
					want = c.call
				}
				if s.Right != want || s.N != 10 {
					t.Errorf("%s, tools %t: %s %d of %d, want %d of 10", name, e.Tools, s.Kind, s.Right, s.N, want)
				}
			}
		}
	}
}
