package builtin

import (
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/skilltest"
)

// funcs holds tools that behave as the guests of the suite.
var funcs = map[string]Func{
	skilltest.Echo: func(c *Call) (any, error) { return map[string]any{"echo": c.Args}, nil },
	skilltest.Loop: func(c *Call) (any, error) {
		for {
			if err := c.Step(1); err != nil {
				return nil, err
			}
		}
	},
	skilltest.Hungry: func(c *Call) (any, error) {
		var held [][]byte
		for {
			if err := c.Hold(1 << 20); err != nil {
				runtime.KeepAlive(held)
				return nil, err
			}
			held = append(held, make([]byte, 1<<20))
		}
	},
	skilltest.Flood: func(*Call) (any, error) { return strings.Repeat("x", 1<<20), nil },
	skilltest.Trap:  func(*Call) (any, error) { var a []int; return a[3], nil },
	skilltest.World: func(c *Call) (any, error) { return "nothing but " + string(c.Args), nil },
	skilltest.Read: func(c *Call) (any, error) {
		r, err := c.Asset("img0")
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r)
		return map[string]string{"text": string(b)}, err
	},
	"deaf": func(*Call) (any, error) { time.Sleep(time.Second); return 1, nil },
	"deep": func(c *Call) (any, error) {
		for n := int64(1); ; n *= 2 {
			if err := c.Hold(n); err != nil {
				return nil, err
			}
		}
	},
	"exits":   func(*Call) (any, error) { return nil, &sandbox.Fault{Kind: sandbox.Exit, Message: "left", Code: 3} },
	"plain":   func(*Call) (any, error) { return nil, errors.New("no such thing") },
	"no JSON": func(*Call) (any, error) { return func() {}, nil },
	"huge step": func(c *Call) (any, error) {
		for {
			if err := c.Step(1 << 40); err != nil {
				return nil, err
			}
		}
	},
	"frees more than it holds": func(c *Call) (any, error) { return nil, errors.Join(c.Hold(-1<<40), c.Hold(1<<40)) },
	"panics with nil":          func(*Call) (any, error) { panic(nil) },
	"many assets":              func(c *Call) (any, error) { _, err := c.Asset("img1"); return nil, err },
}

func program(name string) sandbox.Program {
	return sandbox.Program{Name: name, Limits: modules.Effective{MemBytes: 4 << 20, TimeoutMS: 60_000, OutputBytes: 64 << 10}}
}

func TestSuite(t *testing.T) {
	programs := map[string]sandbox.Program{}
	for _, name := range []string{skilltest.Echo, skilltest.Loop, skilltest.Hungry, skilltest.Flood, skilltest.Trap, skilltest.World, skilltest.Read} {
		programs[name] = program(name)
	}
	skilltest.Suite{Executor: Executor{Funcs: funcs}, Programs: programs, Absent: map[string]string{skilltest.Exit: "a function has no exit code"}}.Run(t)
}

// One executor for each guest: the program's name selects the function.
func TestCorpus(t *testing.T) {
	for _, h := range []struct {
		f    string
		ends sandbox.Kind
	}{
		{skilltest.Loop, sandbox.Time}, {skilltest.Hungry, sandbox.Memory}, {skilltest.Flood, sandbox.Output}, {skilltest.Trap, sandbox.Trap}, {"deaf", sandbox.Time},
		{"deep", sandbox.Memory}, {"exits", sandbox.Exit}, {"plain", sandbox.Trap}, {"no JSON", sandbox.Result}, {"huge step", sandbox.Time},
		{"frees more than it holds", sandbox.Memory}, {"panics with nil", sandbox.Trap}, {"many assets", sandbox.Args},
	} {
		t.Run(h.f, func(t *testing.T) {
			e := Executor{Funcs: map[string]Func{"hostile": funcs[h.f]}}
			skilltest.Corpus(t, e, modules.Allow{}, []skilltest.Hostile{{Name: h.f, Ends: []sandbox.Kind{h.ends}}})
		})
	}
}

// TestStuck checks that a function that does not return is abandoned and not
// called again until it has.
func TestDeaf(t *testing.T) {
	release := make(chan struct{})
	e := Executor{Funcs: map[string]Func{"f": func(*Call) (any, error) { <-release; return 1, nil }}, Grace: time.Millisecond}
	p := program("f")
	p.Limits.TimeoutMS = 10
	g, err := e.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)}); sandbox.KindOf(err) != sandbox.Time {
			t.Errorf("%v", err)
		}
	}
	close(release)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	g.(*guest).limits.TimeoutMS = 60_000 // no longer relevant
	reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
	var n int
	if err != nil || json.Unmarshal(reply.Output, &n) != nil || n != 1 {
		t.Errorf("afterwards: %q, %v", reply.Output, err)
	}
}

func TestUnknown(t *testing.T) {
	if _, err := (Executor{}).Prepare(t.Context(), program("f")); sandbox.KindOf(err) != sandbox.Refused {
		t.Errorf("%v", err)
	}
}

func TestWarm(t *testing.T) {
	skilltest.Warm(t, Executor{Funcs: funcs}, program(skilltest.Echo), "builtin")
}
