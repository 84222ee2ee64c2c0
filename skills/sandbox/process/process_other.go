//go:build !linux || !(amd64 || arm64)

package process

import (
	"context"
	"os"

	"mm-abi.org/mm/skills/sandbox"
)

// Executor refuses every program: this system has no supported sandbox.
type Executor struct{}

// New returns an executor.
func New() *Executor { return &Executor{} }

// Close does nothing.
func (*Executor) Close() error { return nil }

// Prepare implements sandbox.Executor.
func (e *Executor) Prepare(ctx context.Context, _ sandbox.Program) (sandbox.Guest, error) {
	return nil, e.Probe(ctx)
}

// Probe reports why this machine cannot sandbox native programs.
func (*Executor) Probe(context.Context) error {
	return sandbox.Refuse("native programs run only on Linux, amd64 or arm64")
}

// Inner exits: no executor starts it here.
func Inner() { os.Exit(1) }
