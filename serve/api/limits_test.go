package api

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// silent answers nothing.
type silent struct{}

func (silent) Load(context.Context) error { return nil }
func (silent) Build() *builds.Build       { return nil }
func (silent) Answer(context.Context, runner.Request, func(string) error) (*runner.Answer, error) {
	return &runner.Answer{}, nil
}

// Each limit of a request holds exactly.
func TestRequestLimits(t *testing.T) {
	s, err := New(Options{Models: []Model{{Names: []string{"m"}, Answerer: silent{}}}})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(change func(*Ask) error) error {
		ask := &Ask{Model: s.models[0]}
		if err := change(ask); err != nil {
			return err
		}
		c := &Call{W: httptest.NewRecorder(), R: httptest.NewRequest("POST", "/", nil), server: s, span: &traced{}}
		_, err := c.Answer(ask, nil)
		return err
	}
	for name, c := range map[string]struct {
		most   int
		change func(*Ask, int) error
	}{
		"messages": {maxMessages, func(a *Ask, n int) error {
			a.Request.Messages = slices.Repeat([]talk.Message{talk.Text(talk.User, "hi")}, n)
			return nil
		}},
		"stops": {maxStops, func(a *Ask, n int) error {
			a.Request.Preferences.Stop = slices.Repeat([]string{"x"}, n)
			return nil
		}},
		"tools": {maxTools, func(a *Ask, n int) error {
			list := make([]talk.Definition, n)
			for i := range list {
				list[i] = talk.Definition{Name: fmt.Sprint("w", i), Parameters: AnyObject}
			}
			return a.Choose(list, Auto, "")
		}},
	} {
		if err := answer(func(a *Ask) error { return c.change(a, c.most) }); err != nil {
			t.Errorf("%d %s: %v", c.most, name, err)
		}
		if err := answer(func(a *Ask) error { return c.change(a, c.most+1) }); err == nil {
			t.Errorf("%d %s: no error", c.most+1, name)
		}
	}
}

// A call that a grammar forced is read, whatever its tool.
func TestForcedCall(t *testing.T) {
	g, err := grammar.NewCall([]grammar.Tool{{Name: "w", Arguments: AnyObject}}, grammar.Call{Name: "name", Arguments: "arguments"}, grammar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := `{"name":"w","arguments":{"a":1}}`
	if call, err := talk.ParseCall(text); !g.Holds(text) || err != nil || call.Name != "w" || string(call.Arguments) != `{"a":1}` {
		t.Errorf("got %v, %v", call, err)
	}
}

// The constants that other tests do not name.
func TestConstants(t *testing.T) {
	if maxKeys != 1024 || maxHeader != 64<<10 || MaxKeyFile < maxKeys*(minKey+2) {
		t.Errorf("got %d keys, %d bytes of headers, %d of a file", maxKeys, maxHeader, MaxKeyFile)
	}
}
