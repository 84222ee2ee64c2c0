package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// CopyOptions configures [Copy].
type CopyOptions struct {
	Openers  Openers
	IfAbsent bool                                         // existing objects with other content are an error
	Digested bool                                         // objects without a digest are an error
	Sessions Sessions                                     // of interrupted uploads
	Done     func(from, to string, info Info, moved bool) // reports a file or an object. Nil: none
}

// Copied is the result of [Copy].
type Copied struct {
	Files    int   `json:"files"`          // of the source
	Moved    int   `json:"moved"`          // sent or received: the others were the same already
	Bytes    int64 `json:"bytes"`          // of those that moved
	Unsummed int   `json:"without_sha256"` // received without a digest to compare
}

// Copy copies a file or a folder to a bucket, or an object or a prefix from one.
// A source that ends in a slash, and a folder, is copied with all below it. One
// side must be local.
func Copy(ctx context.Context, from, to string, opt CopyOptions) (Copied, error) {
	if opt.Done == nil {
		opt.Done = func(string, string, Info, bool) {}
	}
	c := copier{opt: opt}
	var err error
	switch up, down := IsAddress(to), IsAddress(from); {
	case up && down:
		err = errors.New("copying between two buckets is not supported: copy to a folder first")
	case up:
		err = c.up(ctx, from, to)
	case down:
		err = c.down(ctx, from, to)
	default:
		err = fmt.Errorf("neither %s nor %s is the address of a bucket", from, to)
	}
	return c.Copied, err
}

type copier struct {
	Copied
	opt CopyOptions
}

// count counts one file.
func (c *copier) count(from, to string, info Info, moved bool) {
	c.Files++
	if moved {
		c.Moved++
		c.Bytes += info.Size
		if info.SHA256 == "" {
			c.Unsummed++
		}
	}
	c.opt.Done(from, to, info, moved)
}

// up uploads the file or the folder at from.
func (c *copier) up(ctx context.Context, from, to string) error {
	place, err := ParseAddress(to)
	if err != nil {
		return err
	}
	stat, err := os.Stat(from)
	if err != nil {
		return err
	}
	files := []string{"."}
	if stat.IsDir() {
		if files, err = filesBelow(from); err != nil {
			return err
		}
	} else if place.Key == "" || strings.HasSuffix(place.Key, "/") {
		place = place.Under(filepath.Base(from))
	}
	b, err := c.opt.Openers.Open(place)
	if err != nil {
		return err
	}
	for _, name := range files {
		key, file := place.Key, from
		if name != "." {
			key, file = join(place.Key, name), filepath.Join(from, filepath.FromSlash(name))
		}
		at := place.At(key).String()
		info, moved, err := Upload(ctx, b, key, file, UploadOptions{IfAbsent: c.opt.IfAbsent, Sessions: c.opt.Sessions, Place: at})
		if err != nil {
			return &CopyError{at, err}
		}
		c.count(file, at, info, moved)
	}
	return nil
}

// filesBelow lists the regular files below a folder; links are not followed.
func filesBelow(dir string) ([]string, error) {
	var files []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == metaDir:
			return fs.SkipDir
		case !e.Type().IsRegular() || strings.HasPrefix(e.Name(), fsx.TempPrefix) || strings.HasSuffix(e.Name(), ".part"):
			return nil
		}
		files = append(files, name)
		return nil
	})
	return files, err
}

// down downloads the object or the prefix at from.
func (c *copier) down(ctx context.Context, from, to string) error {
	place, err := ParseAddress(from)
	if err != nil {
		return err
	}
	b, err := c.opt.Openers.Open(place)
	if err != nil {
		return err
	}
	if place.Key == "" || strings.HasSuffix(place.Key, "/") {
		return c.downAll(ctx, b, place, to)
	}
	name := path.Base(place.Key)
	if stat, err := os.Stat(to); err != nil || !stat.IsDir() {
		to, name = filepath.Split(filepath.Clean(to))
		if to == "" {
			to = "."
		}
	}
	d, err := fsx.Create(to, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	return c.fetch(ctx, b, place, d, name)
}

// downAll downloads the objects below a prefix. All keys are judged before the
// first byte is received.
func (c *copier) downAll(ctx context.Context, b Bucket, place Address, to string) error {
	var keys []string
	for info, err := range b.List(ctx, place.Key) {
		if err != nil {
			return &CopyError{place.String(), err}
		}
		name, err := Local(info.Key, place.Key)
		if err != nil {
			return &CopyError{place.String(), err}
		}
		if name != "" {
			keys = append(keys, name)
		}
	}
	if len(keys) == 0 {
		return &CopyError{place.String(), ErrMissing}
	}
	keys = described(keys)
	if err := distinct(keys); err != nil {
		return &CopyError{place.String(), err}
	}
	d, err := fsx.Create(to, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, name := range keys {
		if err := c.fetch(ctx, b, place.At(place.Key+name), d, name); err != nil {
			return err
		}
	}
	return nil
}

// distinct refuses a name that is both a file and a folder.
func distinct(names []string) error {
	names = slices.Sorted(slices.Values(names))
	for _, name := range names {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, both := slices.BinarySearch(names, dir); both {
				return fmt.Errorf("%w: %q and %q cannot both be files of a folder", ErrKey, dir, name)
			}
		}
	}
	return nil
}

func (c *copier) fetch(ctx context.Context, b Bucket, place Address, d *fsx.Dir, name string) error {
	b, err := Assembled(ctx, b, place.Key)
	if err != nil {
		return &CopyError{place.String(), err}
	}
	info, moved, err := Download(ctx, b, place.Key, d, name, DownloadOptions{Place: place.String(), Digested: c.opt.Digested})
	if err != nil {
		return &CopyError{place.String(), err}
	}
	c.count(place.String(), filepath.Join(d.Path(), filepath.FromSlash(name)), info, moved)
	return nil
}

// CopyError is an error at an address.
type CopyError struct {
	Address string
	Err     error
}

// Error implements error.
func (e *CopyError) Error() string { return e.Address + ": " + e.Err.Error() }

// Unwrap returns the error.
func (e *CopyError) Unwrap() error { return e.Err }
