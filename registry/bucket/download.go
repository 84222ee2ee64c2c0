package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// DownloadOptions configures [Download].
type DownloadOptions struct {
	Place    string // address of the object, part of the name of the partial file
	Digested bool   // an object without a SHA-256 in its metadata is [ErrDigest]
	SHA256   string // the content must have it. "": that of the metadata
}

// Download writes the object to the file name in d, which gets its name after
// size and digest were verified. A partial file of the same version of the object
// is continued; an object that changes meanwhile is [ErrChanged]. It reports
// whether it received anything: a file with the same content is kept.
func Download(ctx context.Context, b Bucket, key string, d *fsx.Dir, name string, opt DownloadOptions) (info Info, received bool, err error) {
	info, err = b.Stat(ctx, key)
	if err != nil {
		return info, false, err
	}
	want := opt.SHA256
	if want == "" {
		want = info.SHA256
	}
	if want == "" && opt.Digested {
		return info, false, fmt.Errorf("%s: %w: the object has no sha256 in its metadata", key, ErrDigest)
	}
	if same, err := holds(ctx, d, name, info.Size, want); err != nil || same {
		return info, false, err
	}
	if err := d.MkdirAll(path.Dir(name), 0o755); err != nil {
		return info, false, err
	}
	p := partial{b: b, key: key, d: d, info: info, want: want, name: partOf(name, opt.Place+key, info)}
	lock, err := d.TryLock(ctx, p.name+".lock")
	if err != nil {
		return info, false, fmt.Errorf("%s: another download is in progress: %w", name, err)
	}
	defer func() { err = errors.Join(err, lock.RemoveUnlock()) }()
	if err := p.complete(ctx); err != nil {
		return info, false, err
	}
	if err := d.Rename(p.name, name); err != nil {
		return info, false, err
	}
	return info, true, d.SyncDir(path.Dir(name))
}

// partOf returns the name of the partial file of a version of an object.
func partOf(name, place string, info Info) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", place, info.ETag, info.Size))
	return path.Join(path.Dir(name), "."+path.Base(name)+"."+hex.EncodeToString(sum[:6])+".part")
}

// holds reports whether the file name has the size and the digest.
func holds(ctx context.Context, d *fsx.Dir, name string, size int64, digest string) (bool, error) {
	f, err := d.Root().Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !stat.Mode().IsRegular() {
		return false, fmt.Errorf("%s: %w", name, fsx.ErrIrregular)
	}
	if stat.Size() != size || digest == "" {
		return false, nil
	}
	_, got, err := digestOf(ctx, f)
	return got == digest, err
}

// partial is a file that is being received.
type partial struct {
	b    Bucket
	key  string
	d    *fsx.Dir
	info Info
	want string
	name string
}

// complete receives the rest of the object and verifies all of it. A partial file
// with wrong content is removed.
func (p *partial) complete(ctx context.Context) (err error) {
	sum := sha256.New()
	have, err := p.begin(ctx, sum)
	if err != nil {
		return err
	}
	out, err := p.d.Append(p.name, 0o644)
	if err != nil {
		return err
	}
	for have < p.info.Size && err == nil {
		at := have
		err = Retry(ctx, func() error {
			n, err := p.receive(ctx, have, io.MultiWriter(out, sum))
			have += n
			if n > 0 && passing(err) {
				return nil // progress: the tries start over
			}
			return err
		})
		if have == at && err == nil {
			err = io.ErrUnexpectedEOF
		}
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); errors.Is(err, ErrChanged) {
		return errors.Join(err, p.d.Remove(p.name))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && p.want != "" && got != p.want {
		err = errors.Join(fmt.Errorf("%s: %w: got %s, want %s", p.key, ErrDigest, got, p.want), p.d.Remove(p.name))
	}
	return err
}

// begin hashes the bytes of the partial file.
func (p *partial) begin(ctx context.Context, sum hash.Hash) (int64, error) {
	f, err := p.d.Root().Open(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := io.Copy(sum, fsx.Reader{Context: ctx, R: f})
	if err == nil && n > p.info.Size {
		sum.Reset()
		return 0, p.d.Remove(p.name)
	}
	return n, err
}

// receive appends the bytes from off, as far as they come.
func (p *partial) receive(ctx context.Context, off int64, w io.Writer) (int64, error) {
	r, info, err := p.b.Get(ctx, p.key, off, p.info.Size-off, p.info.ETag)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if info.Size != p.info.Size {
		return 0, fmt.Errorf("%s: %w: got %d bytes, want %d", p.key, ErrChanged, info.Size, p.info.Size)
	}
	return io.Copy(w, fsx.Reader{Context: ctx, R: r})
}

// Local returns the path below a folder of an object under a prefix; "" for the
// empty object that marks a folder. An unsafe key is [ErrKey].
func Local(key, prefix string) (string, error) {
	name := strings.TrimPrefix(key, prefix)
	if name == "" || strings.HasSuffix(name, "/") && CheckKey(strings.TrimSuffix(name, "/")) == nil {
		return "", nil
	}
	return name, CheckKey(name)
}
