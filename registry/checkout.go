package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/cas"
)

// CheckoutOptions for [Store.Checkout].
type CheckoutOptions struct {
	Only   func(artifact.Layer) bool // which layers. Zero: all
	Link   bool                      // hard link out of the store where the disk allows; the files are read-only. Zero: copy
	Force  bool                      // replace files that are there. Zero: refuse, unless the file is the blob itself
	Target string                    // of an index, this target alone ([Store.CheckoutTree]). Zero: all
	Cached bool                      // with Link, trust the digest cache as VerifyCached does. Zero: hash every blob
}

// Checkout writes the files of a into dir, which is created if missing, and
// returns their paths below dir, sorted. Every file is hashed before it is
// visible. Links in dir are not followed out of it. If Checkout fails, the
// files it created are removed; files it replaced under Force are the complete
// new ones.
func (s *Store) Checkout(ctx context.Context, a *artifact.Artifact, dir string, opt CheckoutOptions) ([]string, error) {
	paths, err := s.checkout(ctx, []part{{artifact: a}}, dir, opt)
	if err != nil {
		return nil, fmt.Errorf("check out %s to %s: %w", a.Name, dir, err)
	}
	return paths, nil
}

// CheckoutTree puts the files of t into dir, as [Store.Checkout] does: those of
// each target of an index into the folder of its name, or those of
// [CheckoutOptions.Target] alone straight into dir. Either every file is there
// afterwards or none.
func (s *Store) CheckoutTree(ctx context.Context, t *artifact.Tree, dir string, opt CheckoutOptions) ([]string, error) {
	parts, err := partsOf(t, opt.Target)
	if err != nil {
		return nil, err
	}
	paths, err := s.checkout(ctx, parts, dir, opt)
	if err != nil {
		return nil, fmt.Errorf("check out %s to %s: %w", t.Descriptor.Digest, dir, err)
	}
	return paths, nil
}

// part is an artifact and the folder below the target that its files go to, ""
// for the target itself.
type part struct {
	below    string
	artifact *artifact.Artifact
}

// partsOf chooses the parts of t and their folders.
func partsOf(t *artifact.Tree, target string) ([]part, error) {
	if t.Index == nil {
		return []part{{artifact: t.Parts[0].Artifact}}, nil
	}
	var parts []part
	for _, p := range t.Parts {
		switch target {
		case "":
			parts = append(parts, part{p.Target, p.Artifact})
		case p.Target:
			parts = append(parts, part{"", p.Artifact})
		}
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("check out %s: no target %q: %w", t.Descriptor.Digest, target, errdef.ErrNotFound)
	}
	return parts, nil
}

func (s *Store) checkout(ctx context.Context, parts []part, dir string, opt CheckoutOptions) (paths []string, err error) {
	for _, p := range parts {
		if err := artifact.CheckLayers(p.artifact.Layers); err != nil {
			return nil, err
		}
		if p.below != "" {
			if err := artifact.CheckTarget(p.below); err != nil {
				return nil, err
			}
		}
	}
	c := &checkout{s: s, opt: opt}
	defer func() {
		if err != nil {
			c.undo()
		}
		err = errors.Join(err, c.close(err != nil))
	}()
	if err := c.open(ctx, dir); err != nil {
		return nil, err
	}
	if err := c.room(parts); err != nil {
		return nil, err
	}
	for _, p := range parts {
		for _, l := range p.artifact.Layers {
			if opt.Only != nil && !opt.Only(l) {
				continue
			}
			staged, err := c.place(ctx, p.below, l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path.Join(p.below, l.Path), err)
			}
			paths = append(paths, staged...)
		}
	}
	if err := c.publish(); err != nil {
		return nil, err
	}
	slices.Sort(paths)
	return paths, nil
}

// stageLock is the lock in the staging folder, where files wait until all are
// checked. It admits one checkout at a time; the next removes the files of a
// killed one.
const (
	stageLock = artifact.CheckoutDir + "/lock"
)

// checkout is one run: all files are staged, checked, and only then renamed
// into place.
type checkout struct {
	s     *Store
	names artifact.PathSet // of all files, packed ones too
	count int              // members of archives
	opt   CheckoutOptions
	dir   *fsx.Dir
	lock  *fsx.Lock
	new   []string // folders that were made to hold dir, outermost first
	files []staged
	made  []string // folders and files below dir, in order of making
}

