package workspace

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/modules/inspect"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/modelpack"
)

// Added is a module that was put into the store.
type Added struct {
	Ref         string    `json:"ref"`
	Digest      string    `json:"digest"`
	Size        int64     `json:"size"` // of all files, in bytes
	Diagnostics diag.List `json:"-"`    // warnings
}

// AddModule packs a module's folder into the store as NAME:VERSION, signed if
// signer is not nil. The manifest must agree with its files. A version that
// names other bytes moves only with force.
func (w *Workspace) AddModule(ctx context.Context, dir string, signer assemble.Signer, force bool) (*Added, error) {
	m, list := modules.Load(dir)
	if m == nil || list.Failed() {
		return nil, list.Err()
	}
	if list = append(list, inspect.Check(m, inspect.Folder(m))...); list.Failed() {
		return nil, list.Err()
	}
	store, err := w.kept()
	if err != nil {
		return nil, err
	}
	if signer != nil {
		if err := w.recordable(ctx); err != nil {
			return nil, err
		}
	}
	packed, desc, err := modelpack.Pack(ctx, store, m)
	if err != nil {
		return nil, err
	}
	a := &Added{Ref: m.Name + ":" + abi.VersionTag(m.Version), Digest: desc.Digest.String(), Size: packed.Size(), Diagnostics: list}
	if signer != nil {
		if _, err := signer.Sign(ctx, store, desc); err != nil {
			return nil, err
		}
		w.Record(ctx, audit.Entry{Action: "sign", Ref: a.Ref, Digest: a.Digest, Result: "ok"})
	}
	return a, claim(ctx, store, desc, a.Ref, force)
}

// claim names desc in a store. A version is immutable unless force is set.
func claim(ctx context.Context, s *registry.Store, desc ocispec.Descriptor, ref string, force bool) error {
	if force {
		return s.Tag(ctx, desc, ref)
	}
	return s.Claim(ctx, desc, ref)
}
