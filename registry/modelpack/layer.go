package modelpack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
)

// part is one layer of an image: the files of a module.
type part struct {
	name  string
	files []artifact.Layer
}

// push writes the layer to dst unless it exists. Its digest is computed first, from
// the bytes of the files.
func (p *part) push(ctx context.Context, src content.Fetcher, dst Target) (ocispec.Descriptor, error) {
	h := digest.SHA256.Hash()
	n := &counter{}
	if err := p.write(ctx, src, io.MultiWriter(h, n)); err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.NewDigest(digest.SHA256, h), Size: n.n}
	if there, err := dst.Exists(ctx, desc); err != nil || there {
		return desc, err
	}
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.CloseWithError(p.write(ctx, src, w))
	}()
	err := dst.Push(ctx, desc, r)
	r.Close() // ends the writer
	<-done
	if errors.Is(err, errdef.ErrAlreadyExists) {
		err = nil
	}
	return desc, err
}

// write writes the layer as an archive: folders before their files, owner and time
// zero.
func (p *part) write(ctx context.Context, src content.Fetcher, w io.Writer) error {
	t := tar.NewWriter(w)
	done := map[string]bool{}
	for _, f := range p.files {
		name := path.Join(artifact.ImageRoot, f.Path)
		for _, dir := range parents(name) {
			if done[dir] {
				continue
			}
			done[dir] = true
			if err := t.WriteHeader(header(tar.TypeDir, dir+"/", 0o755, 0)); err != nil {
				return err
			}
		}
		if err := t.WriteHeader(header(tar.TypeReg, name, 0o644, f.Descriptor.Size)); err != nil {
			return err
		}
		if err := file(ctx, src, t, f.Descriptor); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return t.Close()
}

// header returns the header of a member, in USTAR where its values fit.
func header(kind byte, name string, mode, size int64) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0)}
}

// file copies a blob and compares it with its digest.
func file(ctx context.Context, src content.Fetcher, w io.Writer, desc ocispec.Descriptor) error {
	r, err := src.Fetch(ctx, desc)
	if err != nil {
		return err
	}
	defer r.Close()
	h := desc.Digest.Algorithm().Hash()
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(fsx.Reader{Context: ctx, R: r}, desc.Size))
	if err != nil {
		return err
	}
	return artifact.CheckContent(desc, n, digest.NewDigest(desc.Digest.Algorithm(), h))
}

// parents returns the folders above a path, outermost first.
func parents(name string) (dirs []string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

// counter counts the bytes written.
type counter struct{ n int64 }

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
