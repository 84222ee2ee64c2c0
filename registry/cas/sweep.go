package cas

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
)

// eachBlob calls fn for every blob file, sorted by digest.
func (s *Blobs) EachBlob(fn func(name string, d digest.Digest, fi fs.FileInfo) error) error {
	for _, a := range []digest.Algorithm{digest.SHA256, digest.SHA512} {
		dir := BlobDir + "/" + a.String()
		entries, err := ReadDir(s.dir, dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			d := digest.NewDigestFromEncoded(a, e.Name())
			fi, err := e.Info()
			if artifact.CheckDigest(d) != nil || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := fn(dir+"/"+e.Name(), d, fi); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unused reports whether neither the blob's file, which fi describes, nor its
// mark is as recent as before.
func (s *Blobs) Unused(fi fs.FileInfo, d digest.Digest, before time.Time) bool {
	if !fi.ModTime().Before(before) {
		return false
	}
	mark, err := s.dir.Root().Stat(filepath.FromSlash(KeepDir + "/" + flatName(d)))
	return errors.Is(err, fs.ErrNotExist) || err == nil && mark.ModTime().Before(before)
}

// Sweep removes the leftovers of interrupted work that are older than before,
// marks out of date, and cache records without a blob. It returns the number of
// leftovers; with dry it removes nothing.
func (s *Blobs) Sweep(ctx context.Context, before time.Time, dry bool) (int, error) {
	c := &sweeper{s: s, before: before, dry: dry}
	err := c.sweep(ctx)
	return c.count, err
}

// sweeper is one run of Sweep.
type sweeper struct {
	s      *Blobs
	before time.Time // older leftovers are removed
	dry    bool
	count  int
}

func (c *sweeper) sweep(ctx context.Context) error {
	for _, dir := range []string{".", PrivateDir, IngestDir, DigestDir, KeepDir, OutgoingDir} {
		if err := c.sweepDir(dir, func(name string) bool {
			return dir == IngestDir || dir == KeepDir || dir == OutgoingDir || strings.HasPrefix(path.Base(name), fsx.TempPrefix)
		}); err != nil {
			return err
		}
	}
	for _, dir := range []string{PartialDir, UploadDir} {
		if err := c.sweepResumable(ctx, dir); err != nil {
			return err
		}
	}
	if c.dry {
		return nil
	}
	return c.sweepCache()
}

// sweepDir removes the old files of dir that match.
func (c *sweeper) sweepDir(dir string, match func(name string) bool) error {
	entries, err := ReadDir(c.s.dir, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() || !match(name) || !fi.ModTime().Before(c.before) {
			continue
		}
		if dir != KeepDir {
			c.count++
		}
		if c.dry {
			continue
		}
		if err := IgnoreMissing(c.s.dir.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}

// sweepResumable removes the old ingests of dir that no process holds.
func (c *sweeper) sweepResumable(ctx context.Context, dir string) error {
	entries, err := ReadDir(c.s.dir, dir)
	if err != nil {
		return err
	}
	newest := map[string]time.Time{}
	for _, e := range entries {
		base := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".lock"), ".state")
		if fi, err := e.Info(); err == nil && fi.ModTime().After(newest[base]) {
			newest[base] = fi.ModTime()
		}
	}
	for base, at := range newest {
		if !at.Before(c.before) {
			continue
		}
		c.count++
		if c.dry {
			continue
		}
		if strings.HasPrefix(base, fsx.TempPrefix) {
			if err := IgnoreMissing(c.s.dir.Remove(dir + "/" + base)); err != nil {
				return err
			}
			continue
		}
		lock, err := c.s.dir.TryLock(ctx, dir+"/"+base+".lock")
		if errors.Is(err, fsx.ErrLocked) {
			c.count--
			continue
		}
		if err != nil {
			return err
		}
		err = errors.Join(IgnoreMissing(c.s.dir.Remove(dir+"/"+base+".state")), IgnoreMissing(c.s.dir.Remove(dir+"/"+base)), lock.RemoveUnlock())
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepCache removes digest records without a blob.
func (c *sweeper) sweepCache() error {
	entries, err := ReadDir(c.s.dir, DigestDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := DigestDir + "/" + e.Name()
		data, err := ReadFile(c.s.dir, name, 1<<10)
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(data)); len(fields) == 8 {
			if _, err := c.s.Stat(digest.Digest(fields[6])); err == nil {
				continue
			}
		}
		if strings.HasPrefix(e.Name(), fsx.TempPrefix) {
			continue // being written
		}
		if err := IgnoreMissing(c.s.dir.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}
