package workspace

import (
	"context"
	"fmt"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/loose"
)

// Finding is one thing that was looked at.
type Finding struct {
	What   string `json:"what"`
	State  string `json:"state"` // ok, missing, fault
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Examine reports the state of the home, without changing it.
func (w *Workspace) Examine(ctx context.Context) []Finding {
	store := Finding{"store", "ok", "none yet", "mm assemble or mm pull makes one"}
	if loose.IsLayout(w.StoreDir()) {
		store = w.examineStore(ctx)
	}
	key := Finding{"signing key", "missing", "none at " + w.KeyPrefix(DefaultKey) + ".key", "mm keys generate makes one"}
	if home.Exists(w.KeyPrefix(DefaultKey) + ".key") {
		key = Finding{"signing key", "ok", w.KeyPrefix(DefaultKey) + ".key", ""}
	}
	return []Finding{{"home", "ok", w.home, ""}, store, key, w.examineTrust(), w.examineAudit(ctx)}
}

func (w *Workspace) examineStore(ctx context.Context) Finding {
	s, err := registry.Open(w.StoreDir(), registry.Options{ReadOnly: true})
	if err != nil {
		return Finding{"store", "fault", err.Error(), "mm fsck says more"}
	}
	defer s.Close()
	tags, err := s.Tags(ctx)
	if err != nil {
		return Finding{"store", "fault", err.Error(), "mm fsck says more"}
	}
	if err := fsx.Writable(w.StoreDir()); err != nil {
		return Finding{"store", "fault", err.Error(), "check the folder's permissions"}
	}
	return Finding{"store", "ok", fmt.Sprintf("%d names in %s", len(tags), w.StoreDir()), ""}
}

// examineTrust reports the trust files that decide: the user's and the
// project's.
func (w *Workspace) examineTrust() Finding {
	b, err := w.judges()
	if err != nil {
		return Finding{"trust", "fault", err.Error(), ""}
	}
	if b.Empty {
		return Finding{"trust", "missing", "nobody is trusted", "mm keys generate trusts your own key, mm trust add another's"}
	}
	return Finding{"trust", "ok", fmt.Sprintf("%d keys; %s decides", b.Keys(), strings.Join(b.Files(), " and ")), ""}
}

func (w *Workspace) examineAudit(ctx context.Context) Finding {
	r, err := w.CheckAudit(ctx, "")
	if err != nil {
		return Finding{"audit log", "fault", err.Error(), "mm audit verify says more"}
	}
	return Finding{"audit log", "ok", fmt.Sprintf("%d lines", r.Entries), ""}
}
