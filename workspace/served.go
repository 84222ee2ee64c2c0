package workspace

import (
	"context"
	"errors"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
)

// The lock file of a store that is being served, in the store's folder of mm.
const (
	stateDir   = ".mm"
	servedLock = "served.lock"
)

// Served opens the store to serve: the home's, or the layout at dir, which is
// created if it is missing. Until the workspace is closed, [Workspace.Remove] of other
// processes warns that it unpublishes names.
func (w *Workspace) Served(ctx context.Context, dir string, readOnly bool) (*registry.Store, error) {
	opt := registry.Options{ReadOnly: readOnly}
	if dir == "" { // mm's store may keep a journal; a layout's index must be readable by others
		dir, opt.Journal = w.StoreDir(), true
	}
	s, err := registry.Open(dir, opt)
	if err != nil {
		return nil, err
	}
	w.later(s.Close)
	if state, err := fsx.Open(filepath.Join(s.Dir(), stateDir), fsx.Options{}); err == nil {
		w.later(state.Close)
		if lock, err := state.RLock(ctx, servedLock); err == nil { // not in a folder that is read-only
			w.later(lock.Unlock)
		}
	}
	return s, nil
}

// isServed reports whether a process serves the store.
func isServed(ctx context.Context, s *registry.Store) bool {
	state, err := fsx.Open(filepath.Join(s.Dir(), stateDir), fsx.Options{})
	if err != nil {
		return false
	}
	defer state.Close()
	lock, err := state.TryLock(ctx, servedLock)
	if err == nil {
		_ = lock.Unlock() // the process releases it at its end, too
	}
	return errors.Is(err, fsx.ErrLocked)
}
