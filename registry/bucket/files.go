package bucket

import (
	"context"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// Files are the objects below an address, by their names below it.
type Files struct {
	Bucket   Bucket
	Place    Address
	Sessions Sessions // of interrupted uploads
}

// Fetch downloads an object to the file at path, whose folder is made, and verifies it.
func (f Files) Fetch(ctx context.Context, name, path string) error {
	at := f.Place.Under(name)
	d, err := fsx.Create(filepath.Dir(path), 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	if _, _, err := Download(ctx, f.Bucket, at.Key, d, filepath.Base(path), DownloadOptions{Place: at.String(), Digested: true}); err != nil {
		return &CopyError{at.String(), err}
	}
	return nil
}

// Save uploads the file at path, unless the object has the same content.
func (f Files) Save(ctx context.Context, name, path string) error {
	at := f.Place.Under(name)
	if _, _, err := Upload(ctx, f.Bucket, at.Key, path, UploadOptions{Sessions: f.Sessions, Place: at.String()}); err != nil {
		return &CopyError{at.String(), err}
	}
	return nil
}
