package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry/artifact"
)

// The digest cache remembers what a file hashed to, by what the file system
// says of it: a file of the same device, inode, size, modification time and
// change time has the same bytes. There is one small file a record, replaced in
// one step, so that writers need no lock; each carries its own checksum, and
// one that does not read back right counts as none.

// cacheMin is the size from which a digest is remembered. Below it, hashing
// costs less than looking.
const cacheMin = 1 << 20

// A file's times move only as fast as the kernel's clock ticks (10 ms at worst,
// whole seconds or two on FAT), so a write right after another may leave no
// trace. A digest is remembered only if the file was older than that when
// hashing began.
const (
	clockTick       = 20 * time.Millisecond
	coarseClockTick = 2 * time.Second
)

// fileKey identifies the bytes of a file.
type fileKey struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds since 1970
}

// keyOf returns the file's key; not ok where the system gives none.
func keyOf(f *os.File) (fileKey, bool) {
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return fileKey{}, false
	}
	return keyOfInfo(fi)
}

// changed is when the file last changed, and how exact that is.
func (k fileKey) changed() (at time.Time, tick time.Duration) {
	tick = clockTick
	if k.mtime%1e9 == 0 && k.ctime%1e9 == 0 {
		tick = coarseClockTick
	}
	return time.Unix(0, max(k.mtime, k.ctime)), tick
}

// settle waits until a write would move the file's times. It reports whether
// that is so; a clock that runs backwards or by whole seconds is not waited for.
func (k fileKey) settle(ctx context.Context) bool {
	at, tick := k.changed()
	age := time.Since(at)
	if age >= tick {
		return true
	}
	if age < 0 || tick > clockTick {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(tick - age):
		return true
	}
}

// settled reports whether a write from now on would move the file's times.
func (k fileKey) settled() bool {
	at, tick := k.changed()
	return time.Since(at) >= tick
}

// String is the key as one line.
func (k fileKey) String() string {
	return fmt.Sprintf("%d %d %d %d %d", k.dev, k.ino, k.size, k.mtime, k.ctime)
}

// recordName is where the key's digest is kept.
func (k fileKey) recordName() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", k.dev, k.ino))
	return digestDir + "/" + hex.EncodeToString(sum[:16])
}

// record is a cache record: key, digest, checksum.
func (k fileKey) record(d digest.Digest) []byte {
	line := fmt.Sprintf("1 %s %s", k, d)
	sum := sha256.Sum256([]byte(line))
	return fmt.Appendf(nil, "%s %s\n", line, hex.EncodeToString(sum[:8]))
}

// cached returns the digest remembered for the key, "" for none.
func (s *Store) cached(k fileKey) digest.Digest {
	data, err := s.digests.readSmall(k.recordName(), 1<<10)
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data))
	if len(fields) != 8 {
		return ""
	}
	d := digest.Digest(fields[6])
	if artifact.CheckDigest(d) != nil || string(k.record(d)) != string(data) {
		return ""
	}
	return d
}

// remember notes the key's digest. A cache that cannot be written is no fault.
func (s *Store) remember(k fileKey, d digest.Digest) {
	if k.size >= s.cacheMin && !s.digests.readOnly {
		_ = s.digests.dir.WriteCache(k.recordName(), k.record(d), 0o644)
	}
}

// rememberBlob notes the digest of a blob that this process has just written
// and hashed. Nobody else had the file open for writing, so its times need not
// settle.
func (s *Store) rememberBlob(desc ocispec.Descriptor) {
	if desc.Size < s.cacheMin {
		return
	}
	f, err := s.OpenBlob(context.Background(), desc)
	if err != nil {
		return
	}
	defer f.Close()
	if key, ok := keyOf(f); ok {
		s.remember(key, desc.Digest)
	}
}

// Relink runs change, which adds or removes links to the blobs, and then renews
// their records: a link changes a file's change time, by which the digest cache
// knows it. Only what was known before and has kept its size and modification
// time is known after.
func (s *Store) Relink(ctx context.Context, blobs []ocispec.Descriptor, change func() error) error {
	known := map[digest.Digest]fileKey{}
	for _, b := range blobs {
		if key, ok := s.blobKey(ctx, b); ok && s.cached(key) == b.Digest {
			known[b.Digest] = key
		}
	}
	if err := change(); err != nil {
		return err
	}
	for _, b := range blobs {
		before, ok := known[b.Digest]
		if !ok {
			continue
		}
		if key, ok := s.blobKey(ctx, b); ok && key.ino == before.ino && key.size == before.size && key.mtime == before.mtime {
			s.remember(key, b.Digest)
		}
	}
	return nil
}

func (s *Store) blobKey(ctx context.Context, desc ocispec.Descriptor) (fileKey, bool) {
	f, err := s.OpenBlob(ctx, desc)
	if err != nil {
		return fileKey{}, false
	}
	defer f.Close()
	return keyOf(f)
}

// VerifyCached is Verify that takes the word of the digest cache for a blob
// whose file has not changed since it was last hashed, by this store, on this
// file system. It guards against accidents, not against whoever can write to
// the store's folder; use [Store.Verify] on first use.
func (s *Store) VerifyCached(ctx context.Context, desc ocispec.Descriptor) error {
	f, err := s.OpenBlob(ctx, desc)
	if err != nil {
		return err
	}
	defer f.Close()
	key, ok := keyOf(f)
	if ok && s.cached(key) == desc.Digest {
		return nil
	}
	ok = ok && key.size >= s.cacheMin && key.settle(ctx)
	if err := verifyFile(ctx, f, desc); err != nil {
		return err
	}
	if again, _ := keyOf(f); ok && again == key {
		s.remember(key, desc.Digest)
	}
	return nil
}
