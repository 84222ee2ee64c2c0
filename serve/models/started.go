package models

import (
	"context"

	"mm-abi.org/mm/runtimes/runner"
)

// Started is a runner as an [Instance]. A build without a core has nothing to load: its
// functions open on use.
type Started struct{ *runner.Runner }

// Load loads the core, if the build has one.
func (s Started) Load(ctx context.Context) error {
	if !s.Build().Assembly.HasCore() {
		return nil
	}
	return s.Runner.Load(ctx)
}
