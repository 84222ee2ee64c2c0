// Package bucket copies files to and from object stores, and verifies them.
//
// A [Bucket] is one bucket of a store; the drivers are [S3], [GS], [Azure] and
// [Dir], a folder. All of them pass the suite of package buckettest. An object written by this package has its SHA-256 in its metadata:
// [Upload] computes it before the first byte is sent, [Download] compares it
// before the file gets its name. Both resume: an upload continues with the parts
// that the store holds already, a download with a range of the same version of
// the object.
//
// [Promote] writes a pointer that exists once: the conditional write of the store
// is the lock. [Mirror] copies the checkpoints of a run while it goes on.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bucket is a bucket of an object store. It is safe for concurrent use.
type Bucket interface {
	// Put writes the object from r, which has size bytes. It appears whole or not at all.
	Put(ctx context.Context, key string, r io.ReaderAt, size int64, opt PutOptions) (Info, error)
	// Get reads n bytes from off; to the end if n is negative. A version other than
	// etag is [ErrChanged]; "" reads any. The reader ends with an error unless all
	// promised bytes arrive.
	Get(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error)
	// Stat describes the object.
	Stat(ctx context.Context, key string) (Info, error)
	// List yields the objects whose keys begin with prefix. Keys are untrusted.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Delete removes the object. A missing object is [ErrMissing] or no error.
	Delete(ctx context.Context, key string) error
}

// Info describes an object.
type Info struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size"`
	ETag     string    `json:"etag,omitempty"`   // of the version
	SHA256   string    `json:"sha256,omitempty"` // from the metadata; List leaves it out
	Modified time.Time `json:"modified,omitzero"`
}

// PutOptions configures [Bucket.Put].
type PutOptions struct {
	IfAbsent bool    // an existing object is [ErrExists]
	SHA256   string  // of the content, written into the metadata. "": none
	Session  Session // state of an upload in parts. Nil: a failure discards them
}

// Session keeps the state of an upload, a short text, between processes.
type Session interface {
	Load() string
	Save(state string) error // "" removes it
}

// The errors of buckets.
var (
	ErrMissing = fmt.Errorf("object %w", fs.ErrNotExist)
	ErrNoPlace = errors.New("bucket does not exist")
	ErrExists  = fmt.Errorf("object %w", fs.ErrExist)
	ErrChanged = errors.New("object changed")
	ErrDenied  = fmt.Errorf("access denied: %w", fs.ErrPermission)
	ErrAnswer  = errors.New("invalid answer of the server")
	ErrDigest  = errors.New("digest mismatch")
	ErrKey     = errors.New("unsafe key")
	ErrAddress = errors.New("invalid address")
	ErrPointer = errors.New("invalid pointer")
)

const (
	maxKey    = 1024      // bytes of a key
	maxListed = 1_000_000 // objects of a listing
)

// DigestKey is the name of the metadata that holds the SHA-256 of an object.
const DigestKey = "sha256"

// CheckKey reports whether key may name an object of this package and a file: a
// relative path of UTF-8 without "..", backslashes and control characters.
func CheckKey(key string) error {
	switch {
	case key == "" || key == "." || !fs.ValidPath(key):
		return fmt.Errorf("%w: %q: want a relative path without empty elements, \".\" and \"..\"", ErrKey, key)
	case len(key) > maxKey:
		return fmt.Errorf("%w: %q…: got %d bytes, want at most %d", ErrKey, key[:32], len(key), maxKey)
	case strings.ContainsAny(key, "\\:") || strings.ContainsFunc(key, unicode.IsControl) || !utf8.ValidString(key):
		return fmt.Errorf("%w: %q: want no backslash, colon or control character", ErrKey, key)
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == metaDir {
			return fmt.Errorf("%w: %q: element %s is reserved", ErrKey, key, metaDir)
		}
	}
	return nil
}

// Ordered passes on a listing that it verifies: keys begin with prefix, none
// comes twice in a row, and there are at most a million. A server whose keys
// increase (strict) cannot repeat a page.
func Ordered(list iter.Seq2[Info, error], prefix string, strict bool) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		last, n := "", 0
		for info, err := range list {
			if err == nil {
				n++
				err = inOrder(info, prefix, last, n, strict)
			}
			if !yield(info, err) || err != nil {
				return
			}
			last = info.Key
		}
	}
}

func inOrder(info Info, prefix, last string, n int, strict bool) error {
	switch {
	case n > maxListed:
		return fmt.Errorf("%w: listing exceeds %d objects", ErrAnswer, maxListed)
	case !strings.HasPrefix(info.Key, prefix):
		return fmt.Errorf("%w: listing of %q: got key %q", ErrAnswer, prefix, info.Key)
	case info.Size < 0:
		return fmt.Errorf("%w: listing: negative size of %q", ErrAnswer, info.Key)
	case n > 1 && (info.Key == last || strict && info.Key < last):
		return fmt.Errorf("%w: listing: key %q after %q", ErrAnswer, info.Key, last)
	}
	return nil
}

// Pages lists by pages: next returns the page at a mark, "" being the first, and
// the mark of the following page, "" after the last.
func Pages(prefix string, strict bool, next func(mark string) ([]Info, string, error)) iter.Seq2[Info, error] {
	return Ordered(func(yield func(Info, error) bool) {
		mark := ""
		for range maxPages {
			list, following, err := next(mark)
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, info := range list {
				if !yield(info, nil) {
					return
				}
			}
			if following == "" {
				return
			}
			if following == mark {
				yield(Info{}, fmt.Errorf("%w: listing: page %q follows itself", ErrAnswer, mark))
				return
			}
			mark = following
		}
		yield(Info{}, fmt.Errorf("%w: listing exceeds %d pages", ErrAnswer, maxPages))
	}, prefix, strict)
}
