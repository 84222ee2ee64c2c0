package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/cas"
	"mm-abi.org/mm/workspace/home"
)

// In containers the home is often read-only or missing. Caches are optional then:
// additions to the store go to a temporary layout over it, which is removed with the
// workspace. Commands whose result is the store's new content fail.

// defaultHome returns the user's home. Without one, or if it is closed to this
// process, as root's is to a container's user, it is a folder that is removed with
// the workspace.
func (w *Workspace) defaultHome() (string, error) {
	dir, err := DefaultHome()
	if err == nil {
		if _, err = os.Stat(filepath.Join(dir, home.TrustName)); !errors.Is(err, fs.ErrPermission) {
			return dir, nil
		}
	}
	w.homeless = err
	if dir, err = fsx.MkdirTemp("mm-home-"); err != nil {
		return "", w.homeless
	}
	w.later(func() error { return fsx.RemoveAll(dir) })
	w.warnFixed(w.homeless)
	return dir, nil
}

// warnFixed notifies the user once that nothing is kept.
func (w *Workspace) warnFixed(why error) {
	w.warned.Do(func() {
		w.say("warning: %v: caches last for this command only, and nothing is added to the audit log", why)
	})
}

// cached returns the folder of a cache, or "" if nothing can be kept in it.
func (w *Workspace) cached(names ...string) string {
	dir := filepath.Join(append([]string{w.home, cacheDir}, names...)...)
	if err := home.CanWrite(dir); err != nil {
		w.warnFixed(err)
		return ""
	}
	return dir
}

// storeFixed returns why the home's store cannot be changed; nil: it can.
func (w *Workspace) storeFixed() error {
	if w.opt.Layout != "" {
		return nil
	}
	return home.CanWrite(filepath.Join(w.StoreDir(), cas.PrivateDir))
}

// openStore opens the store, or a temporary one over it if it cannot be changed.
func (w *Workspace) openStore() (*registry.Store, error) {
	why := w.storeFixed()
	if why == nil {
		return w.openOwn(false)
	}
	w.warnFixed(why)
	below, err := w.openOwn(true)
	if err != nil && !errors.Is(err, errNoStore) {
		return nil, err
	}
	dir, err := fsx.MkdirTemp("mm-store-")
	if err != nil {
		return nil, fmt.Errorf("opening a temporary store, since %w: %w", why, err)
	}
	w.later(func() error { return fsx.RemoveAll(dir) })
	s, err := registry.Open(dir, registry.Options{Below: below})
	if err == nil {
		w.later(s.Close)
	}
	return s, err
}

// kept returns the store for a command that changes it for good. The error names
// the reason if it cannot be changed.
func (w *Workspace) kept() (*registry.Store, error) {
	if why := cmp.Or(w.homeless, w.storeFixed()); why != nil {
		return nil, diag.Hinted(fmt.Errorf("the store cannot be changed: %w", why), "set MM_HOME to a folder that you may write to, or name a layout with --layout or --out if the command has it")
	}
	return w.store()
}

// memory returns the home's store, which remembers unfinished uploads of any
// layout; nil if it cannot be changed.
func (w *Workspace) memory() *registry.Store {
	if w.opt.Layout == "" && w.storeFixed() == nil {
		s, _ := w.store()
		return s
	}
	if home.CanWrite(filepath.Join(w.StoreDir(), cas.PrivateDir)) != nil {
		return nil
	}
	s, err := registry.Open(w.StoreDir(), registry.Options{})
	if err != nil {
		return nil
	}
	w.later(s.Close)
	return s
}
