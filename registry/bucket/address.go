package bucket

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Address is the place of an object or of a prefix: s3://BUCKET/KEY,
// gs://BUCKET/KEY, azure://ACCOUNT/CONTAINER/KEY or file:///PATH.
type Address struct {
	Scheme  string // s3, gs, azure or file
	Account string // of azure
	Bucket  string // bucket or container; "" for file
	Key     string // may end in a slash
}

// IsAddress reports whether text is an address, not the path of a file.
func IsAddress(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	if !ok {
		return false
	}
	switch scheme {
	case "s3", "gs", "azure", "azblob", "file":
		return true
	}
	return false
}

// ParseAddress parses an address.
func ParseAddress(text string) (Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return Address{}, fmt.Errorf("%w %q: want s3://BUCKET/KEY, gs://BUCKET/KEY, azure://ACCOUNT/CONTAINER/KEY or file:///PATH", ErrAddress, text)
	}
	if strings.ContainsAny(rest, "?#") {
		return Address{}, fmt.Errorf("%w %q: got a query, want BUCKET/KEY", ErrAddress, text)
	}
	a := Address{Scheme: scheme}
	switch scheme {
	case "azblob", "azure":
		a.Scheme = "azure"
		a.Account, rest, _ = strings.Cut(rest, "/")
		a.Bucket, a.Key, _ = strings.Cut(rest, "/")
		if !label(a.Account) {
			return a, fmt.Errorf("%w %q: account %q: want azure://ACCOUNT/CONTAINER/KEY", ErrAddress, text, a.Account)
		}
	case "s3", "gs":
		a.Bucket, a.Key, _ = strings.Cut(rest, "/")
	case "file":
		path, err := url.PathUnescape(rest)
		if err != nil || !strings.HasPrefix(path, "/") {
			return a, fmt.Errorf("%w %q: want file:///PATH", ErrAddress, text)
		}
		a.Key = strings.TrimPrefix(path, "/")
	default:
		return a, fmt.Errorf("%w %q: unknown scheme %q, want s3, gs, azure or file", ErrAddress, text, scheme)
	}
	if a.Scheme != "file" && !label(a.Bucket) {
		return a, fmt.Errorf("%w %q: bucket %q: want 3 to 63 letters, digits, dots, hyphens and underscores", ErrAddress, text, a.Bucket)
	}
	if key := strings.TrimSuffix(a.Key, "/"); key != "" {
		if err := CheckKey(key); err != nil {
			return a, fmt.Errorf("%w %q: %w", ErrAddress, text, err)
		}
	}
	return a, nil
}

// label reports whether text may name a bucket, in a host too.
func label(text string) bool {
	if len(text) < 3 || len(text) > 63 || strings.Contains(text, "..") {
		return false
	}
	for i, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r >= 'A' && r <= 'Z':
		case i > 0 && strings.ContainsRune("-._", r):
		default:
			return false
		}
	}
	return true
}

// At returns the address of another key in the bucket.
func (a Address) At(key string) Address {
	a.Key = key
	return a
}

// Under returns the address of a name below this one.
func (a Address) Under(name string) Address {
	return a.At(join(a.Key, name))
}

// join joins a prefix and a name with one slash.
func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return strings.TrimSuffix(prefix, "/") + "/" + name
}

// String returns the address in the form that ParseAddress takes.
func (a Address) String() string {
	switch a.Scheme {
	case "azure":
		return "azure://" + a.Account + "/" + a.Bucket + "/" + a.Key
	case "file":
		return "file:///" + a.Key
	}
	return a.Scheme + "://" + a.Bucket + "/" + a.Key
}

// AddressOf returns the address of the path of a file or a folder.
func AddressOf(path string) (Address, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Address{}, err
	}
	return Address{Scheme: "file", Key: strings.TrimPrefix(filepath.ToSlash(abs), "/")}, nil
}

// Opener opens the bucket of an address.
type Opener func(a Address) (Bucket, error)

// OpenLocal opens the root folder for addresses with the scheme file.
func OpenLocal(a Address) (Bucket, error) {
	return OpenDir(filepath.VolumeName(filepath.FromSlash(a.Key)) + string(filepath.Separator))
}

// Openers maps schemes to their drivers.
type Openers map[string]Opener

// Open opens the bucket of an address.
func (o Openers) Open(a Address) (Bucket, error) {
	open, ok := o[a.Scheme]
	if !ok {
		return nil, fmt.Errorf("%w %s: scheme %s has no driver", ErrAddress, a, a.Scheme)
	}
	return open(a)
}
