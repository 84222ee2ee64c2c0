package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// maxMemo bounds the bytes that a [Source] holds.
const maxMemo = 32 << 20

// Source is a repository opened for reading: manifests, configs, bundles and
// referrers, as a verifier needs them. It fetches each small blob once and
// keeps it for later readers, [Client.Pull] among them. It is safe for concurrent
// use.
type Source struct {
	*repository
	mu    sync.Mutex
	held  map[digest.Digest]heldBlob
	bytes int64
}

type heldBlob struct {
	desc ocispec.Descriptor
	data []byte
}

// Source opens a repository for reading. Nothing is sent before it is used.
func (c *Client) Source(repo string) (*Source, error) {
	from, err := ParseReference(repo)
	if err == nil && from.Layout != "" {
		err = fmt.Errorf("%w: a layout; open it as a store", errdef.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", repo, err)
	}
	return newSource(c.repository(from)), nil
}

func newSource(r *repository) *Source {
	return &Source{repository: r, held: map[digest.Digest]heldBlob{}}
}

// Find returns the descriptor that ref, a reference to this repository, points
// to. If there is none, the error is errdef.ErrNotFound.
func (s *Source) Find(ctx context.Context, ref string) (ocispec.Descriptor, error) {
	ctx, stop := s.c.within(ctx)
	defer stop()
	var desc ocispec.Descriptor
	from, err := ParseReference(ref)
	if err == nil {
		desc, err = s.find(auth.AppendRepositoryScope(ctx, s.Reference, auth.ActionPull), from)
	}
	if err != nil {
		return desc, fmt.Errorf("resolve %s: %w", ref, s.c.ended(ctx, err))
	}
	return desc, nil
}

// find is Find of a parsed reference. A digest whose manifest is held needs no
// request.
func (s *Source) find(ctx context.Context, ref Reference) (ocispec.Descriptor, error) {
	s.mu.Lock()
	b, ok := s.held[digest.Digest(ref.Ref.Digest)]
	s.mu.Unlock()
	if ok {
		return b.desc, nil
	}
	desc, data, err := s.fetchManifest(ctx, ref)
	if err == nil {
		s.hold(desc, data)
	}
	return desc, err
}

// Current returns the descriptor that ref points to now. It asks for the digest
// alone, and fetches the manifest only if the registry does not send one.
func (s *Source) Current(ctx context.Context, ref string) (ocispec.Descriptor, error) {
	ctx, stop := s.c.within(ctx)
	defer stop()
	from, err := ParseReference(ref)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("resolve %s: %w", ref, err)
	}
	ctx = auth.AppendRepositoryScope(ctx, s.Reference, auth.ActionPull)
	desc, err := s.headManifest(ctx, from.target())
	if err != nil {
		return desc, fmt.Errorf("resolve %s: %w", ref, s.c.ended(ctx, err))
	}
	return desc, nil
}

// Fetch reads a small blob whole and keeps it. The reader checks its digest.
func (s *Source) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if data, ok := s.lookup(desc.Digest); ok {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	if desc.Size > maxManifest {
		return s.repository.Fetch(ctx, desc)
	}
	for tries := 0; ; tries++ {
		data, err := s.read(ctx, desc)
		if err == nil {
			s.hold(desc, data)
			return io.NopCloser(bytes.NewReader(data)), nil
		}
		if !s.patient(ctx, tries, err) {
			return nil, fmt.Errorf("fetching %s: %w", desc.Digest, err)
		}
	}
}

// read reads a small blob whole.
func (s *Source) read(ctx context.Context, desc ocispec.Descriptor) ([]byte, error) {
	r, err := s.repository.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var buf bytes.Buffer
	_, err = buf.ReadFrom(io.LimitReader(r, desc.Size+1))
	return buf.Bytes(), err
}

// lookup returns the blob if it is held. A nil Source holds none.
func (s *Source) lookup(d digest.Digest) ([]byte, bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.held[d]
	return b.data, ok
}

func (s *Source) hold(desc ocispec.Descriptor, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.held[desc.Digest]; ok {
		return
	}
	if n := int64(len(data)); s.bytes+n <= maxMemo {
		s.held[desc.Digest], s.bytes = heldBlob{desc, data}, s.bytes+n
	}
}

// list lists the manifests that refer to desc.
func (s *Source) list(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return s.referrers(ctx, desc)
}
