package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// PullOptions configures [Client.Pull].
type PullOptions struct {
	Include []string                    // patterns of files. Empty: as [Tree.Choose] chooses
	Tell    func(file Entry, done bool) // reports a file before and after it is fetched. Nil: none
}

// PullReport is the result of [Client.Pull].
type PullReport struct {
	Tree    *Tree
	Files   []Entry
	Fetched int   // files
	Bytes   int64 // received
}

// partial is the suffix of a file that is being fetched.
const partial = ".part"

// Pull fetches files of a revision into dir, which is created if missing. A file
// with the listed content is kept; another file of its name is an error. An
// interrupted pull is resumed. A file gets its name after its content was checked.
func (c *Client) Pull(ctx context.Context, r Ref, dir string, opt PullOptions) (*PullReport, error) {
	t, err := c.Tree(ctx, r)
	if err != nil {
		return nil, err
	}
	files, err := t.Choose(r, opt.Include)
	if err != nil {
		return nil, err
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	report := &PullReport{Tree: t, Files: files}
	for _, f := range files {
		if opt.Tell != nil {
			opt.Tell(f, false)
		}
		n, err := c.fetch(ctx, t, f, d)
		report.Bytes += n
		if err != nil {
			return report, fmt.Errorf("fetching %s of %s: %w", f.Path, r, err)
		}
		if n > 0 || f.Size == 0 {
			report.Fetched++
		}
		if opt.Tell != nil {
			opt.Tell(f, true)
		}
	}
	return report, nil
}

// fetch fetches a file, unless it is there, and returns the bytes received.
func (c *Client) fetch(ctx context.Context, t *Tree, f Entry, d *fsx.Dir) (int64, error) {
	if dir := path.Dir(f.Path); dir != "." {
		if err := d.MkdirAll(dir, 0o755); err != nil {
			return 0, err
		}
	}
	switch sum, err := hashFile(ctx, d, f.Path, f); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, err
	case matches(sum, f):
		return 0, nil
	default:
		return 0, errors.New("a file of that name with other content exists")
	}
	n, err := c.receive(ctx, t, f, d)
	if err != nil {
		return n, err
	}
	if err := d.Rename(f.Path+partial, f.Path); err != nil {
		return n, err
	}
	return n, d.SyncDir(path.Dir(f.Path))
}

// receive completes the part of a file and checks it. A part with wrong content is
// removed.
func (c *Client) receive(ctx context.Context, t *Tree, f Entry, d *fsx.Dir) (n int64, err error) {
	sum := newHash(f)
	have, err := begin(ctx, d, f, sum)
	if err != nil {
		return 0, err
	}
	out, err := d.Append(f.Path+partial, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if have < f.Size {
		if n, err = c.stream(ctx, t, f, have, io.MultiWriter(out, sum)); err != nil {
			return n, err
		}
	}
	if got := have + n; got != f.Size {
		return n, fmt.Errorf("the hub sent %d of %d bytes", got, f.Size)
	}
	if !matches(sum.Sum(nil), f) {
		return n, errors.Join(fmt.Errorf("content does not match the listing: got %x, want %s", sum.Sum(nil), f.SHA256+f.Blob), d.Remove(f.Path+partial))
	}
	return n, out.Sync()
}

// begin hashes the part of a file that exists and returns its size. A part that is
// too long is removed.
func begin(ctx context.Context, d *fsx.Dir, f Entry, sum hash.Hash) (int64, error) {
	part, err := d.Root().Open(f.Path + partial)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer part.Close()
	info, err := part.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is not a regular file", f.Path+partial)
	case info.Size() > f.Size:
		return 0, d.Remove(f.Path + partial)
	}
	return io.Copy(sum, fsx.Reader{Context: ctx, R: part})
}

// stream copies the bytes of a file from an offset on.
func (c *Client) stream(ctx context.Context, t *Tree, f Entry, from int64, to io.Writer) (int64, error) {
	u := c.base.String() + "/" + t.Repository + "/resolve/" + t.Commit + "/" + escape(f.Path)
	req, err := http.NewRequestWithContext(ctx, "GET", u, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := c.do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if from > 0 && resp.StatusCode != http.StatusPartialContent {
		// The hub ignores the range: skip the part.
		if _, err := io.CopyN(io.Discard, resp.Body, from); err != nil {
			return 0, err
		}
	} else if from > 0 && !strings.HasPrefix(resp.Header.Get("Content-Range"), "bytes "+strconv.FormatInt(from, 10)+"-") {
		return 0, fmt.Errorf("got range %.80q, want one from %d", resp.Header.Get("Content-Range"), from)
	}
	return io.Copy(to, io.LimitReader(resp.Body, f.Size-from))
}

// escape escapes the elements of a path.
func escape(p string) string {
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// newHash returns the hash of a file's id: SHA-256, or Git's of a blob.
func newHash(f Entry) hash.Hash {
	if f.SHA256 != "" {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h
}

func matches(sum []byte, f Entry) bool { return hex.EncodeToString(sum) == f.SHA256+f.Blob }

// hashFile hashes a file below d.
func hashFile(ctx context.Context, d *fsx.Dir, name string, f Entry) ([]byte, error) {
	file, err := d.Root().OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", name))
	}
	sum := newHash(f)
	if info.Size() != f.Size {
		return nil, nil
	}
	_, err = io.Copy(sum, fsx.Reader{Context: ctx, R: file})
	return sum.Sum(nil), err
}
