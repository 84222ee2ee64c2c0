package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

type folder string

func (f folder) Path(name string) (string, error)               { return filepath.Join(string(f), name), nil }
func (f folder) Open(name string) (*os.File, error)             { return os.Open(filepath.Join(string(f), name)) }
func (f folder) Dir(context.Context, ...string) (string, error) { return string(f), nil }

// counting is the core engine with counters and an optional delay.
type counting struct {
	engines.Core
	opens, sequences atomic.Int64
	alone            atomic.Bool  // the last open model must not propose tokens
	fed              atomic.Int64 // positions
	seen             atomic.Value // the vectors fed last, []float32
	slow             time.Duration
	shows            bool // its sequences provide the core's states
}

func (c *counting) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	c.opens.Add(1)
	c.alone.Store(b.NoDraft)
	m, err := c.Core.Open(ctx, b, l)
	if err != nil {
		return nil, err
	}
	return &counted{m.(runtimes.Language), c}, nil
}

type counted struct {
	runtimes.Language
	c *counting
}

func (m *counted) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	m.c.sequences.Add(1)
	s, err := m.Language.NewSequence(ctx, opt)
	if m.c.shows {
		return &showing{countedSequence{s, m.c}}, err
	}
	return &countedSequence{s, m.c}, err
}

// showing is a sequence that provides the core's states.
type showing struct{ countedSequence }

func (s *showing) Hidden(from, to int) ([]float32, error) {
	return s.Sequence.(runtimes.Hidden).Hidden(from, to)
}

type countedSequence struct {
	runtimes.Sequence
	c *counting
}

func (s *countedSequence) Feed(ctx context.Context, in ...runtimes.Positions) error {
	for _, p := range in {
		if p.Vectors != nil {
			s.c.seen.Store(p.Vectors)
		}
	}
	before := s.Len()
	err := s.Sequence.Feed(ctx, in...)
	s.c.fed.Add(int64(s.Len() - before))
	return err
}

func (s *countedSequence) Generate(ctx context.Context, opt runtimes.Generation, emit func(int32) error) (runtimes.Stop, error) {
	return s.Sequence.Generate(ctx, opt, func(id int32) error {
		time.Sleep(s.c.slow)
		return emit(id)
	})
}

// build returns a build of a core from a seed, which generates random words.
func build(t testing.TB) *builds.Build {
	t.Helper()
	dir := t.TempDir()
	if err := seed.Write(filepath.Join(dir, "core"), seed.Options{Type: abi.Core, Name: "core", Seed: 3, DModel: 64}); err != nil {
		t.Fatal(err)
	}
	return &builds.Build{
		Assembly: &builds.Assembly{
			Name: "b", Target: "laptop",
			Core: builds.Part{Name: "core", Version: "1.0.0", Files: builds.Formats{"gguf": {"core/core.gguf"}}},
			Modalities: []builds.ModalityPart{
				{Modality: abi.Image, Encoder: builds.Part{Name: "enc", Version: "1.0.0", Files: builds.Formats{"onnx": {"e"}}}, Projector: builds.Part{Name: "proj", Version: "1.0.0", Files: builds.Formats{"onnx": {"p"}}}},
				{Modality: abi.Audio, Encoder: builds.Part{Name: "aenc", Version: "1.0.0"}, Projector: builds.Part{Name: "aproj", Version: "1.0.0"}},
			},
		},
		Files: folder(dir),
	}
}

