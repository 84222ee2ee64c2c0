package artifact

import (
	_ "crypto/sha256" // the digest algorithms of a layout
	_ "crypto/sha512"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

// ErrCorrupt reports bytes that do not match their digest or size, or an
// unreadable index.json.
var ErrCorrupt = errors.New("corrupt")

// Limits of a document that is read into memory, and of a descriptor.
const (
	MaxManifestBytes = 4 << 20 // a manifest, an index or a config
	maxBlobBytes     = 1 << 50 // the size in a descriptor: 1 PiB
	maxMediaType     = 255     // bytes of a media type (RFC 6838 §4.2); index entries repeat it
)

// CheckDigest accepts SHA-256 and SHA-512 in lower-case hexadecimal.
func CheckDigest(d digest.Digest) error {
	if err := d.Validate(); err != nil {
		return fmt.Errorf("digest %q: %w: %w", Shorten(string(d)), errdef.ErrInvalidDigest, err)
	}
	if a := d.Algorithm(); a != digest.SHA256 && a != digest.SHA512 {
		return fmt.Errorf("digest %q: %w: want sha256 or sha512", Shorten(string(d)), errdef.ErrInvalidDigest)
	}
	return nil
}

// CheckDescriptor refuses a descriptor with an invalid digest, an impossible
// size or no media type.
func CheckDescriptor(desc ocispec.Descriptor) error {
	if err := CheckDigest(desc.Digest); err != nil {
		return err
	}
	if desc.Size < 0 || desc.Size > maxBlobBytes {
		return fmt.Errorf("%s: impossible size %d", desc.Digest, desc.Size)
	}
	if desc.MediaType == "" {
		return fmt.Errorf("%s: no media type", desc.Digest)
	}
	return nil
}

// CheckContent compares the size and digest of content with its descriptor. The
// error is [ErrCorrupt].
func CheckContent(desc ocispec.Descriptor, size int64, d digest.Digest) error {
	if size > desc.Size {
		return fmt.Errorf("%w: more than %d bytes", ErrCorrupt, desc.Size)
	}
	if size < desc.Size {
		return fmt.Errorf("%w: got %d bytes, want %d", ErrCorrupt, size, desc.Size)
	}
	if d != desc.Digest {
		return fmt.Errorf("%w: bytes hash to %s", ErrCorrupt, d)
	}
	return nil
}

// Plain returns desc reduced to media type, digest and size.
func Plain(desc ocispec.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}
}

// Elsewhere reports layers that a registry need not hold (image-spec, layer,
// non-distributable layers).
func Elsewhere(desc ocispec.Descriptor) bool {
	return strings.HasPrefix(desc.MediaType, "application/vnd.oci.image.layer.nondistributable.v1.") ||
		desc.MediaType == "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
}

// Shorten truncates an untrusted name to 80 bytes for an error message.
func Shorten(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}
