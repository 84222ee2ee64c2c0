package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
)

// caller has tools that return their arguments.
type caller struct {
	infos []skills.Info
	calls []abi.ToolCall
	fails error
}

func (c *caller) List() []skills.Info { return c.infos }
func (c *caller) Call(_ context.Context, call abi.ToolCall, _ []sandbox.Asset) (skills.Answer, error) {
	c.calls = append(c.calls, call)
	line, _ := json.Marshal(call.Args)
	return skills.Answer{Line: string(line)}, c.fails
}

func some() *caller {
	ports := func(p ...abi.Port) []byte { return skills.Schema(p) }
	return &caller{infos: []skills.Info{
		{Name: "add", Inputs: ports(abi.Port{Name: "a", Type: "int"}), Description: "adds"},
		{Name: "gone", Inputs: ports(abi.Port{Name: "a", Type: "int"}), Err: errors.New("it is not here")},
		{Name: "look", Reads: true, Inputs: ports(abi.Port{Name: "image", Type: "uri"}, abi.Port{Name: "ops", Type: "list[str]"}, abi.Port{Name: "x", Type: "json", Optional: true})},
	}}
}

func table(t *testing.T, c *caller, dialect talk.Dialect) (*runner.ToolTable, *tokenizer.Tokenizer) {
	t.Helper()
	tok, err := tokenizer.New(seed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	tk, err := talk.New(tok, talk.Options{Dialect: dialect})
	if err != nil {
		t.Fatal(err)
	}
	return runner.NewToolTable(c, tk, func() *grammar.Vocabulary { return grammar.Read(tok) }), tok
}

func begin(t *testing.T, table *runner.ToolTable, opt runner.ToolOptions) *runner.ToolLoop {
	t.Helper()
	l, err := table.Begin(opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The callable tools are those that a request allows and that are available.
func TestAllowed(t *testing.T) {
	table, _ := table(t, some(), talk.MMABI())
	for _, c := range []struct {
		only []string
		want string
		err  string
	}{
		{nil, "add look", ""},
		{[]string{}, "", ""},
		{[]string{"look", "add"}, "add look", ""},
		{[]string{"look", "rm", "gone"}, "look", ""},
		{[]string{"rm"}, "", "tool rm is not available: the build has add, gone, look"},
		{[]string{"gone", "rm"}, "", "tool gone is not available: it is not here"},
	} {
		got, err := table.Allowed(c.only, true)
		if strings.Join(got, " ") != c.want || (err == nil) != (c.err == "") || err != nil && (err.Error() != c.err || !errors.Is(err, runtimes.ErrUnavailable)) {
			t.Errorf("%q: %q, %v", c.only, got, err)
		}
	}
	if got, err := table.Allowed(nil, false); err != nil || !slices.Equal(got, []string{"add"}) {
		t.Errorf("without assets %v, %v", got, err)
	}
	if _, err := table.Allowed([]string{"look"}, false); err == nil || !strings.Contains(err.Error(), "the request has none") {
		t.Errorf("a tool that reads: %v", err)
	}
	defs := begin(t, table, runner.ToolOptions{}).Definitions()
	if len(defs) != 1 || defs[0].Name != "add" || defs[0].Description != "adds" || !json.Valid(defs[0].Parameters) {
		t.Errorf("%+v", defs)
	}
}

// A call follows the grammar from its first token to its last, in either dialect; other text is free.
func TestFollow(t *testing.T) {
	for _, c := range []struct {
		dialect talk.Dialect
		call    string
	}{
		{talk.MMABI(), `{"tool":"look","args":{"image":"#img0","ops":["sum","max"]}}`},
		{talk.MMABI(), `{"tool":"look","args":{"image":"#a","ops":[],"x":{"y":[null,1.5]}}}`},
		{talk.MMABI(), `{"tool":"add","args":{"a":-12}}`},
		{talk.Hermes(), "\n" + `{"name": "look", "arguments": {"image": "#img0", "ops": ["sum", "max"]}}` + "\n"},
		{talk.Hermes(), "\n" + `{"name": "add", "arguments": {"a": 7}}` + "\n"},
	} {
		table, tok := table(t, some(), c.dialect)
		l := begin(t, table, runner.ToolOptions{Assets: []sandbox.Asset{{Name: "img0"}, {Name: "a"}}})
		if err := l.Unheld(); err != nil {
			t.Fatal(err)
		}
		follow := l.Follow(false)
		written := append(tok.Encode("hm ", tokenizer.Options{}), tok.ID("<tool_call>"))
		allowed := func(written []int32) (n int, may func(int32) bool) {
			logits := make([]float32, tok.Size())
			if err := follow.Mask(written, logits); err != nil {
				t.Fatal(err)
			}
			for _, v := range logits {
				if !math.IsInf(float64(v), -1) {
					n++
				}
			}
			return n, func(id int32) bool { return logits[id] == 0 }
		}
		if n, _ := allowed(written[:2]); n != tok.Size() || follow.Forced(written[:2]) != nil || follow.Mark(2) != (runner.TokenMark{}) {
			t.Errorf("%d of %d tokens are allowed before a call", n, tok.Size())
		}
		closing, forced := tok.ID("</tool_call>"), 0
		for _, id := range append(tok.Encode(c.call, tokenizer.Options{}), closing) {
			n, may := allowed(written)
			if !may(id) {
				t.Fatalf("%q may not follow %q", tok.Piece(id), tok.Decode(written, tokenizer.DecodeOptions{}))
			}
			if may(tok.Special().EOS) || may(tok.ID("<tool_call>")) || may(closing) != (id == closing) {
				t.Errorf("a control token may follow %q", tok.Decode(written, tokenizer.DecodeOptions{}))
			}
			if m := follow.Mark(len(written)); m.Forced || m.Allowed != n {
				t.Errorf("%+v where %d tokens are allowed", m, n)
			}
			if must := follow.Forced(written); len(must) > 0 {
				forced++
				if must[0] != id || n != 1 || follow.Mark(len(written)) != (runner.TokenMark{Forced: true, Allowed: 1}) {
					t.Errorf("%q is forced, and %d are allowed", tok.Piece(must[0]), n)
				}
			}
			written = append(written, id)
		}
		if forced < 20 {
			t.Errorf("%d tokens of %q are forced", forced, c.call)
		}
		if n, _ := allowed(append(written, 50)); n != tok.Size() {
			t.Errorf("%d tokens are allowed behind a call", n)
		}
		if at := strings.Index(c.call, "#"); at > 0 { // an asset must exist
			_, may := allowed(append(slices.Clone(written[:4]), tok.Encode(c.call[:at+1], tokenizer.Options{})...))
			for b := range 256 {
				if id := tok.ID(string(rune(b))); id >= 0 && may(id) != (b == 'i' || b == 'a') {
					t.Errorf("an asset may begin with %q: %v", rune(b), may(id))
				}
			}
		}
		// A draft's guess is given up: what follows the words before it is as it was.
		if n, may := allowed(written[:4]); n != 1 || !may(written[4]) {
			t.Errorf("%d tokens may follow the beginning of a call", n)
		}
	}
}

// The grammar of a request depends on its assets.
func TestFollowOtherAssets(t *testing.T) {
	table, tok := table(t, some(), talk.MMABI())
	beginning := append([]int32{tok.ID("<tool_call>")}, tok.Encode(`{"tool":"look","args":{"image":"#`, tokenizer.Options{})...)
	for _, name := range []string{"img0", "table", "img0"} {
		follow := begin(t, table, runner.ToolOptions{Assets: []sandbox.Asset{{Name: name}}}).Follow(false)
		if got := tok.Decode(follow.Forced(beginning), tokenizer.DecodeOptions{}); !strings.HasPrefix(got, name+`","ops":[`) {
			t.Errorf("%q is forced where there is %s", got, name)
		}
	}
}

// If no tool is callable, no call may start.
func TestFollowNothing(t *testing.T) {
	table, tok := table(t, some(), talk.MMABI())
	l := begin(t, table, runner.ToolOptions{Only: []string{}})
	follow, logits := l.Follow(false), make([]float32, tok.Size())
	if err := follow.Mask(nil, logits); err != nil || !math.IsInf(float64(logits[tok.ID("<tool_call>")]), -1) || slices.Index(logits, float32(math.Inf(-1))) != int(tok.ID("<tool_call>")) {
		t.Errorf("%v, %v", logits, err)
	}
	if got := follow.Forced([]int32{tok.ID("<tool_call>")}); got != nil {
		t.Errorf("%v is forced", got)
	}
}

// Numbers reach a tool as they were written, and an error of the machine ends the answer.
func TestCall(t *testing.T) {
	c := some()
	table, _ := table(t, c, talk.MMABI())
	l := begin(t, table, runner.ToolOptions{})
	call, err := talk.ParseCall(`{"tool":"add","args":{"a":12345678901234567890123,"b":[1.50]}}`)
	if err != nil {
		t.Fatal(err)
	}
	done, stop, err := l.Call(t.Context(), call)
	if err != nil || stop != "" || done.Line != `{"a":12345678901234567890123,"b":[1.50]}` || done.Skill.Name != "add" {
		t.Errorf("%+v, %q, %v", done, stop, err)
	}
	c.fails = errors.New("the disk is gone")
	records := 0
	l = begin(t, table, runner.ToolOptions{Record: func(context.Context, runner.CallRecord) { records++ }})
	if _, _, err := l.Call(t.Context(), talk.Call{Name: "add"}); !errors.Is(err, c.fails) || records != 0 {
		t.Errorf("%v, %d told", err, records)
	}
	if done, _, err := l.Call(t.Context(), talk.Call{Name: "add", Arguments: json.RawMessage(`[1]`)}); err != nil || done.Answer.Kind() != "args" || records != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// The limits of an answer: too many calls, and the same call a third time, end it; a malformed call
// counts.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: requests at the limits")
	}
	c := some()
	table, _ := table(t, c, talk.MMABI())
	args := func(n string) talk.Call { return talk.Call{Name: "add", Arguments: json.RawMessage(`{"a":` + n + `}`)} }
	broken := talk.Call{Fault: "no call", Block: "x"}
	for _, s := range []struct {
		rounds int
		calls  []talk.Call
		kinds  string
		stop   runtimes.Stop
		ran    int
	}{
		{0, []talk.Call{args("1"), args("2"), args("3"), args("4")}, "ok ok ok ok", "", 4},
		{0, []talk.Call{args("1"), args("2"), args("3"), args("4"), args("5")}, "ok ok ok ok", runner.StopRounds, 4},
		{2, []talk.Call{args("1"), args("2"), args("3")}, "ok ok", runner.StopRounds, 2},
		{0, []talk.Call{args("1"), args("2"), args("1")}, "ok ok repeated", "", 2},
		{0, []talk.Call{args("1"), args("1"), args("1")}, "ok repeated", runner.StopLoop, 1},
		{2, []talk.Call{args("1"), args("1"), args("1")}, "ok repeated", runner.StopLoop, 1},
		{2, []talk.Call{broken, broken, broken}, "args args", runner.StopRounds, 0},
		{0, []talk.Call{{Name: "gone"}, {Name: "rm"}}, "ok unknown", "", 1}, // the set reports why gone is unavailable
	} {
		c.calls = nil
		l, kinds, stop := begin(t, table, runner.ToolOptions{Rounds: s.rounds}), []string{}, runtimes.Stop("")
		for _, call := range s.calls {
			done, why, err := l.Call(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			if stop = why; stop == "" {
				kinds = append(kinds, done.Answer.Kind())
			}
		}
		if got := strings.Join(kinds, " "); got != s.kinds || stop != s.stop || len(c.calls) != s.ran {
			t.Errorf("%v: %s, stopped by %q, %d ran", s.calls, got, stop, len(c.calls))
		}
	}
}

// If a vocabulary cannot spell the grammar, calls are only checked.
func TestUnheld(t *testing.T) {
	v := seed.Bytes()
	for i := range v.Tokens {
		if v.Tokens[i].Text == "{" {
			v.Tokens[i].Text = "{{"
		}
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	tk, err := talk.New(tok, talk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := begin(t, runner.NewToolTable(some(), tk, func() *grammar.Vocabulary { return grammar.Read(tok) }), runner.ToolOptions{})
	if l.Unheld() == nil || l.Follow(false) != nil {
		t.Errorf("held by a vocabulary without braces: %v", l.Unheld())
	}
}