func open(t testing.TB, b *builds.Build, opt runner.Options) (*runner.Runner, *counting) {
	t.Helper()
	e := &counting{}
	if opt.Engines == nil {
		opt.Engines = []runtimes.Engine{e}
	}
	r, err := runner.Open(t.Context(), b, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, e
}

func ask(words string, n int) runner.Request {
	return runner.Request{Inputs: []talk.Part{{Type: abi.Text, Text: words}}, Preferences: runner.Preferences{MaxTokens: n}}
}

func answer(t testing.TB, r *runner.Runner, req runner.Request) *runner.Answer {
	t.Helper()
	var text strings.Builder
	a, err := r.Answer(t.Context(), req, func(s string) error { text.WriteString(s); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != a.Text {
		t.Errorf("%q was told, the answer is %q", text.String(), a.Text)
	}
	return a
}

// Only the first answer loads the model, and the same question has the same answer.
func TestLoadsOnce(t *testing.T) {
	r, e := open(t, build(t), runner.Options{})
	if e.opens.Load() != 0 {
		t.Error("Open loads the model")
	}
	first := answer(t, r, ask("hello", 8))
	second := answer(t, r, ask("hello", 8))
	if e.opens.Load() != 1 || e.sequences.Load() != 1 {
		t.Errorf("%d models, %d sequences were opened", e.opens.Load(), e.sequences.Load())
	}
	if !slices.Equal(first.Tokens, second.Tokens) || first.Timings.Prompt != 6 || first.Timings.Generated != 8 {
		t.Errorf("%+v, then %+v", first, second)
	}
	if first.Timings.Load == 0 || second.Timings.Load != 0 || second.Timings.Reused != 5 {
		t.Errorf("timings %+v, then %+v", first.Timings, second.Timings)
	}
}

// Alternating conversations on one model are independent, and each turn reads only new positions.
func TestInterleaved(t *testing.T) {
	b := build(t)
	questions := [][]string{{"how are you", "why", "and now"}, {"tell me more", "no", "yes yes"}}
	alone := make([][]string, len(questions))
	for i, qs := range questions {
		r, _ := open(t, b, runner.Options{})
		c := &runner.Conversation{Runner: r, Preferences: runner.Preferences{MaxTokens: 10}}
		for _, q := range qs {
			a, err := c.Ask(t.Context(), q, nil)
			if err != nil {
				t.Fatal(err)
			}
			alone[i] = append(alone[i], fmt.Sprint(a.Tokens))
		}
	}
	r, e := open(t, b, runner.Options{})
	var talks []*runner.Conversation
	for range questions {
		talks = append(talks, &runner.Conversation{Runner: r, Preferences: runner.Preferences{MaxTokens: 10}})
	}
	prompts := make([]int, len(questions))
	for turn := range questions[0] {
		for i, c := range talks {
			a, err := c.Ask(t.Context(), questions[i][turn], nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(a.Tokens); got != alone[i][turn] {
				t.Errorf("conversation %d, turn %d: %s, alone %s", i, turn, got, alone[i][turn])
			}
			if a.Timings.Reused < prompts[i] {
				t.Errorf("conversation %d, turn %d: %d positions were reused, the turn before had %d", i, turn, a.Timings.Reused, prompts[i])
			}
			prompts[i] = a.Timings.Prompt
		}
	}
	if e.opens.Load() != 1 || e.sequences.Load() != 2 {
		t.Errorf("%d models, %d sequences", e.opens.Load(), e.sequences.Load())
	}
}

// More concurrent answers than cached sequences.
func TestAtOnce(t *testing.T) {
	b := build(t)
	r, e := open(t, b, runner.Options{Sequences: 2})
	want := make([]string, 6)
	for i := range want {
		want[i] = fmt.Sprint(answer(t, r, ask(fmt.Sprintf("question %d", i), 6)).Tokens)
	}
	if n := e.sequences.Load(); n > 2 {
		t.Errorf("%d sequences one after the other", n)
	}
	var wg sync.WaitGroup
	for i := range want {
		wg.Go(func() {
			a, err := r.Answer(t.Context(), ask(fmt.Sprintf("question %d", i), 6), nil)
			if err != nil || fmt.Sprint(a.Tokens) != want[i] {
				t.Errorf("question %d: %v, want %s", i, err, want[i])
			}
		})
	}
	wg.Wait()
	if e.opens.Load() != 1 {
		t.Errorf("%d models", e.opens.Load())
	}
}

// An impossible request is refused with the reason before anything is loaded.
func TestUnavailable(t *testing.T) {
	for _, tc := range []struct {
		name string
		req  runner.Request
		want string
	}{
		{"audio without files", runner.Request{Inputs: []talk.Part{{Type: abi.Audio}}}, "target laptop ships no file of aenc@1.0.0"},
		{"image out", runner.Request{Inputs: []talk.Part{{Type: abi.Text}}, Outputs: []string{"text", "image"}}, "image output is not available"},
		{"tools", runner.Request{Inputs: []talk.Part{{Type: abi.Text}}, ToolsAllowed: []string{"chartqa"}}, "tool chartqa is not available: b has no router"},
	} {
		r, e := open(t, build(t), runner.Options{})
		_, err := r.Answer(t.Context(), tc.req, nil)
		if !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if e.opens.Load() != 0 {
			t.Errorf("%s: the model was loaded", tc.name)
		}
	}
	b := build(t)
	b.Assembly.Router = &builds.RouterPart{}
	r, _ := open(t, b, runner.Options{})
	if _, err := r.Answer(t.Context(), runner.Request{Inputs: []talk.Part{{Text: "x"}}, ToolsAllowed: []string{"f"}}, nil); err == nil || !strings.Contains(err.Error(), "do not run here") {
		t.Errorf("a tool with a router: %v", err)
	}
	b.Assembly.Core.Files = nil
	if _, err := runner.Open(t.Context(), b, runner.Options{Engines: []runtimes.Engine{engines.Core{}}}); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("a core without files: %v", err)
	}
}

// within answers a request with a budget of 50 ms, doubled until the answer satisfies met.
func within(t *testing.T, open func() *runner.Runner, req runner.Request, satisfied func(*runner.Answer) bool) *runner.Answer {
	t.Helper()
	for budget := int64(50); ; budget *= 2 {
		req.Preferences.BudgetMS = budget
		a, err := open().Answer(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if satisfied(a) || a.Stop != runner.StopBudget || budget > 20_000 {
			return a
		}
	}
}

// The request's own budget ends the answer, even an empty one; a deadline and a cancellation of the
// caller are errors, even if the budget ends a moment later.
func TestBudget(t *testing.T) {
	slow := &counting{slow: 20 * time.Millisecond}
	r, _ := open(t, build(t), runner.Options{Engines: []runtimes.Engine{slow}})
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	req := ask("x", 50)
	a := within(t, func() *runner.Runner { return r }, req, func(a *runner.Answer) bool { return len(a.Tokens) > 0 })
	if a.Stop != runner.StopBudget || len(a.Tokens) == 0 { // a complete answer has 50 and another reason
		t.Errorf("%+v", a)
	}
	long := ask(strings.Repeat("word ", 90), 1)
	long.Preferences.BudgetMS = 1
	late := &late{Engine: engines.Core{}}
	r2, _ := open(t, build(t), runner.Options{Engines: []runtimes.Engine{late}})
	a, err := r2.Answer(t.Context(), long, nil)
	if err != nil || a.Stop != runner.StopBudget || len(a.Tokens) != 0 {
		t.Errorf("over before the first token: %+v, %v", a, err)
	}
	req.Preferences.BudgetMS = 10_000
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a, err = r.Answer(ctx, req, nil)
	if !errors.Is(err, context.DeadlineExceeded) || a.Stop == runner.StopBudget {
		t.Errorf("the caller's deadline: %+v, %v", a, err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	a, err = r.Answer(ctx, ask("x", 50), func(string) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || len(a.Tokens) == 0 {
		t.Errorf("cancelled: %+v, %v", a, err)
	}
	// A truncated answer leaves nothing behind.
	fresh, _ := open(t, build(t), runner.Options{})
	if got, want := answer(t, r, ask("x", 5)).Tokens, answer(t, fresh, ask("x", 5)).Tokens; !slices.Equal(got, want) {
		t.Errorf("afterwards %v, want %v", got, want)
	}
}

// late is an engine whose Feed takes until ctx ends.
type late struct{ runtimes.Engine }

func (l *late) Open(ctx context.Context, b runtimes.Bundle, lim runtimes.Limits) (runtimes.Model, error) {
	m, err := l.Engine.Open(ctx, b, lim)
	if err != nil {
		return nil, err
	}
	return &lateModel{m.(runtimes.Language)}, nil
}

type lateModel struct{ runtimes.Language }

func (m *lateModel) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s, err := m.Language.NewSequence(ctx, opt)
	return &lateSequence{s}, err
}

type lateSequence struct{ runtimes.Sequence }

func (s *lateSequence) Feed(ctx context.Context, _ ...runtimes.Positions) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestPreferences(t *testing.T) {
	r, _ := open(t, build(t), runner.Options{})
	for _, p := range []runner.Preferences{
		{MaxTokens: -1}, {BudgetMS: -1}, {Stop: []string{""}}, {Options: sample.Options{TopP: 7}}, {Options: sample.Options{Temperature: -1}},
		{Allow: &runtimes.Grammar{}},
	} {
		if _, err := r.Answer(t.Context(), runner.Request{Inputs: []talk.Part{{Text: "x"}}, Preferences: p}, nil); err == nil {
			t.Errorf("%+v: no error", p)
		}
	}
	// Every figure of a request reaches the engine, and its JSON names are the
	// schema's.
	var req runner.Request
	if err := json.Unmarshal([]byte(`{"inputs": [{"type":"text","text":"x"}], "preferences": {"temperature": 1.5, "top_k": 3, "top_p": 0.5, "min_p": 0.25, "repetition_penalty": 2, "seed": 7, "max_tokens": 9, "budget_ms": 8, "stop": ["a"]}}`), &req); err != nil {
		t.Fatal(err)
	}
	want := runner.Preferences{Options: sample.Options{Temperature: 1.5, TopK: 3, TopP: 0.5, MinP: 0.25, RepeatPenalty: 2, Seed: 7}, MaxTokens: 9, BudgetMS: 8, Stop: []string{"a"}}
	if d := cmp.Diff(want, req.Preferences); d != "" {
		t.Error(d)
	}
	a, b := ask("x", 20), ask("x", 20)
	a.Preferences.Temperature, b.Preferences.Temperature, b.Preferences.Seed = 3, 3, 1
	if slices.Equal(answer(t, r, a).Tokens, answer(t, r, b).Tokens) {
		t.Error("another seed, the same text")
	}
}

// A stop string ends the answer before it, and only allowed tokens follow.
func TestStopAndAllow(t *testing.T) {
	r, _ := open(t, build(t), runner.Options{})
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	// ids of the byte vocabulary: 12 special tokens, then the bytes
	say := func(s string) (ids []int32) {
		for i := range len(s) {
			ids = append(ids, 12+int32(s[i]))
		}
		return ids
	}
	req := ask("x", 0)
	req.Preferences.Allow = runtimes.Sequences([][]int32{say("one two three")}, []int32{1})
	a := answer(t, r, req)
	if a.Text != "one two three" || a.Stop != runtimes.StopEnd {
		t.Errorf("%+v", a)
	}
	req.Preferences.Stop = []string{"two", "nothing"}
	if a = answer(t, r, req); a.Text != "one " || a.Stop != runner.StopWord {
		t.Errorf("%+v", a)
	}
	req.Preferences.Stop = nil
	call := slices.Concat([]int32{9}, say(`{"tool":"sum","args":{"a":1}}`), []int32{10})
	req.Preferences.Allow = runtimes.Sequences([][]int32{slices.Concat(say("So: "), call)}, nil)
	a = answer(t, r, req)
	want := []talk.Call{{Name: "sum", Arguments: json.RawMessage(`{"a":1}`)}}
	if d := cmp.Diff(want, a.Calls); d != "" || a.Text != "So: " || a.Stop != runner.StopCall {
		t.Errorf("%+v\n%s", a, d)
	}
	if d := cmp.Diff(want, a.Message().Calls); d != "" {
		t.Error(d)
	}
	req.Preferences.MaxTokens = 12 // within the call
	a = answer(t, r, req)
	if a.Stop != runtimes.StopLength || len(a.Calls) != 1 || a.Calls[0].Fault == "" || len(a.Message().Calls) != 0 {
		t.Errorf("a call that is cut off: %+v", a)
	}
}

// A prompt that is too long is refused, and the next one is answered.
func TestTooLong(t *testing.T) {
	b := build(t)
	b.Assembly.Tokens.MaxSeq = 100
	r, _ := open(t, b, runner.Options{})
	if _, err := r.Answer(t.Context(), ask(strings.Repeat("x", 200), 1), nil); !errors.Is(err, runtimes.ErrFull) {
		t.Errorf("200 of 100: %v", err)
	}
	req := ask("x", 0)
	req.Preferences.Allow = &runtimes.Grammar{States: []runtimes.State{{Edges: []runtimes.Edge{{From: 0, To: 11, Next: runtimes.Nowhere}}}}}
	if a := answer(t, r, req); a.Stop != runtimes.StopLength || len(a.Tokens) < 90 {
		t.Errorf("until it is full: %d tokens, %s", len(a.Tokens), a.Stop)
	}
}

func TestClose(t *testing.T) {
	r, _ := open(t, build(t), runner.Options{})
	answer(t, r, ask("x", 1))
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Answer(t.Context(), ask("x", 1), nil); !errors.Is(err, runtimes.ErrClosed) {
		t.Errorf("%v", err)
	}
	enough := errors.New("enough")
	r, _ = open(t, build(t), runner.Options{})
	calls := 0
	if _, err := r.Answer(t.Context(), ask("x", 9), func(string) error { calls++; return enough }); !errors.Is(err, enough) || calls != 1 {
		t.Errorf("emit's error: %v, after %d calls", err, calls)
	}
	// Text is held back when the listener leaves: it is dropped.
	held := ask("x", 0)
	held.Preferences.Stop = []string{"XYZ"}
	held.Preferences.Allow = runtimes.Sequences([][]int32{{12 + 'X', 12 + 'Y', 12 + 'X', 12 + 'Q'}}, nil)
	calls = 0
	if _, err := r.Answer(t.Context(), held, func(string) error { calls++; return enough }); !errors.Is(err, enough) || calls != 1 {
		t.Errorf("emit's error with text held back: %v, after %d calls", err, calls)
	}
	b := build(t)
	b.Assembly.Core.Files = builds.Formats{"gguf": {"none"}}
	r, _ = open(t, b, runner.Options{})
	if _, err := r.Answer(t.Context(), ask("x", 1), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := runner.Open(t.Context(), b, runner.Options{Limits: runtimes.Limits{Threads: -1}}); err == nil {
		t.Error("-1 threads")
	}
}

// The shipped core: its golden prompts, without loading it again, and a tool call, with a draft core
// and without.
func TestShippedCore(t *testing.T) {
	root := testfiles.Root(t)
	b := &builds.Build{
		Assembly: &builds.Assembly{
			Name: "b", Core: builds.Part{Name: "core-llm", Version: "3.1.0", Files: builds.Formats{"gguf": {"catalog/core-llm/core-llm.gguf"}}},
			Draft: &builds.Part{Name: "draft-llm", Version: "1.0.0", Files: builds.Formats{"gguf": {"catalog/draft-llm/draft-llm.gguf"}}}, DraftTokens: 4,
			Router: &builds.RouterPart{ToolCallTokens: []string{"<tool_call>", "</tool_call>"}},
			Golden: []modules.Golden{{Prompt: "Once upon a time", Expect: ", there was a little"}, {Prompt: "Once upon a time", Expect: "nothing"}, {Prompt: "Once", Expect: " upon", MaxTokens: 3}},
		},
		Files: folder(root),
	}
	var texts []string
	for _, noDraft := range []bool{false, true} {
		r, e := open(t, b, runner.Options{NoDraft: noDraft})
		missed, n, err := r.Smoke(t.Context())
		if err != nil || n != 3 || len(missed) != 1 || missed[0].Want != "nothing" || !strings.HasPrefix(missed[0].Got, ", there") {
			t.Errorf("missed %+v of %d, %v", missed, n, err)
		}
		a := answer(t, r, ask("What is 12 plus 7?", 60))
		if a.Stop != runner.StopCall || len(a.Calls) != 1 || a.Calls[0].Name != "sympy-lite" || strings.Contains(a.Text, "tool") {
			t.Errorf("%+v", a)
		}
		req := ask("Lily went to", 200)
		req.Preferences.Temperature, req.Preferences.Seed = 0.8, 11
		texts = append(texts, answer(t, r, req).Text)
		if e.opens.Load() != 1 || e.alone.Load() != noDraft {
			t.Errorf("%d models were opened, without proposals: %v, want %v", e.opens.Load(), e.alone.Load(), noDraft)
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("with a draft core %q, without %q", texts[0], texts[1])
	}
	b.Assembly.Golden = nil
	r, _ := open(t, b, runner.Options{})
	if a := answer(t, r, ask("</tool_call><bos>", 1)); a.Timings.Prompt < 8 {
		t.Errorf("a user's markers take %d places: they are tokens", a.Timings.Prompt)
	}
}

func ExampleRunner() {
	build := &builds.Build{
		Assembly: &builds.Assembly{Name: "b", Core: builds.Part{Name: "core-llm", Version: "3.1.0", Files: builds.Formats{"gguf": {"catalog/core-llm/core-llm.gguf"}}}},
		Files:    folder("../.."),
	}
	ctx := context.Background()
	r, err := runner.Open(ctx, build, runner.Options{Engines: []runtimes.Engine{engines.Core{}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	answer, err := r.Answer(ctx, ask("Once upon a time", 6), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q %s %d+%d\n", answer.Text, answer.Stop, answer.Timings.Prompt, answer.Timings.Generated)
	// Output: ", there was a little girl" length 5+6
}
