package registry

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
)

// Limits of the archives of another tool's artifact.
const (
	maxMembers   = 10_000   // members of all archives of one checkout, folders too
	maxExpansion = 100      // bytes that one byte of a compressed layer may become …
	minExpansion = 16 << 20 // … beyond these
	maxWindow    = 128 << 20
)

// ErrArchive reports an archive that is refused: a member that is not a plain file or
// folder, an unsafe path, or more data than the layer's size allows.
var ErrArchive = errors.New("archive refused")

// unpack stages the files that l packs and returns their paths. Names, types and sizes
// are checked before a byte of a member is written, and the layer's digest before any
// file is published.
func (c *checkout) unpack(ctx context.Context, below string, l artifact.Layer) ([]string, error) {
	blob, err := c.s.OpenBlob(ctx, l.Descriptor)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	h := l.Descriptor.Digest.Algorithm().Hash()
	raw := &counted{r: io.TeeReader(fsx.Reader{Context: ctx, R: io.LimitReader(blob, l.Descriptor.Size+1)}, h)}
	plain, done, err := decompress(raw, l.Packing.Compression())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	defer done()
	limit := expansion(l.Descriptor.Size, l.Packing.Compression())
	in := &bounded{r: plain, left: limit}
	var paths []string
	if l.Packing.Tar() {
		paths, err = c.members(below, l.Root, in, limit)
	} else {
		paths, err = c.single(path.Join(below, l.Path), in)
	}
	if err != nil {
		return nil, err
	}
	for _, rest := range []io.Reader{in, raw} { // padding, and bytes that the decompressor did not read
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return nil, err
		}
	}
	return paths, artifact.CheckContent(l.Descriptor, raw.n, digest.NewDigest(l.Descriptor.Digest.Algorithm(), h))
}

// expansion returns how many bytes a layer of size bytes may become.
func expansion(size int64, compression string) int64 {
	if compression == "" {
		return size
	}
	return max(minExpansion, size*maxExpansion) // sizes are at most 1 PiB
}

// decompress returns the plain bytes of r.
func decompress(r io.Reader, compression string) (io.Reader, func(), error) {
	switch compression {
	case "":
		return r, func() {}, nil
	case "gzip":
		z, err := gzip.NewReader(bufio.NewReader(r))
		if err != nil {
			return nil, nil, err
		}
		return z, func() { z.Close() }, nil
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return nil, nil, fmt.Errorf("unknown compression %q", compression)
}

// members stages the files of a tar archive, whose sizes add up to at most limit. With a
// root, every file must be below it.
func (c *checkout) members(below, root string, r io.Reader, limit int64) (paths []string, err error) {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return paths, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrArchive, err)
		}
		if c.count++; c.count > maxMembers {
			return nil, fmt.Errorf("%w: more than %d members", ErrArchive, maxMembers)
		}
		name, err := member(h)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrArchive, err)
		}
		if name == "" {
			continue
		}
		if root != "" {
			within, ok := strings.CutPrefix(name, root+"/")
			if !ok {
				return nil, fmt.Errorf("%w: member %q, want a file below %s", ErrArchive, name, root)
			}
			name = within
		}
		if limit -= h.Size; limit < 0 {
			return nil, fmt.Errorf("%w: member %q of %d bytes is more than its layer can hold", ErrArchive, name, h.Size)
		}
		got, err := c.single(path.Join(below, name), t)
		if err != nil {
			return nil, err
		}
		paths = append(paths, got...)
	}
}

// member returns the path of a file in an archive; empty for a folder or a record of
// the archive's own.
func member(h *tar.Header) (string, error) {
	name := h.Name
	for strings.HasPrefix(name, "./") {
		name = name[2:]
	}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return "", nil
	case tar.TypeDir:
		if name = strings.TrimSuffix(name, "/"); name == "" || name == "." {
			return "", nil
		}
		return "", artifact.CheckPath(name)
	case tar.TypeReg:
	default:
		return "", fmt.Errorf("member %q is a link, a device or sparse (type %q), want a file or a folder", artifact.Shorten(name), h.Typeflag)
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return "", fmt.Errorf("member %q is sparse, want a file or a folder", artifact.Shorten(name))
		}
	}
	return name, artifact.CheckPath(name)
}

// single stages one file with the bytes of r, unless the same file is there already.
func (c *checkout) single(name string, r io.Reader) ([]string, error) {
	if err := c.names.Add(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	f := staged{temp: artifact.CheckoutDir + "/" + strconv.Itoa(len(c.files)), path: name}
	sum, size, err := c.write(f.temp, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", artifact.Shorten(name), err)
	}
	c.files = append(c.files, f)
	there, err := c.dir.Root().Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && c.opt.Force && there.Mode().IsRegular():
		return []string{name}, nil
	case err != nil:
		return nil, err
	case !there.Mode().IsRegular() || there.Size() != size:
		return nil, fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	old, err := c.dir.Root().Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer old.Close()
	_, have, err := fsx.DigestOf(old)
	if err == nil && have != sum {
		err = fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	c.files = c.files[:len(c.files)-1] // the next file takes its place
	return []string{name}, errors.Join(err, c.dir.Remove(f.temp))
}

// write writes a staged file and returns the digest of its bytes.
func (c *checkout) write(temp string, r io.Reader) (sum string, size int64, err error) {
	f, err := c.dir.Create(temp, 0o644)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, h), r)
	if err == nil {
		err = f.Sync()
	}
	return digest.NewDigest(digest.SHA256, h).String(), size, errors.Join(err, f.Close())
}

// counted counts the bytes read.
type counted struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// bounded refuses to deliver more than left bytes.
type bounded struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("%w: more data than the layer's size allows", ErrArchive)
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrArchive, err)
	}
	return n, err
}
