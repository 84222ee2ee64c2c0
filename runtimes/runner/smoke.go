package runner

import (
	"context"
	"errors"
	"strings"
	"time"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
)

// Missed is a golden prompt whose continuation was another.
type Missed struct {
	Prompt, Want, Got string
}

// Smoke runs the build's golden prompts greedily, as plain text to continue,
// and returns those whose continuation does not begin as it should, with the
// number that were run.
func (r *Runner) Smoke(ctx context.Context) (missed []Missed, run int, err error) {
	if err := r.Load(ctx); err != nil {
		return nil, 0, err
	}
	if r.talk == nil {
		return nil, 0, &runtimes.Unavailable{What: "golden prompts", Why: r.build.Assembly.Core.ID() + " has no tokenizer", Hint: "import the model with its tokenizer"}
	}
	enough := errors.New("enough")
	for _, g := range r.build.Assembly.Golden {
		p := Preferences{MaxTokens: g.MaxTokens}
		if p.MaxTokens == 0 {
			p.MaxTokens = len(g.Expect) // a token gives at least a byte
		}
		var got strings.Builder
		prompt := r.talk.Plain(g.Prompt)
		_, err := r.answer(ctx, prompt, &encoding{start: time.Now()}, Request{Preferences: p}, talk.ReadOptions{Plain: true, Begins: prompt.Begins}, func(text string) error {
			got.WriteString(text)
			if got.Len() >= len(g.Expect) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			return missed, run, err
		}
		run++
		if !strings.HasPrefix(got.String(), g.Expect) {
			missed = append(missed, Missed{g.Prompt, g.Expect, got.String()})
		}
	}
	return missed, run, nil
}
