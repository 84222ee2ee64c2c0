package assemble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// platforms maps prefixes of target names to platforms. The files also run
// elsewhere; a platform only lets a client choose from an index.
var platforms = []struct{ prefix, os, arch string }{
	{"mobile-android", "android", "arm64"},
	{"android", "android", "arm64"},
	{"phone", "android", "arm64"},
	{"mobile-ios", "ios", "arm64"},
	{"ios", "ios", "arm64"},
	{"laptop", "linux", "amd64"},
	{"desktop", "linux", "amd64"},
	{"workstation", "linux", "amd64"},
	{"server", "linux", "amd64"},
}

func platform(t *target) *ocispec.Platform {
	if os, arch, ok := strings.Cut(t.spec.Platform, "/"); ok {
		return &ocispec.Platform{OS: os, Architecture: arch}
	}
	for _, p := range platforms {
		if rest, ok := strings.CutPrefix(t.name, p.prefix); ok && (rest == "" || strings.ContainsRune("-._", rune(rest[0]))) {
			return &ocispec.Platform{OS: p.os, Architecture: p.arch}
		}
	}
	return nil
}

// publish names the build in the store and writes the output folder.
func (b *build) publish(ctx context.Context) error {
	if !b.opt.Untagged {
		if err := b.tag(ctx, b.opt.Store); err != nil {
			return err
		}
	}
	if b.opt.Out == "" {
		return nil
	}
	out, err := registry.Open(b.opt.Out, registry.Options{Digests: b.opt.Store})
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
	if err := b.tag(ctx, out); err != nil {
		return fmt.Errorf("naming the build in %s: %w", b.opt.Out, err)
	}
	if err := b.dropBare(ctx, out); err != nil {
		return err
	}
	for _, t := range b.targets {
		if err := b.unpack(ctx, out, t); err != nil {
			return fmt.Errorf("filling %s: %w", filepath.Join(b.opt.Out, t.name), err)
		}
	}
	return nil
}

// claim checks that the build's names are available in the store: unused, of the
// same bytes, or of an earlier build without referrers, in particular without a
// signature. Such a build is replaced with a note.
func (b *build) claim(ctx context.Context) error {
	if b.opt.Untagged || b.opt.Force {
		return nil
	}
	if err := b.claimVersion(ctx); err != nil {
		return err
	}
	for _, t := range b.targets {
		if err := b.claimName(ctx, b.ref(t.name), t.desc); err != nil {
			return err
		}
	}
	return nil
}

// claimVersion claims the name of the whole build. A build of some targets takes
// the name only if it is unused, so that targets can be built one by one; a build
// of more targets that includes the existing one replaces it.
func (b *build) claimVersion(ctx context.Context) error {
	ref := b.ref("")
	have, err := b.opt.Store.Resolve(ctx, ref)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return nil
	case err != nil:
		return err
	case slices.ContainsFunc(b.targets, func(t *target) bool { return t.desc.Digest == have.Digest }):
		return nil
	case len(b.targets) < len(b.graph.Exports):
		b.keepVersion = have.Digest != b.result.Descriptor.Digest
		return nil
	}
	return b.claimName(ctx, ref, b.result.Descriptor)
}

func (b *build) claimName(ctx context.Context, ref string, desc ocispec.Descriptor) error {
	have, err := b.opt.Store.Resolve(ctx, ref)
	if errors.Is(err, errdef.ErrNotFound) || err == nil && have.Digest == desc.Digest {
		return nil
	}
	if err != nil {
		return err
	}
	free, err := b.unreleased(ctx, have)
	switch {
	case err != nil:
		return err
	case free:
		b.list.Note(diag.VersionTaken, b.graph.Pos("/version"), fmt.Sprintf("%s moved from %s (unsigned) to %s", ref, have.Digest, desc.Digest), "")
	default:
		b.list.Add(diag.VersionTaken, b.graph.Pos("/version"), fmt.Sprintf("%s is %s, this build is %s", ref, have.Digest, desc.Digest), "raise version in the graph, or overwrite it with --force")
	}
	return nil
}

// unreleased reports whether desc is an earlier state of this build or of a target,
// without referrers.
func (b *build) unreleased(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	referrers, err := b.opt.Store.Referrers(ctx, desc, "")
	if err != nil || len(referrers) > 0 {
		return false, err
	}
	id, err := artifact.Identify(ctx, b.opt.Store, desc)
	return err == nil && id.Kind == abi.KindAssembly && id.Name == b.graph.Name && id.Version == b.graph.Version, ctx.Err()
}

