package cas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry/artifact"
)

// The digest cache maps a file's key (device, inode, size, modification time,
// change time) to its digest. Each record is a small file, replaced in one
// step, so that writers need no lock. A record carries a checksum; a damaged
// one is ignored.

// cacheMin is the size from which a digest is remembered. Below it, hashing
// costs less than looking.
const cacheMin = 1 << 20

// recordName is where the key's digest is kept.
func recordName(k Key) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", k.Dev, k.Ino))
	return DigestDir + "/" + hex.EncodeToString(sum[:16])
}

// cacheRecord is a cache record: key, digest, checksum.
func cacheRecord(k Key, d digest.Digest) []byte {
	line := fmt.Sprintf("1 %s %s", k, d)
	sum := sha256.Sum256([]byte(line))
	return fmt.Appendf(nil, "%s %s\n", line, hex.EncodeToString(sum[:8]))
}

// cached returns the digest remembered for the key, "" for none.
func (s *Blobs) Cached(k Key) digest.Digest {
	data, err := ReadFile(s.digests.dir, recordName(k), 1<<10)
	if err != nil {
		if s.digests.below != nil {
			return s.digests.below.Cached(k)
		}
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

// Remember caches the key's digest. A failure to write the cache is ignored.
func (s *Blobs) Remember(k Key, d digest.Digest) {
	if k.Size >= s.CacheMin && !s.digests.readOnly {
		_ = s.digests.dir.WriteCache(recordName(k), cacheRecord(k, d), 0o644)
	}
}

// rememberBlob caches the digest of a blob that this process has just written
// and hashed. No other process had the file open for writing, so its times
// need not settle.
func (s *Blobs) rememberBlob(desc ocispec.Descriptor) {
	if desc.Size < s.CacheMin {
		return
	}
	f, err := s.OpenBlob(context.Background(), desc)
	if err != nil {
		return
	}
	defer f.Close()
	if key, ok := KeyOf(f); ok {
		s.Remember(key, desc.Digest)
	}
}

// Relink runs change, which adds or removes links to the blobs, and then
// renews their records: a link changes a file's change time, which is part of
// its key. Only records that were valid before, of files with unchanged size
// and modification time, are renewed.
func (s *Blobs) Relink(ctx context.Context, blobs []ocispec.Descriptor, change func() error) error {
	known := map[digest.Digest]Key{}
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

func (s *Blobs) blobKey(ctx context.Context, desc ocispec.Descriptor) (Key, bool) {
	f, err := s.OpenBlob(ctx, desc)
	if err != nil {
		return Key{}, false
	}
	defer f.Close()
	return KeyOf(f)
}

// VerifyCached is Verify, but trusts the digest cache for a blob whose file
// has not changed since this store hashed it on this file system. It protects
// against accidents, not against a writer in the store's folder; use
// [Blobs.Verify] on first use.
func (s *Blobs) VerifyCached(ctx context.Context, desc ocispec.Descriptor) error {
	f, err := s.OpenBlob(ctx, desc)
	if err != nil {
		return err
	}
	defer f.Close()
	key, ok := KeyOf(f)
	if ok && s.Cached(key) == desc.Digest {
		return nil
	}
	ok = ok && key.Size >= s.CacheMin && key.Settle(ctx)
	if err := verifyFile(ctx, f, desc); err != nil {
		return err
	}
	if again, _ := KeyOf(f); ok && again == key {
		s.Remember(key, desc.Digest)
	}
	return nil
}
