package workspace

import (
	"context"

	"mm-abi.org/mm/workspace/home"
)

// Alias records that a name in the store stands for an artifact with another
// name. Identity and trust are checked against it.
type Alias struct {
	Repository string `json:"repository"` // whose trust rules apply: the artifact's origin
	Name       string `json:"name"`       // the artifact's own name
	Version    string `json:"version"`    // its version; empty: as in the tag
}

// alias is the user's word about a name of the home's store.
func (w *Workspace) alias(ref string) (Alias, bool, error) {
	if w.opt.Layout != "" {
		return Alias{}, false, nil
	}
	all, err := home.ReadRecords[Alias](w.home, aliasFile)
	if err != nil {
		return Alias{}, false, err
	}
	a, ok := all[ref]
	return a, ok, nil
}

// setAlias records an alias, or removes it if a is nil.
func (w *Workspace) setAlias(ctx context.Context, ref string, a *Alias) error {
	if _, ok, err := w.alias(ref); err != nil || !ok && a == nil {
		return err
	}
	if _, err := w.kept(); err != nil {
		return nil // the name ends with the command
	}
	return home.ChangeRecords(ctx, w.home, aliasFile, func(all map[string]Alias) error {
		if a == nil {
			delete(all, ref)
		} else {
			all[ref] = *a
		}
		return nil
	})
}
