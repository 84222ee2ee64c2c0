package registry

import (
	"context"
	"fmt"
	"io/fs"
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
func (s *Store) Unfinished(ctx context.Context) ([]Unfinished, error) {
	var out []Unfinished
	for _, dir := range []string{partialDir, uploadDir} {
		entries, err := s.readDir(dir)
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
func (s *Store) DropUploads(ctx context.Context, age time.Duration) (int, error) {
	if err := s.writable(); err != nil {
		return 0, fmt.Errorf("drop uploads: %w", err)
	}
	c := &collection{s: s, before: time.Now().Add(-age)}
	if err := c.sweepResumable(ctx, uploadDir); err != nil {
		return c.report.Temp, fmt.Errorf("drop uploads: %w", err)
	}
	return c.report.Temp, nil
}

// Usage is how many bytes the store's files take up, blobs and what is on its
// way in. It looks at every file.
func (s *Store) Usage(ctx context.Context) (int64, error) {
	var sum int64
	for _, dir := range []string{blobDir, ingestDir, partialDir, uploadDir} {
		err := fs.WalkDir(s.dir.Root().FS(), dir, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return ignoreMissing(err)
			}
			if fi, err := e.Info(); err == nil {
				sum += fi.Size()
			}
			return ctx.Err()
		})
		if err != nil {
			return 0, fmt.Errorf("measure the store: %w", ignoreMissing(err))
		}
	}
	return sum, nil
}