// staged is a checked file and its destination.
type staged struct {
	temp, path string
	desc       ocispec.Descriptor
	key        *cas.Key // of the blob before it was linked, if its digest was remembered
}

// open opens or creates the target and its staging folder.
func (c *checkout) open(ctx context.Context, dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for p := abs; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) || p == filepath.Dir(p) {
			break
		}
		c.new = append([]string{p}, c.new...)
	}
	if c.dir, err = fsx.Create(abs, 0o755, fsx.Options{Hook: c.s.hook}); err != nil {
		return err
	}
	for try := 0; ; try++ {
		if err = c.dir.MkdirAll(artifact.CheckoutDir, 0o755); err != nil {
			return err
		}
		c.lock, err = c.dir.Lock(ctx, stageLock)
		if err == nil {
			return c.clearStage()
		}
		// The last holder of the lock may have removed the folder.
		if !errors.Is(err, fs.ErrNotExist) || try == 100 {
			return err
		}
	}
}

// room returns a [*cas.FullError] if the file system of the target has no space for
// the files that have to be copied.
func (c *checkout) room(parts []part) error {
	free, ok := c.s.Free(c.dir.Path())
	if !ok || c.opt.Link && c.s.SameDisk(c.dir.Path()) {
		return nil
	}
	var need int64
	for _, p := range parts {
		for _, l := range p.artifact.Layers {
			if c.opt.Only == nil || c.opt.Only(l) {
				need += min(l.Descriptor.Size, math.MaxInt64-need)
			}
		}
	}
	if need > free {
		return &cas.FullError{Dir: c.dir.Path(), Need: need, Free: free}
	}
	return nil
}

// clearStage removes all files of the staging folder but the lock.
func (c *checkout) clearStage() error {
	entries, err := fs.ReadDir(c.dir.Root().FS(), artifact.CheckoutDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := artifact.CheckoutDir + "/" + e.Name(); name != stageLock {
			err = errors.Join(err, c.dir.Remove(name))
		}
	}
	return err
}

// place stages the file of l, or those that it packs, in the folder below, and returns
// their paths.
func (c *checkout) place(ctx context.Context, below string, l artifact.Layer) ([]string, error) {
	if l.Packing != "" {
		return c.unpack(ctx, below, l)
	}
	l.Path = path.Join(below, l.Path)
	if err := c.names.Add(l.Path); err != nil {
		return nil, err
	}
	return []string{l.Path}, c.stage(ctx, l)
}

