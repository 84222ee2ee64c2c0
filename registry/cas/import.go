package cas

import (
	"context"
	"crypto/rand"
	"errors"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

// Import links a blob from another folder, or copies it. A link changes the
// file's change time, so its cache records are renewed. A damaged blob here is
// replaced.
func (s *Blobs) Import(ctx context.Context, from *Blobs, desc ocispec.Descriptor) error {
	if ok, err := s.sound(ctx, desc); ok || err != nil {
		return err
	}
	blob, err := from.OpenBlob(ctx, desc)
	if err != nil {
		return err
	}
	defer blob.Close()
	key, keyed := KeyOf(blob)
	known := keyed && from.Cached(key) == desc.Digest
	temp := IngestDir + "/" + desc.Digest.Encoded()[:12] + "-" + rand.Text()
	if err := s.dir.LinkFrom(blob.Name(), temp); err != nil {
		if err := s.Push(ctx, desc, blob); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
			return err
		}
		return nil
	}
	err = s.Mark(desc.Digest)
	if err == nil {
		err = s.land(temp, desc.Digest)
	}
	if err != nil {
		return errors.Join(err, IgnoreMissing(s.dir.Remove(temp)))
	}
	if known {
		from.rememberBlob(desc)
		s.rememberBlob(desc)
	}
	return nil
}
