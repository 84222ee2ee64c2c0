package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

// metaDir is the folder next to objects of a [Dir] that holds their digests.
const metaDir = ".mm-bucket"

// Dir is a folder as a bucket. The digest of dir/name is in dir/.mm-bucket/name,
// with the size and the time of the file that it describes.
type Dir struct{ d *fsx.Dir }

// OpenDir opens the folder at path, which is created if missing.
func OpenDir(path string) (*Dir, error) {
	d, err := fsx.Create(path, 0o755, fsx.Options{})
	if err != nil {
		return nil, err
	}
	return &Dir{d}, nil
}

// Close closes the folder.
func (b *Dir) Close() error { return b.d.Close() }

// Put implements [Bucket].
func (b *Dir) Put(ctx context.Context, key string, r io.ReaderAt, size int64, opt PutOptions) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	folder := path.Dir(key)
	if err := b.d.MkdirAll(folder, 0o755); err != nil {
		return Info{}, err
	}
	if _, err := b.d.Root().Lstat(key); err == nil && opt.IfAbsent {
		return Info{}, ErrExists
	}
	f, err := b.d.CreateTemp(folder, fsx.TempPrefix, 0o644)
	if err != nil {
		return Info{}, err
	}
	n, err := io.Copy(fsx.Writer{Context: ctx, W: f}, io.NewSectionReader(r, 0, size))
	if err == nil && n != size {
		err = fmt.Errorf("writing %s: got %d bytes, want %d: %w", key, n, size, io.ErrUnexpectedEOF)
	}
	var stat fs.FileInfo
	if err == nil {
		stat, err = f.Stat()
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = b.publish(f.Name(), key, stat, opt)
	}
	if err != nil {
		return Info{}, errors.Join(err, ignoreMissing(b.d.Remove(f.Name())))
	}
	return b.Stat(ctx, key)
}

// publish renames the file from to its key, after the note of its digest.
func (b *Dir) publish(from, key string, stat fs.FileInfo, opt PutOptions) error {
	if opt.IfAbsent {
		if err := b.d.LinkFrom(filepath.Join(b.d.Path(), filepath.FromSlash(from)), key); errors.Is(err, fs.ErrExist) {
			return ErrExists
		} else if err != nil {
			return err
		}
		if err := b.note(key, stat, opt.SHA256); err != nil {
			return err
		}
		return errors.Join(b.d.Remove(from), b.d.SyncDir(path.Dir(key)))
	}
	if err := b.note(key, stat, opt.SHA256); err != nil {
		return err
	}
	return errors.Join(b.d.Rename(from, key), b.d.SyncDir(path.Dir(key)))
}

// noteOf returns the name of the file with the digest of key.
func noteOf(key string) string { return path.Join(path.Dir(key), metaDir, path.Base(key)) }

// note writes the digest of a file.
func (b *Dir) note(key string, stat fs.FileInfo, digest string) error {
	if digest == "" {
		return ignoreMissing(b.d.Remove(noteOf(key)))
	}
	if err := b.d.MkdirAll(path.Dir(noteOf(key)), 0o755); err != nil {
		return err
	}
	return b.d.WriteFile(noteOf(key), fmt.Appendf(nil, "%s %s\n", etagOf(stat), digest), 0o644)
}

// etagOf returns the version of a file: its size and its time.
func etagOf(stat fs.FileInfo) string {
	return strconv.FormatInt(stat.Size(), 36) + "-" + strconv.FormatInt(stat.ModTime().UnixNano(), 36)
}

// Get implements [Bucket].
func (b *Dir) Get(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	info, err := b.Stat(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	if etag != "" && etag != info.ETag {
		return nil, Info{}, ErrChanged
	}
	if n < 0 {
		n = info.Size - off
	}
	if off < 0 || off > info.Size || n < 0 || off+n > info.Size {
		return nil, Info{}, fmt.Errorf("range of %s: got %d bytes at %d, want within %d", key, n, off, info.Size)
	}
	f, err := b.d.Root().Open(key)
	if err != nil {
		return nil, Info{}, err
	}
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return nil, Info{}, errors.Join(err, f.Close())
	}
	return Exact(f, n), info, nil
}

// Stat implements [Bucket].
func (b *Dir) Stat(_ context.Context, key string) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	stat, err := b.d.Root().Stat(key)
	if errors.Is(err, fs.ErrNotExist) || err == nil && stat.IsDir() {
		return Info{}, ErrMissing
	}
	if err != nil {
		return Info{}, err
	}
	if !stat.Mode().IsRegular() {
		return Info{}, fmt.Errorf("%s: %w", key, fsx.ErrIrregular)
	}
	info := Info{Key: key, Size: stat.Size(), ETag: etagOf(stat), Modified: stat.ModTime().UTC().Truncate(time.Second)}
	f, err := b.d.Root().Open(noteOf(key))
	if err != nil {
		return info, ignoreMissing(err)
	}
	defer f.Close()
	var line [256]byte
	length, _ := io.ReadFull(f, line[:])
	if of, digest, ok := strings.Cut(strings.TrimSpace(string(line[:length])), " "); ok && of == info.ETag && IsDigest(digest) {
		info.SHA256 = digest
	}
	return info, nil
}

// List implements [Bucket].
func (b *Dir) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return Ordered(func(yield func(Info, error) bool) {
		list, err := b.walk(ctx, prefix)
		if err != nil {
			yield(Info{}, err)
			return
		}
		for _, info := range list {
			if !yield(info, nil) {
				return
			}
		}
	}, prefix, true)
}

// walk collects the files whose paths begin with prefix, in the order of stores.
func (b *Dir) walk(ctx context.Context, prefix string) ([]Info, error) {
	top := "."
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		top = path.Clean(prefix[:i])
		if err := CheckKey(top); err != nil {
			return nil, err
		}
	}
	var list []Info
	err := fs.WalkDir(b.d.Root().FS(), top, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == top:
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir() && (e.Name() == metaDir || !strings.HasPrefix(name+"/", prefix) && !strings.HasPrefix(prefix, name+"/") && name != "."):
			return fs.SkipDir
		case !e.Type().IsRegular() || !strings.HasPrefix(name, prefix) || strings.HasPrefix(e.Name(), fsx.TempPrefix):
			return nil
		}
		stat, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(list) >= maxListed {
			return fmt.Errorf("listing exceeds %d objects", maxListed)
		}
		list = append(list, Info{Key: name, Size: stat.Size(), ETag: etagOf(stat), Modified: stat.ModTime().UTC().Truncate(time.Second)})
		return nil
	})
	slices.SortFunc(list, func(a, b Info) int { return cmp.Compare(a.Key, b.Key) })
	return list, err
}

// Delete implements [Bucket].
func (b *Dir) Delete(_ context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if err := b.d.Remove(key); errors.Is(err, fs.ErrNotExist) {
		return ErrMissing
	} else if err != nil {
		return err
	}
	return errors.Join(ignoreMissing(b.d.Remove(noteOf(key))), b.d.SyncDir(path.Dir(key)))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