// stage puts the checked bytes of l into the staging folder, unless the file at
// its path is the blob already.
func (c *checkout) stage(ctx context.Context, l artifact.Layer) error {
	there, err := c.dir.Root().Lstat(filepath.FromSlash(l.Path))
	if err == nil && c.opt.Link && c.isBlob(there, l.Descriptor) {
		return c.verify(ctx, l.Descriptor)
	}
	if err == nil && c.opt.Link && c.isCopy(ctx, there, l) {
		return nil
	}
	if err == nil && (!c.opt.Force || !there.Mode().IsRegular()) {
		return fs.ErrExist
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f := staged{temp: artifact.CheckoutDir + "/" + strconv.Itoa(len(c.files)), path: l.Path, desc: l.Descriptor}
	if c.opt.Link {
		linked, err := c.link(ctx, &f)
		if err != nil {
			return err
		}
		if linked {
			c.files = append(c.files, f)
			return nil
		}
	}
	if err := c.copy(ctx, l.Descriptor, f.temp); err != nil {
		return err
	}
	c.files = append(c.files, f)
	return nil
}

func (c *checkout) isBlob(fi fs.FileInfo, desc ocispec.Descriptor) bool {
	blob, err := os.Stat(c.s.BlobPath(desc))
	return err == nil && os.SameFile(fi, blob)
}

// isCopy reports whether the file at the path of l has the bytes of its blob: an
// earlier checkout could not link it.
func (c *checkout) isCopy(ctx context.Context, fi fs.FileInfo, l artifact.Layer) bool {
	if !fi.Mode().IsRegular() || fi.Size() != l.Descriptor.Size {
		return false
	}
	f, err := cas.Open(c.dir, l.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	h := l.Descriptor.Digest.Algorithm().Hash()
	n, err := cas.CopyHash(ctx, nil, h, f, l.Descriptor.Size)
	return err == nil && artifact.CheckContent(l.Descriptor, n, digest.NewDigest(l.Descriptor.Digest.Algorithm(), h)) == nil
}

func (c *checkout) verify(ctx context.Context, desc ocispec.Descriptor) error {
	if c.opt.Cached {
		return c.s.VerifyCached(ctx, desc)
	}
	return c.s.Verify(ctx, desc)
}

// link links the checked blob as f.
func (c *checkout) link(ctx context.Context, f *staged) (bool, error) {
	if err := c.verify(ctx, f.desc); err != nil {
		return false, err
	}
	blob, err := c.s.OpenBlob(ctx, f.desc)
	if err != nil {
		return false, err
	}
	defer blob.Close()
	if key, ok := cas.KeyOf(blob); ok && c.s.Cached(key) == f.desc.Digest {
		f.key = &key
	}
	if err := c.dir.LinkFrom(c.s.BlobPath(f.desc), f.temp); err != nil {
		return false, nil
	}
	linked, err := c.dir.Root().Lstat(filepath.FromSlash(f.temp))
	if err != nil {
		return false, err
	}
	fi, err := blob.Stat()
	if err != nil {
		return false, err
	}
	if !c.s.same(fi, linked) {
		// The blob was replaced, or the file system assigns each link another
		// inode number: copy, and hash the copy.
		return false, c.dir.Remove(f.temp)
	}
	return true, nil
}

// remember renews the cache record of a linked blob: link and rename move its
// change time, and nothing else.
func (c *checkout) remember(f staged) {
	if f.key == nil {
		return
	}
	fi, err := c.dir.Root().Lstat(filepath.FromSlash(f.path))
	if err != nil {
		return
	}
	after, ok := cas.KeyOfInfo(fi)
	if f.key.Ctime = after.Ctime; ok && after == *f.key {
		c.s.Remember(after, f.desc.Digest)
	}
}

// copy copies the blob to temp, hashing the bytes.
func (c *checkout) copy(ctx context.Context, desc ocispec.Descriptor, temp string) error {
	blob, err := c.s.OpenBlob(ctx, desc)
	if err != nil {
		return err
	}
	defer blob.Close()
	f, err := c.dir.Create(temp, 0o644)
	if err != nil {
		return err
	}
	h := desc.Digest.Algorithm().Hash()
	n, err := cas.CopyHash(ctx, f, h, blob, desc.Size)
	if err == nil {
		err = artifact.CheckContent(desc, n, digest.NewDigest(desc.Digest.Algorithm(), h))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// publish renames the staged files into place, durably.
func (c *checkout) publish() error {
	dirs := map[string]bool{}
	for _, f := range c.files {
		dir := path.Dir(f.path)
		if err := c.makeDir(dir); err != nil {
			return err
		}
		_, err := c.dir.Root().Lstat(filepath.FromSlash(f.path))
		if err == nil && !c.opt.Force {
			return fmt.Errorf("%s: %w", f.path, fs.ErrExist)
		}
		isNew := errors.Is(err, fs.ErrNotExist)
		if err := c.dir.Rename(f.temp, f.path); err != nil {
			return err
		}
		c.remember(f)
		if isNew {
			c.made = append(c.made, f.path)
		}
		dirs[dir] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if err := c.dir.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// makeDir creates the folder name and records the new ones among its parents.
func (c *checkout) makeDir(name string) error {
	if name == "." {
		return nil
	}
	if err := c.makeDir(path.Dir(name)); err != nil {
		return err
	}
	_, err := c.dir.Root().Stat(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		c.made = append(c.made, name)
	}
	return c.dir.MkdirAll(name, 0o755)
}

// undo removes the published files. Folders with other files remain.
func (c *checkout) undo() {
	for _, name := range slices.Backward(c.made) {
		c.dir.Remove(name)
	}
}

// close removes the staging folder and, after a failure, a target that was
// made for nothing.
func (c *checkout) close(failed bool) (err error) {
	if c.lock != nil {
		err = errors.Join(c.clearStage(), c.lock.RemoveUnlock())
	}
	if c.dir != nil {
		c.dir.Remove(artifact.CheckoutDir) // fails, rightly, if another checkout waits
		err = errors.Join(err, c.dir.Close())
	}
	if failed {
		c.removeNew()
		return nil
	}
	return err
}

// removeNew removes the folders that were made to hold the target.
func (c *checkout) removeNew() {
	for _, p := range slices.Backward(c.new) {
		if d, err := fsx.Open(filepath.Dir(p), fsx.Options{Hook: c.s.hook}); err == nil {
			d.Remove(filepath.Base(p))
			d.Close()
		}
	}
}
