package workspace

import (
	"context"
	"fmt"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace/loose"
)

// Renewed returns the verified build that a reference means now and the digest that it was
// found by. If that digest is one of seen, the build is nil and nothing is read. A reference
// with a host is looked up at its registry, unless the workspace is offline.
func (w *Workspace) Renewed(ctx context.Context, arg string, opt RunOptions, seen ...string) (b *builds.Build, digest string, err error) {
	if !w.Versioned(ctx, arg) {
		return nil, "", diag.Hinted(fmt.Errorf("%s is the user's own file, which has no versions", arg), "want a reference such as p-lite@^1")
	}
	at, err := w.newest(ctx, arg, opt.Target)
	if err != nil {
		return nil, "", err
	}
	digest = at.desc.Digest.String()
	if slices.Contains(seen, digest) {
		return nil, digest, nil
	}
	if at.Remote() {
		if err := w.fetch(ctx, at, opt); err != nil {
			return nil, digest, err
		}
	}
	b, err = w.Runnable(ctx, arg, opt)
	return b, digest, err
}

// Versioned reports whether an argument is a reference to an artifact, and not the user's own
// file or graph.
func (w *Workspace) Versioned(ctx context.Context, arg string) bool {
	f, err := w.form(ctx, arg)
	return err == nil && f == loose.FormReference
}

// newest finds the present meaning of a reference.
func (w *Workspace) newest(ctx context.Context, arg, target string) (*Located, error) {
	if ref, err := abi.ParseRef(arg); err == nil && ref.Host != "" && ref.Digest == "" && w.opt.Layout == "" && !w.opt.Offline {
		return w.FindPublished(ctx, arg)
	}
	return w.findTargeted(ctx, arg, target)
}

// fetch pulls an artifact of a registry into the store, where it may move a channel.
func (w *Workspace) fetch(ctx context.Context, at *Located, opt RunOptions) error {
	if _, err := at.identify(ctx); err != nil {
		return err
	}
	_, err := w.Pull(ctx, at.ref, PullOptions{Claim: opt.Resolve.Claim, Target: opt.Target, Force: at.moving(), passing: true})
	return err
}
