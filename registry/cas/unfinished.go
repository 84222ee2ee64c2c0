package cas

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Unfinished is an incomplete blob.
type Unfinished struct {
	Path  string    // in the store's folder
	Bytes int64     // its size
	Since time.Time // when it last grew
}

// Unfinished lists the partial downloads and uploads.
func (s *Blobs) Unfinished(ctx context.Context) ([]Unfinished, error) {
	var out []Unfinished
	for _, dir := range []string{PartialDir, UploadDir} {
		entries, err := ReadDir(s.dir, dir)
		if err != nil {
			return nil, fmt.Errorf("list unfinished blobs: %w", err)
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

// DropUploads removes the uploads that have received nothing for longer than
// age and that no process holds, and returns their number.
func (s *Blobs) DropUploads(ctx context.Context, age time.Duration) (int, error) {
	if err := s.writable(); err != nil {
		return 0, fmt.Errorf("drop uploads: %w", err)
	}
	c := &sweeper{s: s, before: time.Now().Add(-age)}
	if err := c.sweepResumable(ctx, UploadDir); err != nil {
		return c.count, fmt.Errorf("drop uploads: %w", err)
	}
	return c.count, nil
}

// Usage returns the size of the store's files in bytes: blobs, complete and
// incomplete. It stats every file.
func (s *Blobs) Usage(ctx context.Context) (int64, error) {
	var sum int64
	for _, dir := range []string{BlobDir, IngestDir, PartialDir, UploadDir} {
		err := fs.WalkDir(s.dir.Root().FS(), dir, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return IgnoreMissing(err)
			}
			if fi, err := e.Info(); err == nil {
				sum += fi.Size()
			}
			return ctx.Err()
		})
		if err != nil {
			return 0, fmt.Errorf("measure the store: %w", IgnoreMissing(err))
		}
	}
	return sum, nil
}
