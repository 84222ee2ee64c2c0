package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills/sandbox"
)

func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: requests at the limits")
	}
	tok, err := tokenizer.New(seed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	tk, err := talk.New(tok, talk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	saved := func(n int) error {
		const text = `{"version":1,"messages":[]}`
		return new(Conversation).Restore(strings.NewReader(text + strings.Repeat(" ", n-len(text))))
	}
	written := func(n int) error { // a file of n bytes and a newline
		c := &Conversation{messages: []talk.Message{talk.Text(talk.User, "x")}}
		var b strings.Builder
		if err := c.Save(&b); err != nil {
			return err
		}
		c.messages[0].Parts[0].Text = strings.Repeat("x", n-(b.Len()-1)+1)
		b.Reset()
		if err := c.Save(&b); err != nil {
			return err
		}
		return new(Conversation).Restore(strings.NewReader(b.String()))
	}
	turns := func(n int) error {
		all := strings.Repeat(`,{"role":"user","parts":[]}`, n)[1:]
		return new(Conversation).Restore(strings.NewReader(`{"version":1,"messages":[` + all + `]}`))
	}
	asset := func(n int) error {
		file := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, int64(n)); err != nil {
			t.Fatal(err)
		}
		_, closed, err := Request{Assets: []Asset{{Name: "a", Path: file}}}.assets()
		if err == nil {
			err = closed()
		}
		return err
	}
	space := func(n int) error {
		f := (&Runner{talk: tk}).further()
		f.closed = true
		for range n {
			if _, _, err := f.next(tok.Encode(" ", tokenizer.Options{})[0]); err != nil {
				return err
			}
		}
		_, _, err := f.next(f.open)
		return err
	}
	depth := func(n int) error { // the number of builds that contain the new one
		opened := errors.New("opened")
		e := &AgentExecutor{above: make([]string, n-1), opt: AgentOptions{Open: func(context.Context, string) (*builds.Build, error) { return nil, opened }}}
		_, err := e.Prepare(t.Context(), sandbox.Program{Ref: "b:1.0.0", Limits: modules.Effective{TimeoutMS: 1000, MemBytes: 1 << 28}})
		if err == nil || strings.Contains(err.Error(), "opened") {
			return nil
		}
		return err
	}
	for _, c := range []struct {
		name  string
		check func(int) error
		limit int
	}{
		{"maxSaved", saved, maxSaved}, {"maxSaved", written, maxSaved - 1}, {"maxTurns", turns, maxTurns}, {"maxAsset", asset, maxAsset}, {"maxSpace", space, maxSpace},
		{"MaxAgentDepth", depth, MaxAgentDepth},
	} {
		if err := c.check(c.limit); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.check(c.limit+1) == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
	for n, want := range map[int]int{-1: maxAgentTokens, 0: maxAgentTokens, 1: 1, maxAgentTokens: maxAgentTokens, maxAgentTokens + 1: maxAgentTokens} {
		if got := agentTokens(&n); got != want {
			t.Errorf("agentTokens(%d) = %d, want %d", n, got, want)
		}
	}
	if got := agentTokens(nil); got != maxAgentTokens {
		t.Errorf("agentTokens(nil) = %d", got)
	}
}

// A budget beyond maxBudget does not overflow.
func TestMaxBudget(t *testing.T) {
	for ms, set := range map[int64]bool{-1: false, 0: false, 1: true, maxBudget: true, maxBudget + 1: true, math.MaxInt64: true} {
		ctx, cancel := budget(t.Context(), ms)
		deadline, ok := ctx.Deadline()
		if _, outer := t.Context().Deadline(); ok != (set || outer) || ms > 1 && time.Until(deadline) < 24*time.Hour {
			t.Errorf("%d ms: deadline %v, %v", ms, deadline, ok)
		}
		cancel()
	}
}

// At most maxKept grammars are cached.
func TestMaxKept(t *testing.T) {
	tok, err := tokenizer.New(seed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	tk, err := talk.New(tok, talk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	table := &ToolTable{talk: tk, masks: map[string]*masks{}}
	for i := range maxKept {
		table.masks[fmt.Sprint(i)] = &masks{}
	}
	table.masks["a#x"], table.masks["0"] = table.masks["0"], nil
	delete(table.masks, "0")
	if table.over([]string{"a"}, []string{"x"}); len(table.masks) != maxKept {
		t.Errorf("got %d grammars, want the %d cached ones", len(table.masks), maxKept)
	}
}

// TestHeaderLimit: the words of a header are read up to maxHeaderBytes, and then the
// rest of the token that reaches it.
func TestHeaderLimit(t *testing.T) {
	tok, err := tokenizer.New(seed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[int]int{maxHeaderBytes - 1: maxHeaderBytes - 1, maxHeaderBytes: maxHeaderBytes, maxHeaderBytes + 1: maxHeaderBytes} {
		c := &channelCalls{tok: tok, trail: newTrail(channelSpot{inside: true}), start: -1, channel: -1, content: -1}
		var written []int32
		for range words {
			written = append(written, tok.ID("x"))
		}
		if got := len(c.trail.at(written, c.next).header); got != want {
			t.Errorf("%d bytes: a header of %d, want %d", words, got, want)
		}
		for at, length := range map[place]func(namedSpot) int{inName: func(s namedSpot) int { return len(s.name) }, inID: func(s namedSpot) int { return len(s.id) }} {
			n := &namedCalls{tok: tok, trail: newTrail(namedSpot{at: at}), open: -1, args: -1, callID: -1}
			if got := length(n.trail.at(written, n.next)); got != want {
				t.Errorf("%d bytes: a name or id of %d, want %d", words, got, want)
			}
		}
	}
}
