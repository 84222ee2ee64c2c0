// Package skilltest is the conformance suite of the executors of skills.
//
// [Suite] runs small guests, one for each behavior, and checks how a call of
// each ends; [Corpus] runs hostile guests and counts how many were held. An
// executor brings the guests in its language; those of native programs are
// here.
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

// patience is the deadline of guests that end by themselves, in milliseconds:
// long enough for a slow machine.
const patience = 60_000

// The behaviors of the suite's guests.
const (
	Echo   = "echo"   // returns {"echo": the arguments}
	Loop   = "loop"   // does not end
	Hungry = "memory" // allocates memory without end
	Flood  = "flood"  // writes without end
	Trap   = "trap"   // crashes
	Exit   = "exit"   // exits with code 3
	World  = "world"  // returns {"clock": …, "random": …, "env": […]} as far as it can read them
	Read   = "read"   // returns {"text": the content of asset img0}
)

// Suite holds an executor and its guests.
type Suite struct {
	Executor sandbox.Executor
	Programs map[string]sandbox.Program // by behavior; the suite sets their time limits
	Absent   map[string]string          // why a behavior is missing
	Needs    modules.Allow              // permissions of every program
}

// Run runs the suite.
func (s Suite) Run(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, name := range []string{Echo, Loop, Hungry, Flood, Trap, Exit, World, Read} {
		t.Run(name, func(t *testing.T) {
			p, ok := s.Programs[name]
			if why := s.Absent[name]; !ok && why != "" {
				t.Skip("missing: " + why)
			}
			if !ok {
				t.Fatal("missing guest without a reason")
			}
			s.one(t, name, p)
			if name != Echo { // the executor still works
				s.echo(t, 1)
			}
		})
	}
	t.Run("canceled", s.canceled)
	t.Run("refused", s.refused)
	Settled(t, before)
}

// Settled waits for the goroutines of calls to end.
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

// prepare prepares a program for the duration of the test.
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

// want maps each behavior to the kind that ends it.
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
		t.Fatalf("ended with %v (kind %q), want %q; log %q", err, kind, want[name], reply.Log)
	}
	var f *sandbox.Fault
	if name == Exit && (!errors.As(err, &f) || f.Code != 3) {
		t.Errorf("code %v, want 3", f)
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

// world checks that the environment looks the same in each call and holds
// nothing of the host.
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
		t.Errorf("the guest sees %s", seen[0])
	}
}

// read checks that a guest can read the asset of its call, and no other.
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
		t.Errorf("without the asset: got %q", reply.Output)
	}
	asset.Name = "../img0"
	if _, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`), Assets: []sandbox.Asset{asset}}); sandbox.KindOf(err) != sandbox.Args {
		t.Errorf("asset name %s: %v", asset.Name, err)
	}
}

// canceled checks that canceled calls end with the caller's error.
func (s Suite) canceled(t *testing.T) {
	g := s.prepare(t, "", s.Programs[Loop])
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := g.Call(ctx, sandbox.Call{Input: []byte(`{}`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled call: %v", err)
	}
	if _, err := g.Call(ctx, sandbox.Call{Input: []byte(`{}`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("call with a canceled context: %v", err)
	}
}

// refused covers limits and permissions that no executor can enforce.
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
