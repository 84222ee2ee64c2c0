package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/talk"
)

// Missed is a golden prompt with an unexpected continuation.
type Missed struct {
	Prompt, Want, Got string
}

// Smoke runs the build's golden prompts greedily, as text to continue or, if they have files,
// as a turn. It returns those whose continuation lacks the expected prefix, and the number of
// prompts that ran.
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
			p.MaxTokens = len(g.Expect) // a token has at least one byte
		}
		var got strings.Builder
		prompt, err := r.golden(g)
		if err == nil {
			_, err = r.answer(ctx, &written{talk: r.talk, prompt: prompt}, Request{Preferences: p}, talk.ReadOptions{Plain: true, Begins: prompt.Begins}, func(text string) error {
				got.WriteString(text)
				if got.Len() >= len(g.Expect) {
					return enough
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, enough) {
			return missed, run, fmt.Errorf("golden prompt %q: %w", g.Prompt, err)
		}
		run++
		if !strings.HasPrefix(got.String(), g.Expect) {
			missed = append(missed, Missed{g.Prompt, g.Expect, got.String()})
		}
	}
	return missed, run, nil
}

// golden renders a golden prompt: plain text, or a turn with files before it.
func (r *Runner) golden(g modules.Golden) (talk.Prompt, error) {
	shown := g.Media()
	if len(shown) == 0 {
		return r.talk.Plain(g.Prompt), nil
	}
	var parts []talk.Part
	for _, s := range shown {
		path, err := r.build.Files.Path(s.File)
		if err != nil {
			return talk.Prompt{}, err
		}
		parts = append(parts, talk.Part{Type: s.Modality, Path: path})
		if err := media.Missing(r.build.Assembly, parts[len(parts)-1]); err != nil {
			return talk.Prompt{}, err
		}
	}
	return r.talk.Render([]talk.Message{{Role: talk.User, Parts: append(parts, talk.Part{Type: abi.Text, Text: g.Prompt})}}, nil)
}

// GoldenFaults returns a fault for each missed golden prompt.
func (r *Runner) GoldenFaults(missed []Missed) (list diag.List) {
	for _, m := range missed {
		list.Add(diag.GoldenMissed, diag.Pos{File: r.build.Assembly.Name}, fmt.Sprintf("prompt %q: got %q, want %q", m.Prompt, m.Got, m.Want), "compare the outputs; a new core needs new golden outputs")
	}
	return list
}
