package runner_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// A saved conversation can be restored; an invalid file changes nothing.
func TestSaveRestore(t *testing.T) {
	r, _ := open(t, build(t), runner.Options{})
	prefs := runner.Preferences{MaxTokens: 5}
	c := &runner.Conversation{Runner: r, Preferences: prefs}
	c.System("Be brief.")
	if _, err := c.Ask(t.Context(), "one", nil); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Save(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	d := &runner.Conversation{Runner: r, Preferences: prefs}
	if err := d.Restore(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Messages(), d.Messages()); diff != "" {
		t.Error(diff)
	}
	x, err1 := c.Ask(t.Context(), "two", nil)
	y, err2 := d.Ask(t.Context(), "two", nil)
	if err := errors.Join(err1, err2); err != nil || !slices.Equal(x.Tokens, y.Tokens) {
		t.Errorf("%v, then %v: %v", x, y, err)
	}
	before := d.Messages()
	for _, bad := range []string{
		"", "{", `{"version":2,"messages":[]}`, `{"version":1,"messages":[{"role":"king"}]}`, `{"version":1,"x":1}`,
		`{"version":1,"messages":[]} x`, `{"version":1,"messages":[` + strings.Repeat(`{"role":"user"},`, 1<<14) + `{"role":"user"}]}`,
		text + text, strings.Repeat(" ", 16<<20) + text,
	} {
		if err := d.Restore(strings.NewReader(bad)); err == nil {
			t.Errorf("%.60q was taken", bad)
		}
	}
	if err := d.Restore(broken{}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if err := d.Save(broken{}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a file that cannot be written: %v", err)
	}
	if diff := cmp.Diff(before, d.Messages()); diff != "" {
		t.Error(diff)
	}
	d.Reset()
	if diff := cmp.Diff([]talk.Message{talk.Text(talk.System, "Be brief.")}, d.Messages()); diff != "" {
		t.Error(diff)
	}
	d.System("")
	b.Reset()
	if err := d.Save(&b); err != nil || !strings.Contains(b.String(), `"messages": []`) {
		t.Errorf("%s, %v", b.String(), err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error)  { return 0, os.ErrPermission }
func (broken) Write([]byte) (int, error) { return 0, os.ErrPermission }

// A truncated answer is kept in the conversation; an empty one is dropped.
func TestCutShort(t *testing.T) {
	r, _ := open(t, build(t), runner.Options{})
	c := &runner.Conversation{Runner: r}
	ctx, cancel := context.WithCancel(t.Context())
	a, err := c.Ask(ctx, "one", func(string) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || len(c.Messages()) != 2 || a.Text == "" {
		t.Errorf("%+v, %v, %+v", a, err, c.Messages())
	}
	if _, err := c.Ask(ctx, "two", nil); !errors.Is(err, context.Canceled) || len(c.Messages()) != 2 {
		t.Errorf("%v, %+v", err, c.Messages())
	}
	if _, err := c.Ask(t.Context(), strings.Repeat("x", 600), nil); !errors.Is(err, runtimes.ErrFull) || len(c.Messages()) != 2 {
		t.Errorf("%v, %d turns", err, len(c.Messages()))
	}
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"version":1,"messages":[{"role":"user","parts":[{"type":"text","text":"x"}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c runner.Conversation
		if c.Restore(bytes.NewReader(data)) != nil {
			return
		}
		var b bytes.Buffer
		if err := c.Save(&b); err != nil {
			t.Fatal(err)
		}
		var d runner.Conversation
		if err := d.Restore(&b); err != nil {
			t.Fatal(err)
		}
	})
}
