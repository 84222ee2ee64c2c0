package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// scripted is an engine whose model follows a script, one text for each generation; special tokens
// are between bars.
type scripted struct {
	engines.Core
	say     []string
	blind   bool // not constrained by a grammar
	context int

	tok  *tokenizer.Tokenizer
	ids  []int32 // of the sequence
	fed  int     // positions that were fed and not generated
	said int     // number of texts used
	drew int     // tokens that were sampled, not forced
}

func script(t *testing.T, say ...string) *scripted {
	t.Helper()
	tok, err := tokenizer.New(seed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return &scripted{say: say, tok: tok, context: 2048}
}

func (s *scripted) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	return s, nil
}
func (s *scripted) Close() error { return nil }
func (s *scripted) Shape() runtimes.Shape {
	return runtimes.Shape{Vocab: s.tok.Size(), Width: 64, Context: s.context}
}
func (s *scripted) NewSequence(context.Context, runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s.ids = nil
	return s, nil
}
func (s *scripted) Len() int             { return len(s.ids) }
func (s *scripted) Truncate(n int) error { s.ids = s.ids[:n]; return nil }
func (s *scripted) tokens(m string) (ids []int32) {
	for i, part := range strings.Split(m, "¦") {
		if i%2 == 1 {
			ids = append(ids, s.tok.ID(part))
			continue
		}
		ids = append(ids, s.tok.Encode(part, tokenizer.Options{})...)
	}
	return ids
}

func (s *scripted) Feed(_ context.Context, in ...runtimes.Positions) error {
	for _, p := range in {
		if len(s.ids)+len(p.Tokens) > s.context {
			return runtimes.ErrFull
		}
		s.ids, s.fed = append(s.ids, p.Tokens...), s.fed+len(p.Tokens)
	}
	return nil
}

func (s *scripted) Generate(ctx context.Context, opt runtimes.Generation, emit func(int32) error) (runtimes.Stop, error) {
	if s.blind && opt.Follow != nil {
		return "", &runtimes.Unavailable{What: "text", Why: "the grammar is elsewhere"}
	}
	var want []int32
	if s.said < len(s.say) {
		want = s.tokens(s.say[s.said])
	}
	s.said++
	var written []int32
	for {
		var next []int32
		if opt.Follow != nil {
			next = opt.Follow.Forced(written)
		}
		if len(next) == 0 {
			logits := make([]float32, s.tok.Size())
			if opt.Follow != nil {
				if err := opt.Follow.Mask(written, logits); err != nil {
					return "", err
				}
			}
			open := func(id int32) bool { return !math.IsInf(float64(logits[id]), -1) }
			for len(want) > 0 && !open(want[0]) {
				want = want[1:]
			}
			wish := s.tok.Special().EOS
			if len(want) > 0 {
				wish = want[0]
			}
			for id := int32(0); !open(wish); id++ {
				wish = id
			}
			next, s.drew = []int32{wish}, s.drew+1
		}
		for _, id := range next {
			if len(want) > 0 && want[0] == id {
				want = want[1:]
			}
			if len(written) > 0 {
				s.ids = append(s.ids, written[len(written)-1])
			}
			written = append(written, id)
			if err := emit(id); err != nil {
				return "", err
			}
			switch {
			case slices.Contains(opt.StopIDs, id):
				return runtimes.StopEnd, nil
			case len(written) == opt.MaxTokens:
				return runtimes.StopLength, nil
			case len(s.ids)+1 >= s.context:
				return runtimes.StopContext, nil
			case ctx.Err() != nil:
				return "", ctx.Err()
			}
		}
	}
}

// held returns the contents of the sequence, special tokens between bars.
func (s *scripted) held() string {
	var b strings.Builder
	for _, id := range s.ids {
		if s.tok.Type(id) == tokenizer.Normal {
			b.WriteString(s.tok.Piece(id))
		} else {
			b.WriteString("¦" + s.tok.Piece(id) + "¦")
		}
	}
	return b.String()
}

// equipped returns a build with tools: add, which adds, echo, which returns a text, and gone, which
// this mm lacks.
func equipped(t testing.TB) (*builds.Build, skills.Options) {
	t.Helper()
	b := build(t)
	b.Assembly.Modalities = nil
	b.Assembly.Router = &builds.RouterPart{Part: builds.Part{Name: "router"}, ToolCallTokens: []string{"<tool_call>", "</tool_call>"}, MaxCalls: 3}
	b.Manifests = map[string]*modules.Manifest{}
	for name, ports := range map[string]string{"add": "{name: a, type: int}, {name: b, type: int, optional: true}", "echo": "{name: text, type: str}", "gone": "{name: x, type: str}"} {
		m, list := modules.Parse("module.yaml", fmt.Appendf(nil, "name: %s\nversion: 1.0.0\ntype: skill\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [%s]\noutputs: [{name: result, type: json}]\nruntime: {builtin: %s}\n", name, ports, name))
		if list.Failed() {
			t.Fatal(list)
		}
		b.Manifests[name] = m
		b.Assembly.Skills = append(b.Assembly.Skills, builds.SkillPart{
			Part: builds.Part{Name: name, Version: "1.0.0", Type: abi.Skill, Digest: "sha256:" + name}, Limits: modules.Effective{TimeoutMS: 60_000},
		})
	}
	return b, skills.Options{Executors: map[string]sandbox.Executor{"builtin": builtin.Executor{Funcs: map[string]builtin.Func{
		"add": func(c *builtin.Call) (any, error) {
			var args struct{ A, B int }
			err := json.Unmarshal(c.Args, &args)
			return map[string]any{"result": args.A + args.B}, err
		},
		"echo": func(c *builtin.Call) (any, error) {
			var args struct{ Text string }
			err := json.Unmarshal(c.Args, &args)
			return map[string]any{"result": args.Text}, err
		},
	}}}}
}
