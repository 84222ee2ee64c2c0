package assemble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm/internal/fsx"
	"mm/registry"
)

// platforms are the platforms of target names that say what they are for.
var platforms = []struct{ prefix, os, arch string }{
	{"mobile-android", "android", "arm64"},
	{"mobile-ios", "ios", "arm64"},
}

func platform(t *target) *ocispec.Platform {
	if os, arch, ok := strings.Cut(t.spec.Platform, "/"); ok {
		return &ocispec.Platform{OS: os, Architecture: arch}
	}
	for _, p := range platforms {
		if strings.HasPrefix(t.name, p.prefix) {
			return &ocispec.Platform{OS: p.os, Architecture: p.arch}
		}
	}
	return nil
}

// publish names the build in the store and fills the output folder.
func (b *build) publish(ctx context.Context) error {
	if !b.opt.Untagged {
		if err := b.tag(ctx, b.opt.Store, b.graph.Name+":"); err != nil {
			return err
		}
	}
	if b.opt.Out == "" {
		return nil
	}
	out, err := registry.Open(b.opt.Out, registry.Options{})
	if err != nil {
		return fmt.Errorf("opening %s: %w", b.opt.Out, err)
	}
	defer out.Close()
	roots := []ocispec.Descriptor{b.result.Descriptor}
	for _, t := range b.targets {
		roots = append(roots, t.desc)
	}
	for _, r := range roots {
		if err := out.Import(ctx, b.opt.Store, r); err != nil {
			return fmt.Errorf("filling %s: %w", b.opt.Out, err)
		}
	}
	if err := b.tag(ctx, out, ""); err != nil {
		return err
	}
	for _, t := range b.targets {
		if err := b.unpack(ctx, out, t); err != nil {
			return fmt.Errorf("filling %s: %w", filepath.Join(b.opt.Out, t.name), err)
		}
	}
	return nil
}

// tag names each target VERSION-TARGET and the whole build VERSION.
func (b *build) tag(ctx context.Context, s *registry.Store, prefix string) error {
	for _, t := range b.targets {
		if err := s.Tag(ctx, t.desc, prefix+b.graph.Version+"-"+t.name); err != nil {
			return err
		}
	}
	return s.Tag(ctx, b.result.Descriptor, prefix+b.graph.Version)
}

// unpack puts the target's files under the output folder, beside the layout,
// with a list of their digests. A new folder is filled aside and then takes
// the place of the old one.
func (b *build) unpack(ctx context.Context, out *registry.Store, t *target) error {
	dir, err := fsx.Open(b.opt.Out, fsx.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	fresh, old := "."+t.name+".new", "."+t.name+".old"
	lock, err := dir.Lock(ctx, "."+t.name+".lock")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	for _, leftover := range []string{fresh, old} { // of a run that was killed
		if err := dir.Root().RemoveAll(leftover); err != nil {
			return err
		}
	}
	if err := dir.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	if err := b.fill(ctx, out, t, dir, fresh); err != nil {
		return errors.Join(err, dir.Root().RemoveAll(fresh))
	}
	if err := dir.Rename(t.name, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := dir.Rename(fresh, t.name); err != nil {
		return err
	}
	if err := dir.SyncDir("."); err != nil {
		return err
	}
	return dir.Root().RemoveAll(old)
}

// fill checks the target's files out into the folder fresh of dir.
func (b *build) fill(ctx context.Context, out *registry.Store, t *target, dir *fsx.Dir, fresh string) error {
	a, err := registry.ReadArtifact(ctx, out, t.desc)
	if err != nil {
		return err
	}
	// Cached: this run has hashed what it put there.
	if _, err := out.Checkout(ctx, a, filepath.Join(b.opt.Out, fresh), registry.CheckoutOptions{Link: true, Cached: true}); err != nil {
		return err
	}
	var sums strings.Builder
	for _, l := range a.Layers {
		fmt.Fprintf(&sums, "%s  %s\n", l.Descriptor.Digest.Encoded(), l.Path)
	}
	return dir.WriteFile(fresh+"/SHA256SUMS", []byte(sums.String()), 0o644)
}
