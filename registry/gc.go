package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// defaultGrace is how long unnamed blobs are kept: longer than any push or
// pull takes from its first blob to its tag.
const defaultGrace = 24 * time.Hour

// GCOptions for [Store.GC].
type GCOptions struct {
	DryRun bool          // report only
	Grace  time.Duration // keep younger blobs. Zero: 24 hours; negative: keep nothing, unsafe with concurrent writers
}

// GCReport lists the blobs that [Store.GC] removed, or would remove.
type GCReport struct {
	Blobs     []digest.Digest `json:"blobs"`     // unreachable blobs, sorted
	Bytes     int64           `json:"bytes"`     // their size
	Referrers []digest.Digest `json:"referrers"` // of them, listed in index.json with a missing subject
	Temp      int             `json:"temp"`      // leftovers of interrupted work
	Kept      int             `json:"kept"`      // blobs that stay
	Young     int             `json:"young"`     // of them, unreachable but within the grace period
}

// GC removes blobs that are not named and were not used within the grace
// period, entries of referrers with a missing subject, and leftovers of
// interrupted work.
//
// Named blobs are those that an index entry without subject reaches (tags, and
// the entries of other tools), those that a repository's link to a manifest
// without subject reaches, and every referrer of a named blob, with all it
// reaches.
//
// GC is safe with concurrent pushes and pulls of other processes. A writer
// that reuses an existing blob marks it under a shared lock (Exists, Push,
// AddFile, Partial, Link); a writer that names a manifest checks under the
// same lock that all of it exists (Tag, Link). GC holds the lock exclusively
// from reading the names to removing the last blob, removes only blobs that
// are old by their own time and by their mark, and drops index entries before
// the blobs they name. So at any moment, and after a crash at any point, every
// named blob exists, and a writer that stored or marked the parts of an
// artifact within the grace period can still name it. Readers are not blocked;
// one that resolved a name before its removal may find the blob missing.
func (s *Store) GC(ctx context.Context, opt GCOptions) (GCReport, error) {
	report, err := s.gc(ctx, opt)
	if err != nil {
		return report, fmt.Errorf("collect garbage: %w", err)
	}
	return report, nil
}

func (s *Store) gc(ctx context.Context, opt GCOptions) (GCReport, error) {
	if err := s.writable(); err != nil {
		return GCReport{}, err
	}
	lock, err := s.dir.Lock(ctx, cas.GCLock)
	if err != nil {
		return GCReport{}, err
	}
	defer lock.Unlock()
	c := &collection{s: s, dry: opt.DryRun, before: time.Now().Add(-cmp.Or(opt.Grace, defaultGrace)), seen: map[nodeKey]bool{}, live: map[digest.Digest]bool{}}
	if opt.Grace < 0 {
		c.before = time.Now().Add(time.Hour)
	}
	for _, step := range []func(context.Context) error{c.markNamed, c.dropReferrers, c.removeBlobs, c.sweep} {
		if err := step(ctx); err != nil {
			return c.report, err
		}
	}
	return c.report, nil
}

// collection is one run of GC.
type collection struct {
	s      *Store
	dry    bool
	before time.Time // older files may be removed
	seen   map[nodeKey]bool
	live   map[digest.Digest]bool
	dead   []ocispec.Descriptor // referrer entries without subject
	report GCReport
}

// markNamed finds all named blobs. A named manifest that cannot be read stops
// the collection, because its references are unknown.
func (c *collection) markNamed(ctx context.Context) error {
	entries, err := c.s.names.Entries()
	if err != nil {
		return err
	}
	var referrers []*artifact.Manifest
	for _, e := range entries {
		if artifact.IsManifest(e.MediaType) && refName(e) == "" {
			n, err := c.s.node(e)
			if err != nil && !errors.Is(err, errdef.ErrNotFound) {
				return err
			}
			if err == nil && n.Subject != nil {
				referrers = append(referrers, n)
				continue
			}
		}
		if err := c.reach(ctx, e); err != nil {
			return err
		}
	}
	if err := c.markLinked(ctx); err != nil {
		return err
	}
	for again := true; again; {
		again = false
		referrers = slices.DeleteFunc(referrers, func(n *artifact.Manifest) bool {
			if err != nil || !c.live[n.Subject.Digest] {
				return false
			}
			err = c.reach(ctx, n.Descriptor)
			again = true
			return true
		})
		if err != nil {
			return err
		}
	}
	for _, n := range referrers {
		if !c.live[n.Descriptor.Digest] {
			c.dead = append(c.dead, n.Descriptor)
		}
	}
	return nil
}

