package cas

import (
	"context"
	"fmt"
	"io/fs"
	"mm-abi.org/mm/registry/disk"
	"strings"
	"time"
)

// Unfinished is a blob on its way in that nobody has finished yet.
type Unfinished struct {
	Path  string    // in the store's folder
	Bytes int64     // that it takes up
	Since time.Time // when it last grew
}

// Unfinished lists the partial downloads and uploads.
func (s *Blobs) Unfinished(ctx context.Context) ([]Unfinished, error) {
	var out []Unfinished
	for _, dir := range []string{disk.PartialDir, disk.UploadDir} {
		entries, err := disk.ReadDir(s.dir, dir)
		if err != nil {
			return nil, fmt.Errorf("list what is unfinished: %w", err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".lock") || strings.HasSuffix(e.Name(), ".state") {
				continue
			}
			if fi, err := e.Info(); err == nil {
				out = append(out, Unfinished{Path: dir + "/" + e.Name(), Bytes: fi.Size(), Since: fi.ModTime()})
			}
		}
	}
	return out, ctx.Err()
}

// DropUploads removes the uploads on which nothing has come for longer than age
// and that nobody holds, and returns how many those were.
func (s *Blobs) DropUploads(ctx context.Context, age time.Duration) (int, error) {
	if err := s.writable(); err != nil {
		return 0, fmt.Errorf("drop uploads: %w", err)
	}
	c := &sweeper{s: s, before: time.Now().Add(-age)}
	if err := c.sweepResumable(ctx, disk.UploadDir); err != nil {
		return c.count, fmt.Errorf("drop uploads: %w", err)
	}
	return c.count, nil
}

// Usage is how many bytes the store's files take up, blobs and what is on its
// way in. It looks at every file.
func (s *Blobs) Usage(ctx context.Context) (int64, error) {
	var sum int64
	for _, dir := range []string{disk.BlobDir, disk.IngestDir, disk.PartialDir, disk.UploadDir} {
		err := fs.WalkDir(s.dir.Root().FS(), dir, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return disk.IgnoreMissing(err)
			}
			if fi, err := e.Info(); err == nil {
				sum += fi.Size()
			}
			return ctx.Err()
		})
		if err != nil {
			return 0, fmt.Errorf("measure the store: %w", disk.IgnoreMissing(err))
		}
	}
	return sum, nil
}
