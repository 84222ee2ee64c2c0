package sign

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

// rawSource serves blobs by digest alone and checks nothing, as a hostile
// registry would.
type rawSource struct {
	t     *testing.T
	blobs map[digest.Digest][]byte
}

func (s *rawSource) raw(data []byte) ocispec.Descriptor {
	d := digest.FromBytes(data)
	if s.blobs == nil {
		s.blobs = map[digest.Digest][]byte{}
	}
	s.blobs[d] = data
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: int64(len(data))}
}

func (s *rawSource) json(v any) ocispec.Descriptor {
	s.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.raw(data)
}

func (s *rawSource) Fetch(_ context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	data, ok := s.blobs[d.Digest]
	if !ok {
		return nil, errdef.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}
