package bucket

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Source reads objects by their addresses, for programs that read data while
// they work. The first version of an object that it sees is the only one that
// it reads: another is [ErrChanged]. Its errors are of type [CopyError].
type Source struct {
	openers Openers

	mu      sync.Mutex
	buckets map[Address]Bucket // by address without a key
	pinned  map[string]Info    // by address
}

const (
	maxExpanded = 10_000  // objects below a prefix
	rangeSize   = 8 << 20 // bytes of a request of [Source.Open]
)

// NewSource returns a source of the stores that openers open.
func NewSource(openers Openers) *Source {
	return &Source{openers: openers, buckets: map[Address]Bucket{}, pinned: map[string]Info{}}
}

// Expand returns the addresses of the objects at an address, sorted: of itself,
// or of all below a prefix that ends in a slash. Empty objects that mark folders
// are left out. An address without an object is [ErrMissing].
func (s *Source) Expand(ctx context.Context, address string) ([]string, error) {
	b, a, err := s.bucket(address)
	if err != nil {
		return nil, &CopyError{address, err}
	}
	if a.Key != "" && !strings.HasSuffix(a.Key, "/") {
		_, err := s.pin(ctx, b, a)
		return []string{a.String()}, err
	}
	var all []Address
	for info, err := range b.List(ctx, a.Key) {
		var name string
		if err == nil {
			name, err = Local(info.Key, a.Key)
		}
		if err == nil && len(all) == maxExpanded {
			err = fmt.Errorf("prefix holds more than %d objects", maxExpanded)
		}
		if err != nil {
			return nil, &CopyError{address, err}
		}
		if name != "" {
			all = append(all, a.At(info.Key))
		}
	}
	if len(all) == 0 {
		return nil, &CopyError{address, ErrMissing}
	}
	slices.SortFunc(all, func(x, y Address) int { return cmp.Compare(x.Key, y.Key) })
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.String()
		if _, err := s.pin(ctx, b, one); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// Version returns the version of an object that the source reads.
func (s *Source) Version(ctx context.Context, address string) (string, error) {
	b, a, err := s.bucket(address)
	if err != nil {
		return "", &CopyError{address, err}
	}
	info, err := s.pin(ctx, b, a)
	return fmt.Sprintf("%s %d %s", info.ETag, info.Size, info.SHA256), err
}

// Open reads an object from its beginning to its end, by ranges. A range whose
// connection is cut continues where it ended. The end is an error if the content
// differs from the digest in the object's metadata.
func (s *Source) Open(ctx context.Context, address string) (io.ReadCloser, error) {
	b, a, err := s.bucket(address)
	if err != nil {
		return nil, &CopyError{address, err}
	}
	if a.Key == "" || strings.HasSuffix(a.Key, "/") {
		return nil, &CopyError{address, fmt.Errorf("%w: got a prefix, want an object", ErrAddress)}
	}
	info, err := s.pin(ctx, b, a)
	if err != nil {
		return nil, err
	}
	return &stream{ctx: ctx, b: b, at: a, info: info, sum: sha256.New()}, nil
}

// bucket returns the bucket of an address.
func (s *Source) bucket(address string) (Bucket, Address, error) {
	a, err := ParseAddress(address)
	if err != nil {
		return nil, a, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	place := a.At("")
	if a.Scheme == "file" {
		place.Key = filepath.VolumeName(filepath.FromSlash(a.Key))
	}
	if b, ok := s.buckets[place]; ok {
		return b, a, nil
	}
	b, err := s.openers.Open(a)
	if err == nil {
		s.buckets[place] = b
	}
	return b, a, err
}

// pin returns the version of an object: the first that was seen.
func (s *Source) pin(ctx context.Context, b Bucket, a Address) (Info, error) {
	s.mu.Lock()
	info, ok := s.pinned[a.String()]
	s.mu.Unlock()
	if ok {
		return info, nil
	}
	err := Retry(ctx, func() (err error) { info, err = b.Stat(ctx, a.Key); return err })
	if err == nil && info.ETag == "" {
		err = fmt.Errorf("%w: object without a version", ErrAnswer)
	}
	if err != nil {
		return info, &CopyError{a.String(), err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.pinned[a.String()]; ok { // another goroutine saw it before
		return first, nil
	}
	s.pinned[a.String()] = info
	return info, nil
}

// stream reads one version of an object.
type stream struct {
	ctx  context.Context
	b    Bucket
	at   Address
	info Info
	off  int64
	body io.ReadCloser // of the range in progress; nil: none
	left int64         // bytes of that range
	sum  hash.Hash
	err  error // of every further call
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (n int, err error) {
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	if s.off == s.info.Size {
		s.err = s.verify()
		return 0, s.err
	}
	err = Retry(s.ctx, func() error {
		n, err = s.some(p)
		return err
	})
	s.sum.Write(p[:n])
	if err != nil {
		s.err = &CopyError{s.at.String(), fmt.Errorf("after %d of %d bytes: %w", s.off, s.info.Size, err)}
	}
	return n, s.err
}

// some reads bytes of the range in progress or of the next one: at least one, or
// it returns an error. A range that fails is dropped.
func (s *stream) some(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if s.body == nil {
		want := min(s.info.Size-s.off, rangeSize)
		body, info, err := s.b.Get(s.ctx, s.at.Key, s.off, want, s.info.ETag)
		if err != nil {
			return 0, err
		}
		if s.body, s.left = body, want; info.Size != s.info.Size {
			return 0, errors.Join(fmt.Errorf("%w: got %d bytes, want %d", ErrChanged, info.Size, s.info.Size), s.drop())
		}
	}
	n, err := s.body.Read(p[:min(int64(len(p)), s.left)])
	s.off, s.left = s.off+int64(n), s.left-int64(n)
	if s.left == 0 || err != nil {
		closed := s.drop()
		if s.left == 0 {
			err = closed
		}
	}
	if n > 0 {
		return n, nil // a failure shows at the next range
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return 0, err
}

// drop ends the range in progress.
func (s *stream) drop() error {
	body := s.body
	if s.body = nil; body == nil {
		return nil
	}
	return body.Close()
}

// verify compares the digest at the end of the object.
func (s *stream) verify() error {
	if got := hex.EncodeToString(s.sum.Sum(nil)); s.info.SHA256 != "" && got != s.info.SHA256 {
		return &CopyError{s.at.String(), fmt.Errorf("%w: got %s, want %s", ErrDigest, got, s.info.SHA256)}
	}
	return io.EOF
}

// Close implements io.Closer.
func (s *stream) Close() error {
	if s.err == nil {
		s.err = fmt.Errorf("%s: %w", s.at, io.ErrClosedPipe)
	}
	return s.drop()
}
