package workspace

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/registry/remote"
)

// imageDir holds the unpacked images of skills, in the cache.
const imageDir = "images"

// ImageDir is the folder for the unpacked images of skills, which may be
// missing. Its content can be recreated from the store. If nothing can
// be kept, it is removed with the workspace.
func (w *Workspace) ImageDir() string {
	if dir := w.cached(imageDir); dir != "" {
		return dir
	}
	dir, _ := w.passing() // Empty: unpacking fails
	return dir
}

// Image is a container image that was brought into the store.
type Image struct {
	Ref  string // NAME@sha256:…, as a skill names it
	Name string // that keeps it in the store
}

// Image fetches a container image into the home's store: from a registry
// (HOST/REPOSITORY:TAG, …@sha256:…) or from an image layout (oci:DIR[:NAME]).
// Its publisher is not verified: a skill names it by digest, and the skill is
// signed.
func (w *Workspace) Image(ctx context.Context, ref string) (*Image, error) {
	r, err := remote.ParseReference(ref)
	if err != nil {
		return nil, err
	}
	store, err := w.kept()
	if err != nil {
		return nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	desc, _, err := client.Pull(ctx, ref, store, remote.PullOptions{})
	if err != nil {
		return nil, fmt.Errorf("fetching the image: %w", err)
	}
	i := &Image{Ref: r.Place() + "@" + desc.Digest.String(), Name: "image:" + desc.Digest.Encoded()[:12]}
	if r.Layout != "" {
		i.Ref = filepath.Base(r.Layout) + "@" + desc.Digest.String()
	}
	return i, store.Tag(ctx, desc, i.Name)
}

// OpenBlob opens a blob of the home's store by its SHA-256 in hex. If there is
// no such blob or no store, the error is fs.ErrNotExist.
func (w *Workspace) OpenBlob(_ context.Context, sha256 string) (io.ReadCloser, error) {
	if !w.hasStore() {
		return nil, fs.ErrNotExist
	}
	return os.Open(filepath.Join(w.StoreDir(), "blobs", "sha256", sha256))
}
