package registry

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry/cas"
)

// reserveMin is the smallest reserve. It is larger if index.json is: removing a
// name writes it anew.
const reserveMin = 1 << 20

const reserveFile = cas.PrivateDir + "/reserve"

// Room returns a [*disk.FullError] if the file system has no space for those of the
// blobs that the store does not have. Bytes of interrupted downloads count.
func (s *Store) Room(blobs []ocispec.Descriptor) error {
	var need int64
	seen := map[digest.Digest]bool{}
	for _, b := range blobs {
		if there, err := s.Has(b); err != nil || there || seen[b.Digest] {
			continue
		}
		seen[b.Digest] = true
		if left := b.Size - s.Received(b.Digest); left > 0 {
			need += min(left, math.MaxInt64-need)
		}
	}
	return s.RoomFor(need)
}

// SameDisk reports whether dir is on the store's file system, so that files can be
// linked rather than copied.
func (s *Store) SameDisk(dir string) bool {
	own, err := os.Stat(s.path)
	if err != nil {
		return false
	}
	other, err := os.Stat(dir)
	if err != nil {
		return false
	}
	a, ok := cas.KeyOfInfo(own)
	b, both := cas.KeyOfInfo(other)
	return ok && both && a.Dev == b.Dev
}

// KeepReserve creates a file whose space [Store.WithReserve] can release, unless
// there is one or little space is left.
func (s *Store) KeepReserve() {
	size := int64(reserveMin)
	if fi, err := s.dir.Root().Stat(ocispec.ImageIndexFile); err == nil {
		size = max(size, 2*fi.Size())
	}
	if fi, err := s.dir.Root().Stat(filepath.FromSlash(reserveFile)); s.readOnly || err == nil && fi.Size() >= size {
		return
	}
	if free, ok := s.Free(s.path); !ok || free < 8*size {
		return
	}
	data := make([]byte, size) // noise: some file systems compress
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(data)
	_ = s.dir.WriteFile(reserveFile, data, 0o644)
}

// WithReserve calls fn, and again with the space of the reserve if the disk is full.
// It is for operations that free space.
func (s *Store) WithReserve(ctx context.Context, fn func() error) error {
	err := fn()
	if !cas.IsFull(err) || ctx.Err() != nil {
		return err
	}
	if gone := s.dir.Remove(reserveFile); errors.Is(gone, fs.ErrNotExist) {
		return err
	}
	return fn()
}
