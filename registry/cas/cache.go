package cas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mm-abi.org/mm/registry/disk"
	"strings"

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

// recordName is where the key's digest is kept.
func recordName(k disk.Key) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", k.Dev, k.Ino))
	return disk.DigestDir + "/" + hex.EncodeToString(sum[:16])
}

// cacheRecord is a cache record: key, digest, checksum.
func cacheRecord(k disk.Key, d digest.Digest) []byte {
	line := fmt.Sprintf("1 %s %s", k, d)
	sum := sha256.Sum256([]byte(line))
	return fmt.Appendf(nil, "%s %s\n", line, hex.EncodeToString(sum[:8]))
}

// cached returns the digest remembered for the key, "" for none.
func (s *Blobs) Cached(k disk.Key) digest.Digest {
	data, err := disk.ReadFile(s.digests.dir, recordName(k), 1<<10)
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data))
	if len(fields) != 8 {
		return ""
	}
	d := digest.Digest(fields[6])
	if artifact.CheckDigest(d) != nil || string(cacheRecord(k, d)) != string(data) {
		return ""
	}
	return d
}

// remember notes the key's digest. A cache that cannot be written is no fault.
func (s *Blobs) Remember(k disk.Key, d digest.Digest) {
	if k.Size >= s.CacheMin && !s.digests.readOnly {
		_ = s.digests.dir.WriteCache(recordName(k), cacheRecord(k, d), 0o644)
	}
}

// rememberBlob notes the digest of a blob that this process has just written
// and hashed. Nobody else had the file open for writing, so its times need not
// settle.
func (s *Blobs) rememberBlob(desc ocispec.Descriptor) {
	if desc.Size < s.CacheMin {
		return
	}
	f, err := s.OpenBlob(context.Background(), desc)
	if err != nil {
		return
	}
	defer f.Close()
	if key, ok := disk.KeyOf(f); ok {
		s.Remember(key, desc.Digest)
	}
}

// Relink runs change, which adds or removes links to the blobs, and then renews
// their records: a link changes a file's change time, by which the digest cache
// knows it. Only what was known before and has kept its size and modification
// time is known after.
func (s *Blobs) Relink(ctx context.Context, blobs []ocispec.Descriptor, change func() error) error {
	known := map[digest.Digest]disk.Key{}
	for _, b := range blobs {
		if key, ok := s.blobKey(ctx, b); ok && s.Cached(key) == b.Digest {
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
		if key, ok := s.blobKey(ctx, b); ok && key.Ino == before.Ino && key.Size == before.Size && key.Mtime == before.Mtime {
			s.Remember(key, b.Digest)
		}
	}
	return nil
}

func (s *Blobs) blobKey(ctx context.Context, desc ocispec.Descriptor) (disk.Key, bool) {
	f, err := s.OpenBlob(ctx, desc)
	if err != nil {
		return disk.Key{}, false
	}
	defer f.Close()
	return disk.KeyOf(f)
}

// VerifyCached is Verify that takes the word of the digest cache for a blob
// whose file has not changed since it was last hashed, by this store, on this
// file system. It guards against accidents, not against whoever can write to
// the store's folder; use [Blobs.Verify] on first use.
func (s *Blobs) VerifyCached(ctx context.Context, desc ocispec.Descriptor) error {
	f, err := s.OpenBlob(ctx, desc)
	if err != nil {
		return err
	}
	defer f.Close()
	key, ok := disk.KeyOf(f)
	if ok && s.Cached(key) == desc.Digest {
		return nil
	}
	ok = ok && key.Size >= s.CacheMin && key.Settle(ctx)
	if err := verifyFile(ctx, f, desc); err != nil {
		return err
	}
	if again, _ := disk.KeyOf(f); ok && again == key {
		s.Remember(key, desc.Digest)
	}
	return nil
}
