package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// FsckOptions for [Store.Fsck].
type FsckOptions struct {
	Quick  bool // check presence and sizes only. Zero: hash every blob
	Repair bool // remove corrupt blobs so that they can be fetched again. Zero: report only
}

// Problem is one fault that [Store.Fsck] found.
type Problem struct {
	Digest digest.Digest `json:"digest,omitempty"`
	Ref    string        `json:"ref,omitempty"` // the first name that reaches it
	Path   string        `json:"path,omitempty"`
	Detail string        `json:"detail"`
}

// String formats the problem as one line.
func (p Problem) String() string {
	var parts []string
	for _, part := range []string{p.Ref, p.Path, string(p.Digest), p.Detail} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// FsckReport is the outcome of [Store.Fsck]; the store is sound when Problems
// is empty.
type FsckReport struct {
	Tags     int       `json:"tags"`
	Blobs    int       `json:"blobs"`
	Bytes    int64     `json:"bytes"`
	Temp     int       `json:"temp"` // leftovers of interrupted work; harmless
	Left     []Problem `json:"left"` // incomplete blobs among them, which use space until gc or the next try
	Problems []Problem `json:"problems"`
	Notes    []Problem `json:"notes"` // possible damage that another tool may also have caused
}

// Fsck checks the store: that the layout and index.json are readable, that
// every named blob exists, and that every blob matches its digest.
func (s *Store) Fsck(ctx context.Context, opt FsckOptions) (FsckReport, error) {
	report, err := s.fsck(ctx, opt)
	if err != nil {
		return report, fmt.Errorf("check store: %w", err)
	}
	return report, nil
}

func (s *Store) fsck(ctx context.Context, opt FsckOptions) (FsckReport, error) {
	c := &check{s: s, quick: opt.Quick, ref: map[digest.Digest]string{}, missing: map[digest.Digest]bool{}}
	if opt.Repair {
		if err := s.writable(); err != nil {
			return c.report, err
		}
	}
	if !s.readOnly {
		// Held so that gc does not remove a blob just found named.
		lock, err := s.dir.RLock(ctx, cas.GCLock)
		if err != nil {
			return c.report, err
		}
		defer lock.Unlock()
	}
	if err := s.checkLayout(); err != nil {
		c.problem(Problem{Path: ocispec.ImageLayoutFile, Detail: err.Error()})
	}
	if entries, err := s.names.Entries(); err != nil {
		c.problem(Problem{Path: ocispec.ImageIndexFile, Detail: err.Error()})
	} else if err := c.named(ctx, entries); err != nil {
		return c.report, err
	}
	if err := c.blobs(ctx); err != nil {
		return c.report, err
	}
	if err := c.links(); err != nil {
		return c.report, err
	}
	if err := c.leftovers(ctx); err != nil {
		return c.report, err
	}
	slices.SortFunc(c.report.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Detail, b.Detail))
	})
	if opt.Repair {
		return c.report, c.repair()
	}
	return c.report, nil
}

// check is one run of Fsck.
type check struct {
	s       *Store
	quick   bool
	ref     map[digest.Digest]string // first name that reaches the blob
	missing map[digest.Digest]bool

	mu      sync.Mutex
	corrupt []string
	report  FsckReport
}

func (c *check) problem(p Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Problems = append(c.report.Problems, p)
}

// named checks that all that the index names is there.
func (c *check) named(ctx context.Context, entries []ocispec.Descriptor) error {
	notes, leftovers, err := c.s.names.Check()
	if err != nil {
		return err
	}
	c.report.Temp += leftovers
	for _, n := range notes {
		c.report.Notes = append(c.report.Notes, Problem{Path: n.Path, Detail: n.Detail})
	}
	digests := map[string]digest.Digest{}
	seen := map[nodeKey]bool{}
	for _, e := range entries {
		ref := refName(e)
		if ref != "" {
			c.report.Tags++
			if other, ok := digests[ref]; ok && other != e.Digest {
				c.problem(Problem{Ref: ref, Detail: fmt.Sprintf("names both %s and %s", other, e.Digest)})
			}
			digests[ref] = e.Digest
		}
		err := c.s.walk(ctx, e, seen, func(desc ocispec.Descriptor, _ *artifact.Manifest, err error) error {
			if c.ref[desc.Digest] == "" {
				c.ref[desc.Digest] = ref
			}
			if err := c.s.present(desc); err != nil && !c.missing[desc.Digest] {
				c.missing[desc.Digest] = true
				c.problem(Problem{Digest: desc.Digest, Ref: ref, Detail: c.absent(desc)})
			} else if err := lasting(err); err != nil {
				c.problem(Problem{Digest: desc.Digest, Ref: ref, Detail: err.Error()})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// absent explains why the blob desc is missing.
func (c *check) absent(desc ocispec.Descriptor) string {
	f, err := c.s.OpenBlob(context.Background(), desc)
	if err == nil {
		f.Close()
		return "appeared while it was looked for"
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return fmt.Sprintf("missing %s of %d bytes", desc.MediaType, desc.Size)
	}
	return err.Error()
}

// lasting drops errors that another check reports: a blob that is missing or
// does not match its digest.
func lasting(err error) error {
	if errors.Is(err, errdef.ErrNotFound) || errors.Is(err, artifact.ErrCorrupt) {
		return nil
	}
	return err
}

// blobs checks every blob against its name, on all processors.
func (c *check) blobs(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	err := c.s.EachBlob(func(name string, d digest.Digest, fi fs.FileInfo) error {
		c.report.Blobs++
		c.report.Bytes += fi.Size()
		if c.quick {
			return ctx.Err()
		}
		g.Go(func() error {
			err := c.s.Verify(ctx, ocispec.Descriptor{Digest: d, Size: fi.Size()})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && !errors.Is(err, errdef.ErrNotFound) {
				c.problem(Problem{Digest: d, Ref: c.ref[d], Path: name, Detail: err.Error()})
				c.mu.Lock()
				c.corrupt = append(c.corrupt, name)
				c.mu.Unlock()
			}
			return nil
		})
		return ctx.Err()
	})
	return errors.Join(g.Wait(), err)
}

// links checks that the records of repositories can be read.
func (c *check) links() error {
	return c.s.eachLink(func(repo, name string, d digest.Digest) error {
		if _, err := c.s.readLink(name); lasting(err) != nil || errors.Is(err, artifact.ErrCorrupt) {
			c.problem(Problem{Digest: d, Path: name, Detail: err.Error()})
		}
		return nil
	})
}

// leftovers counts the leftovers of interrupted work.
func (c *check) leftovers(ctx context.Context) error {
	left, err := c.s.Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, u := range left {
		c.report.Temp++
		c.report.Left = append(c.report.Left, Problem{Path: u.Path, Detail: fmt.Sprintf("%d bytes of an incomplete blob", u.Bytes)})
	}
	for _, dir := range []string{".", cas.PrivateDir, cas.IngestDir, cas.PartialDir, cas.UploadDir, cas.DigestDir, cas.KeepDir} {
		entries, err := cas.ReadDir(c.s.dir, dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if dir == cas.IngestDir || strings.HasPrefix(e.Name(), fsx.TempPrefix) {
				c.report.Temp++
			}
		}
	}
	return nil
}

// repair removes the corrupt blobs, so that they can be stored again.
func (c *check) repair() error {
	for _, name := range c.corrupt {
		if err := cas.IgnoreMissing(c.s.dir.Remove(name)); err != nil {
			return err
		}
	}
	c.s.mu.Lock()
	c.s.nodes = manifestPool{}
	c.s.mu.Unlock()
	c.s.names.Unfollow()
	return nil
}
