//go:build !linux || !(amd64 || arm64)

package process

import (
	"context"
	"os"

	"mm-abi.org/mm/skills/sandbox"
)

// Executor refuses every program: this system has no way to hold one.
type Executor struct{}

// New makes an executor.
func New(Options) *Executor { return &Executor{} }

// Close does nothing.
func (*Executor) Close() error { return nil }

// Prepare implements sandbox.Executor.
func (*Executor) Prepare(context.Context, sandbox.Program) (sandbox.Guest, error) {
	return nil, sandbox.Refuse("native programs run on Linux alone, on amd64 and arm64")
}

// Inner is what mm does when it is called with Command.
func Inner() { os.Exit(1) }