// tag names each target NAME:VERSION-TARGET and the build NAME:VERSION, in the
// store and in the output folder, which may contain several builds and versions. It
// names nothing unless all names are unused or belong to the build.
func (b *build) tag(ctx context.Context, s *registry.Store) error {
	var tags []registry.Tag
	for _, t := range b.targets {
		tags = append(tags, registry.Tag{Ref: b.ref(t.name), Descriptor: t.desc})
	}
	if !b.keepVersion || s != b.opt.Store {
		tags = append(tags, registry.Tag{Ref: b.ref(""), Descriptor: b.result.Descriptor})
	}
	for _, t := range tags {
		if err := b.free(ctx, s, t.Ref); err != nil && !b.opt.Force {
			return err
		}
	}
	for _, t := range tags {
		if err := s.Tag(ctx, t.Descriptor, t.Ref); err != nil {
			return err
		}
	}
	return nil
}

// free refuses a name of another version of this build: target rc.1 of 1.0.0 and
// the pre-release 1.0.0-rc.1 would have the same name.
func (b *build) free(ctx context.Context, s *registry.Store, ref string) error {
	old, err := s.Resolve(ctx, ref)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	id, err := artifact.Identify(ctx, s, old)
	if err == nil && id.Name == b.graph.Name && id.Version != b.graph.Version && id.Meaning(ref) != abi.MeansMistake {
		return fmt.Errorf("%s is already the name of %s: rename the target or the version", ref, id)
	}
	return nil
}

// dropBare removes the names VERSION and VERSION-TARGET that an older mm wrote to
// an output folder, since they would refer to the old state.
func (b *build) dropBare(ctx context.Context, out *registry.Store) error {
	tags, err := out.Tags(ctx)
	if err != nil {
		return err
	}
	for _, t := range tags {
		if r, err := abi.ParseRef(t.Ref); err == nil && r.Tag != "" {
			continue
		}
		id, err := artifact.Identify(ctx, out, t.Descriptor)
		if err != nil || id.Name != b.graph.Name || id.Version != b.graph.Version || id.Meaning(t.Ref) == abi.MeansChannel {
			continue
		}
		if err := out.Untag(ctx, t.Ref); err != nil && !errors.Is(err, errdef.ErrNotFound) {
			return err
		}
	}
	return nil
}

// unpack writes the target's files to the output folder, with a list of their
// digests. A new folder is filled first and then replaces the old one; an
// up-to-date folder is not changed.
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
	for _, leftover := range []string{fresh, old} { // of a killed run
		if err := dir.Root().RemoveAll(leftover); err != nil {
			return err
		}
	}
	a, err := artifact.Read(ctx, out, t.desc)
	if err != nil || unpacked(dir, out, a, t.name) {
		return err
	}
	if err := dir.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	if err := b.fill(ctx, out, a, dir, fresh); err != nil {
		return errors.Join(err, dir.Root().RemoveAll(fresh))
	}
	var blobs []ocispec.Descriptor
	for _, l := range a.Layers {
		blobs = append(blobs, l.Descriptor)
	}
	return out.Relink(ctx, blobs, func() error { return exchange(dir, fresh, t.name, old) })
}

// exchange replaces the folder name by fresh.
func exchange(dir *fsx.Dir, fresh, name, old string) error {
	if err := dir.Rename(name, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := dir.Rename(fresh, name); err != nil {
		return err
	}
	if err := dir.SyncDir("."); err != nil {
		return err
	}
	return dir.Root().RemoveAll(old)
}

// unpacked reports whether the folder contains the artifact: the list of digests is
// equal and every file is the blob.
func unpacked(dir *fsx.Dir, out *registry.Store, a *artifact.Artifact, name string) bool {
	have, err := dir.Root().ReadFile(name + "/" + SumsFile)
	if err != nil || string(have) != sums(a) {
		return false
	}
	for _, l := range a.Layers {
		file, err := dir.Root().Lstat(filepath.FromSlash(name + "/" + l.Path))
		if err != nil {
			return false
		}
		blob, err := os.Stat(out.BlobPath(l.Descriptor))
		if err != nil || !os.SameFile(file, blob) {
			return false
		}
	}
	return true
}

// SumsFile lists the digests of a target's files for sha256sum(1).
const SumsFile = "SHA256SUMS"

func sums(a *artifact.Artifact) string {
	var b strings.Builder
	for _, l := range a.Layers {
		fmt.Fprintf(&b, "%s  %s\n", l.Descriptor.Digest.Encoded(), l.Path)
	}
	return b.String()
}

// fill checks out the artifact's files to the folder fresh.
func (b *build) fill(ctx context.Context, out *registry.Store, a *artifact.Artifact, dir *fsx.Dir, fresh string) error {
	// Cached: this run has verified the blobs that it wrote.
	if _, err := out.Checkout(ctx, a, filepath.Join(b.opt.Out, fresh), registry.CheckoutOptions{Link: true, Cached: true}); err != nil {
		return err
	}
	return dir.WriteFile(fresh+"/"+SumsFile, []byte(sums(a)), 0o644)
}
