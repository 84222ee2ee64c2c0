// Package sandbox isolates the program of a skill from the machine.
//
// An [Executor] takes a [Program] as its module.yaml describes it (code,
// limits, permissions) and returns a [Guest], which has been checked and
// compiled and answers calls. Input and output of a call are JSON texts of
// bounded size. A guest has nothing else: no files but the assets of the call,
// no sockets, no environment variables, no clock and no randomness, unless the
// program is allowed them. If an executor cannot enforce a limit or a denial
// on this machine, Prepare returns a [Fault] of kind [Refused].
//
// The time limit starts when a guest's first instruction can run; compiling
// does not count. A failure of a guest is a [Fault], and its [Kind] is the
// cause. The subfolders hold the executors, skills/skilltest the suite that
// all of them pass, and docs/SKILLS.md describes how each enforces the limits.
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
	// Prepare checks and compiles a program. If it does not run the program or
	// cannot enforce a limit, it returns a Fault of kind Refused.
	Prepare(ctx context.Context, p Program) (Guest, error)
}

// Guest is a program that is ready to be called. Calls may be made from
// several goroutines and are isolated from each other.
type Guest interface {
	// Call runs the program once. The error is a *Fault if the guest fails, and
	// the context's if the caller cancels.
	Call(ctx context.Context, c Call) (Reply, error)
	// Close releases the guest; no call may be in progress.
	Close() error
}

// Program is the program of a skill.
type Program struct {
	Name   string // of the skill, for messages; selects a builtin
	Code   []byte // WebAssembly, Starlark, Python or a native program; nil for a builtin
	Ref    string // of an image or a build, which runs instead of Code
	Limits modules.Effective
	Allow  modules.Allow
	Root   string // of an agent: the folder of everything that its skills may read; empty: any

	Args  []string     // of a native program, without its name
	Image *Image       // holds the native program instead of Code
	MCP   *modules.MCP // protocol settings of a native program that serves tools
}

// Image is a folder that becomes the root of a native program.
type Image struct {
	Root string   // absolute path; no other user can write to it
	Path string   // of the program, in the image
	Name string   // argv[0] of the program
	Dir  string   // working folder in the image; default: its root
	Env  []string // environment variables of the image
}

// Call is one use of a program.
type Call struct {
	Input  []byte  // one JSON object: the arguments
	Assets []Asset // files that the guest may read
}

// Asset is a file that one call may read, as /in/NAME in the guest.
type Asset struct {
	Name string // img0; no slash
	Data io.ReaderAt
	Size int64 // bytes
}

// Reply is the outcome of a call.
type Reply struct {
	Output []byte // raw output of the guest, within its limit
	Log    []byte // the beginning and the end of its standard error, for people
	Usage  Usage
}

// Usage is the cost of a call.
type Usage struct {
	Time   time.Duration // of the guest, without its preparation
	Memory int64         // peak in bytes, 0 if unknown
	By     string        // the engine that ran it and why, if not the one in the manifest
}

// Limits of every program.
const (
	MaxCode   = 64 << 20 // bytes of a program
	MaxMemory = 4 << 30
	MaxAsset  = 256 << 20 // bytes of one asset
	MaxAssets = 16        // of one call
	MaxLog    = 4 << 10   // bytes kept of a guest's standard error

	maxTimeout   = 24 * 3600 * 1000 // milliseconds
	maxOutput    = 1 << 30          // bytes
	maxAssetName = 64               // bytes
)

// Check refuses limits that no executor can enforce, and returns the effective
// limits.
func Check(p Program) (modules.Effective, error) {
	l := p.Limits.Filled()
	switch {
	case l.MemBytes < 0 || l.MemBytes > MaxMemory:
		return l, Refuse("memory limit: got %d bytes, want 1 to %d", l.MemBytes, int64(MaxMemory))
	case l.TimeoutMS < 0 || l.TimeoutMS > maxTimeout:
		return l, Refuse("time limit: got %d ms, want 1 to %d", l.TimeoutMS, maxTimeout)
	case l.OutputBytes < 0 || l.OutputBytes > maxOutput:
		return l, Refuse("output limit: got %d bytes, want 1 to %d", l.OutputBytes, maxOutput)
	case len(p.Code) > MaxCode:
		return l, Refuse("program too large: got %d bytes, limit %d", len(p.Code), MaxCode)
	}
	return l, nil
}

// OneThread refuses less than one processor: a guest of one thread, which the
// system may run on any processor, cannot be held to it.
func OneThread(executor string, l modules.Effective) error {
	if l.MilliCPU < 1000 {
		return Refuse("%s cannot limit a guest to %g processors: want cpu: \"1\"", executor, float64(l.MilliCPU)/1000)
	}
	return nil
}

// None refuses permissions that an executor cannot grant; keys lists those
// that it can.
func None(executor string, a modules.Allow, keys ...string) error {
	for _, k := range Keys(a) {
		if !slices.Contains(keys, k) {
			return Refuse("%s cannot grant allow.%s", executor, k)
		}
	}
	return nil
}

// Keys returns the keys of allow that permit something.
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

// Assets refuses assets that are too many or too large or have an invalid
// name.
func Assets(list []Asset) error {
	if len(list) > MaxAssets {
		return Faultf(Args, "too many assets: got %d, limit %d", len(list), MaxAssets)
	}
	seen := map[string]bool{}
	for _, a := range list {
		if !validAsset(a.Name) || seen[a.Name] {
			return Faultf(Args, "invalid or duplicate asset name %q", a.Name)
		}
		seen[a.Name] = true
		if a.Size < 0 || a.Size > MaxAsset {
			return Faultf(Args, "asset %s too large: got %d bytes, limit %d", a.Name, a.Size, MaxAsset)
		}
	}
	return nil
}

func validAsset(name string) bool {
	if name == "" || len(name) > maxAssetName || name[0] == '.' {
		return false
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.') {
			return false
		}
	}
	return true
}
