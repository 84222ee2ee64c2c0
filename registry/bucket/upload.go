package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// Sessions keeps the states of uploads in files of a folder.
type Sessions struct{ Dir string }

// For returns the session of an upload of this content to this place.
func (s Sessions) For(place, digest string, size int64) Session {
	if s.Dir == "" {
		return nil
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", place, digest, size))
	return session{filepath.Join(s.Dir, hex.EncodeToString(sum[:16])+".upload")}
}

type session struct{ file string }

// maxSession is the size in bytes of the state of an upload.
const maxSession = 16 << 10

// Load implements [Session]: an unreadable state counts as absent.
func (s session) Load() string {
	data, err := fsx.ReadFile(s.file, maxSession)
	if err != nil {
		return ""
	}
	return string(data)
}

// Save implements [Session].
func (s session) Save(state string) error {
	d, err := fsx.Create(filepath.Dir(s.file), 0o700, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	if state == "" {
		return ignoreMissing(d.Remove(filepath.Base(s.file)))
	}
	return d.WriteFile(filepath.Base(s.file), []byte(state), 0o600)
}

// UploadOptions configures [Upload].
type UploadOptions struct {
	IfAbsent bool     // an existing object with other content is [ErrExists]
	Sessions Sessions // of interrupted uploads. Zero: they start over
	Place    string   // address of the object, part of the session's name
}

// Upload writes the file at path, unless the bucket holds the same content under
// key. It reports whether it sent anything.
func Upload(ctx context.Context, b Bucket, key, path string, opt UploadOptions) (info Info, sent bool, err error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return Info{}, false, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return Info{}, false, err
	}
	size, digest, err := digestOf(ctx, f)
	if err != nil {
		return Info{}, false, err
	}
	switch old, err := b.Stat(ctx, key); {
	case err == nil && old.SHA256 == digest && old.Size == size:
		return old, false, nil
	case err == nil && opt.IfAbsent:
		return old, false, ErrExists
	case err != nil && !errors.Is(err, ErrMissing):
		return Info{}, false, err
	}
	info, err = b.Put(ctx, key, f, size, PutOptions{IfAbsent: opt.IfAbsent, SHA256: digest, Session: opt.Sessions.For(cmp.Or(opt.Place, key), digest, size)})
	if err == nil && (info.Size != size || info.SHA256 != digest) {
		err = fmt.Errorf("%w: wrote %d bytes with sha256 %s, the store describes %d bytes with %q", ErrAnswer, size, digest, info.Size, info.SHA256)
	}
	if err == nil {
		err = unchanged(ctx, b, key, f, before)
	}
	return info, err == nil, err
}

// unchanged removes an object whose file changed after its digest was computed.
func unchanged(ctx context.Context, b Bucket, key string, f *os.File, before os.FileInfo) error {
	after, err := f.Stat()
	if err != nil || after.Size() == before.Size() && after.ModTime().Equal(before.ModTime()) {
		return err
	}
	return errors.Join(fmt.Errorf("%s changed while it was sent", f.Name()), b.Delete(ctx, key))
}

// PutBytes writes a small object with its digest.
func PutBytes(ctx context.Context, b Bucket, key string, data []byte, absent bool) (Info, error) {
	sum := sha256.Sum256(data)
	return b.Put(ctx, key, bytes.NewReader(data), int64(len(data)), PutOptions{IfAbsent: absent, SHA256: hex.EncodeToString(sum[:])})
}

// digestOf returns the size and the SHA-256 of what r reads.
func digestOf(ctx context.Context, r io.Reader) (int64, string, error) {
	size, digest, err := fsx.DigestOf(fsx.Reader{Context: ctx, R: r})
	return size, strings.TrimPrefix(digest, "sha256:"), err
}

// GetBytes reads a small object and verifies its digest, if it has one.
func GetBytes(ctx context.Context, b Bucket, key string, limit int64) ([]byte, error) {
	info, err := b.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if info.Size > limit {
		return nil, fmt.Errorf("%s: got %d bytes, limit %d: %w", key, info.Size, limit, fsx.ErrTooLarge)
	}
	if info.Size == 0 {
		return nil, nil
	}
	var data []byte
	err = Retry(ctx, func() error {
		r, _, err := b.Get(ctx, key, 0, info.Size, info.ETag)
		if err != nil {
			return err
		}
		data, err = io.ReadAll(r)
		return errors.Join(err, r.Close())
	})
	if sum := sha256.Sum256(data); err == nil && info.SHA256 != "" && hex.EncodeToString(sum[:]) != info.SHA256 {
		err = fmt.Errorf("%s: %w: got %x, want %s", key, ErrDigest, sum, info.SHA256)
	}
	return data, err
}
