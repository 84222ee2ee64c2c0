package cas

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
)

// AddOptions for [Blobs.AddFile].
type AddOptions struct {
	MediaType string // of the descriptor. Zero: application/octet-stream
	Link      bool   // hard link if the disk allows, and make the source read-only. Zero: copy
	Rehash    bool   // ignore the digest cache. Zero: trust it
}

// AddFile stores the file at path as a blob. If its digest is cached and the
// blob exists, the cost is a few system calls. A file that changes while it is
// read is refused.
//
// With Link the blob and the file share an inode: the file loses its write
// permission. Restoring it and writing to the file changes the blob too, which
// every use of the blob then detects.
func (s *Blobs) AddFile(ctx context.Context, path string, opt AddOptions) (ocispec.Descriptor, error) {
	desc, err := s.addFile(ctx, path, opt)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("add %s: %w", path, err)
	}
	return desc, nil
}

func (s *Blobs) addFile(ctx context.Context, path string, opt AddOptions) (desc ocispec.Descriptor, err error) {
	if err := s.writable(); err != nil {
		return desc, err
	}
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return desc, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return desc, err
	}
	desc = ocispec.Descriptor{MediaType: opt.MediaType, Size: fi.Size()}
	if desc.MediaType == "" {
		desc.MediaType = "application/octet-stream"
	}
	key, keyed := KeyOfInfo(fi)
	if keyed && !opt.Rehash && key.Size >= s.CacheMin {
		if desc.Digest = s.Cached(key); desc.Digest != "" {
			if ok, err := s.sound(ctx, desc); ok || err != nil {
				return desc, err
			}
		}
	}
	settled := keyed && key.Settle(ctx)
	h := digest.SHA256.Hash()
	if _, err := CopyHash(ctx, nil, h, f, desc.Size); err != nil {
		return desc, err
	}
	desc.Digest = digest.NewDigest(digest.SHA256, h)
	if err := unchanged(f, fi); err != nil {
		return desc, err
	}
	there, err := s.sound(ctx, desc)
	if err == nil && !there {
		in := incoming{s: s, f: f, fi: fi, desc: desc, settled: settled}
		err = in.store(ctx, opt.Link)
	}
	if err == nil {
		err = unchanged(f, fi)
	}
	if key, ok := KeyOf(f); err == nil && ok && settled {
		s.Remember(key, desc.Digest)
	}
	return desc, err
}

// sound is Keep, but reports false for a damaged blob, so that it is replaced.
func (s *Blobs) sound(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	ok, err := s.Keep(ctx, desc)
	if !ok || err != nil {
		return false, err
	}
	err = s.VerifyCached(ctx, desc)
	if errors.Is(err, artifact.ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}

// incoming is a hashed file on its way into the store.
type incoming struct {
	s       *Blobs
	f       *os.File
	fi      fs.FileInfo // before it was hashed
	desc    ocispec.Descriptor
	settled bool // its times would show a change since
}

// store links or copies the file to the blob's name.
func (in *incoming) store(ctx context.Context, link bool) error {
	if link {
		if linked, err := in.link(); linked || err != nil {
			return err
		}
	}
	if _, err := in.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if in.settled {
		return in.copy(ctx)
	}
	return in.s.Ingest(ctx, in.desc, in.f)
}

// link makes the file itself the blob. It reports false if that is impossible.
func (in *incoming) link() (linked bool, err error) {
	thaw, err := fsx.Freeze(in.f)
	if err != nil {
		return false, nil
	}
	defer func() {
		if !linked {
			err = errors.Join(err, thaw())
		}
	}()
	temp := IngestDir + "/" + in.desc.Digest.Encoded()[:12] + "-" + rand.Text()
	if err := in.s.dir.LinkFrom(in.f.Name(), temp); err != nil {
		return false, nil
	}
	// By now the path may name another file than the hashed one.
	got, err := in.s.dir.Root().Stat(filepath.FromSlash(temp))
	if err == nil && !in.s.same(got, in.fi) {
		if now, at := os.Stat(in.f.Name()); at == nil && os.SameFile(now, in.fi) {
			return false, in.s.dir.Remove(temp) // the file system assigns each link another inode number
		}
		err = ErrChanged
	}
	if err == nil {
		err = unchanged(in.f, in.fi)
	}
	if err == nil {
		err = in.s.Mark(in.desc.Digest)
	}
	if err == nil {
		err = in.s.land(temp, in.desc.Digest)
	}
	if err != nil {
		return false, errors.Join(err, IgnoreMissing(in.s.dir.Remove(temp)))
	}
	return true, nil
}

// copy copies the file in the kernel, which is faster than reading and hashing
// it again. The file's times have not changed, so the hashed bytes are copied.
func (in *incoming) copy(ctx context.Context) error {
	if err := in.s.RoomFor(in.desc.Size); err != nil {
		return err
	}
	temp, err := in.s.dir.CreateTemp(IngestDir, in.desc.Digest.Encoded()[:12]+"-", 0o444)
	if err != nil {
		return err
	}
	const chunk = 64 << 20
	left := in.desc.Size
	for left > 0 && err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var n int64
		n, err = temp.ReadFrom(&io.LimitedReader{R: in.f, N: min(chunk, left)})
		if err == nil && n == 0 {
			err = ErrChanged
		}
		left -= n
	}
	if err == nil {
		err = unchanged(in.f, in.fi)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = in.s.land(temp.Name(), in.desc.Digest)
	}
	if err != nil {
		return errors.Join(err, IgnoreMissing(in.s.dir.Remove(temp.Name())))
	}
	in.s.rememberBlob(in.desc)
	return nil
}

// ErrChanged reports a file that changed while it was read.
var ErrChanged = errors.New("the file changed while it was read")

// unchanged compares the file's size and time with those before.
func unchanged(f *os.File, before fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime()) {
		return ErrChanged
	}
	return nil
}
