package workspace

import (
	"context"

	"mm-abi.org/mm/workspace/home"
)

// Alias is the user's word that a name in the store stands for an artifact that
// calls itself something else. It is what identity and trust are checked by.
type Alias struct {
	Repository string `json:"repository"` // whose trust rules hold: where it came from
	Name       string `json:"name"`       // what the artifact calls itself
	Version    string `json:"version"`    // its version; empty where the tag says it
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

// setAlias records the user's word, or with nil takes it back.
func (w *Workspace) setAlias(ctx context.Context, ref string, a *Alias) error {
	if _, ok, err := w.alias(ref); err != nil || !ok && a == nil {
		return err
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