// markLinked adds the blobs that linked manifests of repositories reach.
func (c *collection) markLinked(ctx context.Context) error {
	return c.s.eachLink(func(_, name string, d digest.Digest) error {
		rec, err := c.s.readLink(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if rec.Deleted || !artifact.IsManifest(rec.MediaType) {
			return nil
		}
		desc := ocispec.Descriptor{MediaType: rec.MediaType, Digest: d, Size: rec.Size}
		n, err := c.s.node(desc)
		if errors.Is(err, errdef.ErrNotFound) || err == nil && n.Subject != nil {
			return nil
		}
		if err != nil {
			return err
		}
		return c.reach(ctx, desc)
	})
}

// reach marks desc and all below it.
func (c *collection) reach(ctx context.Context, desc ocispec.Descriptor) error {
	return c.s.walk(ctx, desc, c.seen, func(d ocispec.Descriptor, _ *artifact.Manifest, err error) error {
		if err != nil && !errors.Is(err, errdef.ErrNotFound) {
			return err
		}
		c.live[d.Digest] = true
		return nil
	})
}

// dropReferrers removes the entries of old referrers without subject. It comes
// before the removal of blobs, so that the index never names a missing one.
func (c *collection) dropReferrers(ctx context.Context) error {
	gone := map[digest.Digest]bool{}
	for _, desc := range c.dead {
		fi, err := c.s.Stat(desc.Digest)
		if err == nil && !c.s.Unused(fi, desc.Digest, c.before) {
			// Too young to remove, and so is all it needs.
			if err := c.reach(ctx, desc); err != nil {
				return err
			}
			continue
		}
		gone[desc.Digest] = true
		c.report.Referrers = append(c.report.Referrers, desc.Digest)
	}
	slices.Sort(c.report.Referrers)
	if len(gone) == 0 || c.dry {
		return nil
	}
	return c.s.names.Update(ctx, func(e *nameEdit) error {
		for _, d := range c.report.Referrers {
			if gone[d] {
				e.Drop("", d)
			}
		}
		return nil
	})
}

// removeBlobs removes the blobs that are neither named nor young.
func (c *collection) removeBlobs(ctx context.Context) error {
	return c.s.EachBlob(func(name string, d digest.Digest, fi fs.FileInfo) error {
		if c.live[d] || !c.s.Unused(fi, d, c.before) {
			c.report.Kept++
			if !c.live[d] {
				c.report.Young++
			}
			return ctx.Err()
		}
		c.report.Blobs = append(c.report.Blobs, d)
		c.report.Bytes += fi.Size()
		if c.dry {
			return ctx.Err()
		}
		return errors.Join(c.s.dir.Remove(name), ctx.Err())
	})
}

// sweep removes the leftovers of interrupted work and the links of removed
// blobs, and makes index.json complete.
func (c *collection) sweep(ctx context.Context) (err error) {
	if c.report.Temp, err = c.s.Sweep(ctx, c.before, c.dry); err != nil || c.dry {
		return err
	}
	return errors.Join(c.sweepLinks(), c.s.names.Compact(ctx))
}

// sweepLinks removes the records of removed blobs.
func (c *collection) sweepLinks() error {
	unless := func(_, name string, d digest.Digest) error {
		if _, err := c.s.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return cas.IgnoreMissing(c.s.dir.Remove(name))
	}
	entries, err := cas.ReadDir(c.s.dir, confineDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if d := digest.Digest(strings.Replace(e.Name(), "-", ":", 1)); artifact.CheckDigest(d) == nil {
			if err := unless("", confineName(d), d); err != nil {
				return err
			}
		}
	}
	return c.s.eachLink(unless)
}
