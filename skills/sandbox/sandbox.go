// Package sandbox is what stands between a program of a skill and the machine.
//
// An [Executor] takes a [Program] as its module.yaml describes it (what to run,
// within which limits, what it may reach) and gives a [Guest], which has been
// checked and compiled and answers calls. A call's text goes in and a text
// comes out, both JSON, both bounded; beside that a guest has nothing: no file
// but the assets of the call, no socket, no variable, no clock and no
// randomness unless the program is allowed it. A limit or a denial that an
// executor cannot enforce on this machine is an error of Prepare, which is a
// [Fault] of kind [Refused].
//
// The clock of the time limit starts when a guest's first instruction can run:
// compiling is not counted. What goes wrong in a guest is a [Fault] as well,
// and its [Kind] says what it was. The folders beside this file hold the
// executors, skills/skilltest the suite that all of them pass, and
// docs/SKILLS.md who enforces what.
package sandbox

import (
	"context"
	"io"
	"slices"
	"time"

	"mm-abi.org/mm/modules"
)

// Executor runs programs of one kind.
type Executor interface {
	// Prepare checks and compiles a program. A program that it will not run, and
	// a limit it cannot enforce, is a Fault of kind Refused.
	Prepare(ctx context.Context, p Program) (Guest, error)
}

// Guest is a program that is ready to be called. Calls may be made from several
// goroutines; each sees nothing of the others.
type Guest interface {
	// Call runs the program once. What goes wrong in the guest is a *Fault; the
	// error is the context's when the caller gave up.
	Call(ctx context.Context, c Call) (Reply, error)
	// Close frees what the guest holds; no call may be under way.
	Close() error
}

// Program is what a skill runs.
type Program struct {
	Name   string // of the skill, for messages and, of a builtin, to find it
	Code   []byte // WebAssembly, Starlark or a native program; of a builtin none
	Ref    string // of an image or a build, which is what is run in place of Code
	Limits modules.Effective
	Allow  modules.Allow

	Args  []string     // of a native program, behind its own name
	Image *Image       // what a native program is found in, in place of Code
	MCP   *modules.MCP // how a native program is spoken to that serves tools
}

// Image is a folder that a native program has as its root, and how it is run
// there.
type Image struct {
	Root string   // absolute path; nothing in it is another user's to change
	Path string   // of the program, in the image
	Name string   // what the program is told that it is called
	Dir  string   // working folder, in the image; "": its root
	Env  []string // the image's own variables
}

// Call is one use of a program.
type Call struct {
	Input  []byte  // one JSON object: the arguments
	Assets []Asset // what the guest may read
}

// Asset is a file that one call may read, and no other: /in/NAME in the guest.
type Asset struct {
	Name string // img0; no slash
	Data io.ReaderAt
	Size int64 // bytes
}

// Reply is what a call gave.
type Reply struct {
	Output []byte // as the guest wrote it; at most its limit
	Log    []byte // the beginning and the end of its standard error; for people
	Usage  Usage
}

// Usage is what a call took.
type Usage struct {
	Time   time.Duration // of the guest, after it was made ready
	Memory int64         // bytes at its peak, as far as the executor knows; else 0
	By     string        // what ran it, and why, where that is not what the manifest names
}

// Sizes that no program may exceed, whatever it states.
const (
	MaxCode   = 64 << 20 // bytes of a program
	MaxMemory = 4 << 30
	MaxAsset  = 256 << 20 // bytes of one asset
	MaxAssets = 16        // of one call
	MaxLog    = 4 << 10   // bytes kept of a guest's standard error
)

// Check refuses what no executor could keep: limits out of range, permissions
// that name no path or host. It returns the limits that hold.
func Check(p Program) (modules.Effective, error) {
	l := p.Limits.Filled()
	switch {
	case l.MemBytes < 0 || l.MemBytes > MaxMemory:
		return l, Refuse("a memory limit of %d bytes; there may be 1 to %d", l.MemBytes, int64(MaxMemory))
	case l.TimeoutMS < 0 || l.TimeoutMS > 24*3600*1000:
		return l, Refuse("a time limit of %d ms", l.TimeoutMS)
	case l.OutputBytes < 0 || l.OutputBytes > 1<<30:
		return l, Refuse("an output limit of %d bytes", l.OutputBytes)
	case len(p.Code) > MaxCode:
		return l, Refuse("a program of %d bytes is over the limit of %d", len(p.Code), MaxCode)
	}
	return l, nil
}

// OneThread refuses limits that a guest of one thread, which the system may put
// on any processor, is not held to: less than one of them.
func OneThread(executor string, l modules.Effective) error {
	if l.MilliCPU < 1000 {
		return Refuse("%s cannot hold a guest to %g processors: say cpu: \"1\"", executor, float64(l.MilliCPU)/1000)
	}
	return nil
}

// None refuses permissions that an executor has no way to give. The words are
// the keys of allow.
func None(executor string, a modules.Allow, keys ...string) error {
	for _, k := range Keys(a) {
		if !slices.Contains(keys, k) {
			return Refuse("%s cannot give allow.%s", executor, k)
		}
	}
	return nil
}

// Keys are the keys of allow that permit something.
func Keys(a modules.Allow) []string {
	var keys []string
	for _, k := range []struct {
		name string
		on   bool
	}{
		{"clock", a.Clock}, {"env", len(a.Env) > 0}, {"network", len(a.Network) > 0}, {"random", a.Random}, {"read", len(a.Read) > 0},
	} {
		if k.on {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// Assets refuses assets that are too many or too large, or whose name is none.
func Assets(list []Asset) error {
	if len(list) > MaxAssets {
		return Faultf(Args, "%d assets; a call may have %d", len(list), MaxAssets)
	}
	seen := map[string]bool{}
	for _, a := range list {
		if !validAsset(a.Name) || seen[a.Name] {
			return Faultf(Args, "%q is no name of an asset, or there are two of it", a.Name)
		}
		seen[a.Name] = true
		if a.Size < 0 || a.Size > MaxAsset {
			return Faultf(Args, "asset %s has %d bytes; the limit is %d", a.Name, a.Size, MaxAsset)
		}
	}
	return nil
}

func validAsset(name string) bool {
	if name == "" || len(name) > 64 || name[0] == '.' {
		return false
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.') {
			return false
		}
	}
	return true
}
