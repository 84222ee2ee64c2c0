// Package skilltest is what every executor of skills must do.
//
// [Suite] runs small guests, one for each behaviour, and looks at how a call of
// each ends; [Corpus] runs guests that mean harm and counts how they fared. An
// executor brings the guests in its own language.
package skilltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// patience is the deadline of guests that are to end by themselves, in
// milliseconds: long enough for any machine.
const patience = 60_000

// The behaviours of the suite's guests.
const (
	Echo   = "echo"   // gives {"echo": the arguments}
	Loop   = "loop"   // does not end
	Hungry = "memory" // takes memory until there is none
	Flood  = "flood"  // writes without end
	Trap   = "trap"   // breaks
	Exit   = "exit"   // ends with code 3
	World  = "world"  // gives {"clock": …, "random": …, "env": […]} as far as it can tell them
	Read   = "read"   // gives {"text": what is in asset img0}
)

// Suite is an executor and its guests.
type Suite struct {
	Executor sandbox.Executor
	Programs map[string]sandbox.Program // by behaviour; a time limit is given to them here
	Absent   map[string]string          // why a behaviour cannot be had
	Needs    modules.Allow              // what every program must be allowed
}

// Run runs the suite.
func (s Suite) Run(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, name := range []string{Echo, Loop, Hungry, Flood, Trap, Exit, World, Read} {
		t.Run(name, func(t *testing.T) {
			p, ok := s.Programs[name]
			if why := s.Absent[name]; !ok && why != "" {
				t.Skip("not there: " + why)
			}
			if !ok {
				t.Fatal("no such guest, and no reason")
			}
			s.one(t, name, p)
			if name != Echo { // the executor goes on
				s.echo(t, 1)
			}
		})
	}
	t.Run("cancelled", s.cancelled)
	t.Run("refused", s.refused)
	Settled(t, before)
}

// Settled waits for the goroutines that calls started to end.
func Settled(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return
		}
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
}

// prepare readies a program for the length of the test.
func (s Suite) prepare(t *testing.T, name string, p sandbox.Program) sandbox.Guest {
	t.Helper()
	p.Allow = s.Needs
	if p.Limits.TimeoutMS = patience; name == Loop {
		p.Limits.TimeoutMS = short
	}
	g, err := s.Executor.Prepare(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// want are the kinds that end each behaviour.
var want = map[string]sandbox.Kind{Loop: sandbox.Time, Hungry: sandbox.Memory, Flood: sandbox.Output, Trap: sandbox.Trap, Exit: sandbox.Exit}

func (s Suite) one(t *testing.T, name string, p sandbox.Program) {
	switch name {
	case Echo:
		s.echo(t, 4)
		return
	case World:
		s.world(t, p)
		return
	case Read:
		s.read(t, p)
		return
	}
	g := s.prepare(t, name, p)
	reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
	if kind := sandbox.KindOf(err); kind != want[name] {
		t.Fatalf("ended with %v (kind %q), wanted %q; log %q", err, kind, want[name], reply.Log)
	}
	var f *sandbox.Fault
	if name == Exit && (!errors.As(err, &f) || f.Code != 3) {
		t.Errorf("code %v, wanted 3", f)
	}
	if int64(len(reply.Output)) > p.Limits.Filled().OutputBytes {
		t.Errorf("%d bytes of output", len(reply.Output))
	}
}

// echo calls the guest from several goroutines.
func (s Suite) echo(t *testing.T, times int) {
	t.Helper()
	g := s.prepare(t, Echo, s.Programs[Echo])
	input := `{"a":[1,2.5,"ü"],"b":{"c":null}}`
	var all sync.WaitGroup
	for range times {
		all.Go(func() {
			reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(input)})
			if err != nil {
				t.Errorf("%v; log %q", err, reply.Log)
				return
			}
			var got map[string]any
			if err := json.Unmarshal(reply.Output, &got); err != nil {
				t.Errorf("%q: %v", reply.Output, err)
				return
			}
			back, _ := json.Marshal(got["echo"])
			if string(back) != input {
				t.Errorf("echo %s of %s", back, input)
			}
		})
	}
	all.Wait()
}

// world sees the same of the world each time, and nothing of ours.
func (s Suite) world(t *testing.T, p sandbox.Program) {
	t.Setenv("MM_SECRET", "sesame")
	g := s.prepare(t, World, p)
	var seen []string
	for range 2 {
		reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)})
		if err != nil {
			t.Fatalf("%v; log %q", err, reply.Log)
		}
		seen = append(seen, string(reply.Output))
		time.Sleep(3 * time.Millisecond)
	}
	if !s.Needs.Clock && !s.Needs.Random && seen[0] != seen[1] {
		t.Errorf("first %s, then %s", seen[0], seen[1])
	}
	if strings.Contains(seen[0], "sesame") {
		t.Errorf("it sees %s", seen[0])
	}
}

// read finds the asset of its call, and no other.
func (s Suite) read(t *testing.T, p sandbox.Program) {
	g := s.prepare(t, Read, p)
	text := "the first and the second line"
	asset := sandbox.Asset{Name: "img0", Data: strings.NewReader(text), Size: int64(len(text))}
	reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`), Assets: []sandbox.Asset{asset}})
	var got struct{ Text string }
	if err != nil || json.Unmarshal(reply.Output, &got) != nil || got.Text != text {
		t.Fatalf("%q, %v; log %q", reply.Output, err, reply.Log)
	}
	if reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`)}); err == nil && bytes.Contains(reply.Output, []byte("first")) {
		t.Errorf("without the asset it gives %q", reply.Output)
	}
	asset.Name = "../img0"
	if _, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`), Assets: []sandbox.Asset{asset}}); sandbox.KindOf(err) != sandbox.Args {
		t.Errorf("an asset called %s: %v", asset.Name, err)
	}
}

// cancelled calls end with the caller's error.
func (s Suite) cancelled(t *testing.T) {
	g := s.prepare(t, "", s.Programs[Loop])
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := g.Call(ctx, sandbox.Call{Input: []byte(`{}`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was given up: %v", err)
	}
	if _, err := g.Call(ctx, sandbox.Call{Input: []byte(`{}`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was given up before: %v", err)
	}
}

// refused is what no executor can keep.
func (s Suite) refused(t *testing.T) {
	for name, change := range map[string]func(p *sandbox.Program){
		"half a processor": func(p *sandbox.Program) { p.Limits.MilliCPU = 500 },
		"negative time":    func(p *sandbox.Program) { p.Limits.TimeoutMS = -1 },
		"endless memory":   func(p *sandbox.Program) { p.Limits.MemBytes = 1 << 60 },
		"network":          func(p *sandbox.Program) { p.Allow.Network = []string{"example.org"} },
	} {
		p := s.Programs[Echo]
		p.Allow = s.Needs
		change(&p)
		g, err := s.Executor.Prepare(t.Context(), p)
		if sandbox.KindOf(err) != sandbox.Refused {
			t.Errorf("%s: %v", name, err)
			if g != nil {
				g.Close()
			}
		}
	}
}
