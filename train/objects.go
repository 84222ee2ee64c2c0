package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// Objects reads the objects of buckets that a recipe names by address, such as
// s3://BUCKET/KEY. All methods read the version of an object that they saw first;
// another one is an error.
type Objects interface {
	// Expand returns the addresses of the objects at an address, sorted: of
	// itself, or of all below a prefix that ends in a slash.
	Expand(ctx context.Context, address string) ([]string, error)
	// Version identifies the content of an object.
	Version(ctx context.Context, address string) (string, error)
	// Open reads an object from its beginning to its end.
	Open(ctx context.Context, address string) (io.ReadCloser, error)
}

// IsAddress reports whether the name of a file in a recipe is the address of an
// object, not a path.
func IsAddress(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && scheme != "" && !strings.ContainsAny(scheme, `/\.`)
}

// errNoObjects reports an address where only paths are read.
var errNoObjects = errors.New("got the address of a bucket, want a path: only the data of language models is read from buckets")

// NotObjects returns a fault at path if one of the names is an address.
func NotObjects(at string, names ...string) error {
	for _, name := range names {
		if IsAddress(name) {
			return At(at, fmt.Errorf("%s: %w", name, errNoObjects))
		}
	}
	return nil
}

// files opens the files of a recipe: those below a folder, and objects.
type files struct {
	ctx     context.Context
	dir     string // of paths
	objects Objects
	want    map[string]string // digests of objects that a lineage lists, by address
	read    []Lineage         // objects that were read to their end
}

// expand returns names with each address replaced by those of its objects.
func (f *files) expand(names []string) ([]string, error) {
	var all []string
	for _, name := range names {
		if !IsAddress(name) {
			all = append(all, name)
			continue
		}
		if f.objects == nil {
			return nil, At("/data/files", fmt.Errorf("%s: %w", name, errNoObjects))
		}
		some, err := f.objects.Expand(f.ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// expanded returns d with the objects of its addresses. An object is not both
// learned and held out.
func (f *files) expanded(d Data) (Data, error) {
	var err error
	if d.Files, err = f.expand(d.Files); err != nil {
		return d, err
	}
	if d.HeldFiles, err = f.expand(d.HeldFiles); err != nil {
		return d, err
	}
	for _, name := range d.HeldFiles {
		if IsAddress(name) && slices.Contains(d.Files, name) {
			return d, Atf("/data/held_out_files", "data: %s is in files and in held_out_files", name)
		}
	}
	return d, nil
}

// open opens a file. The digest of an object is recorded at its end.
func (f *files) open(name string) (io.ReadCloser, error) {
	if !IsAddress(name) {
		return os.Open(Resolve(f.dir, name))
	}
	r, err := f.objects.Open(f.ctx, name)
	if err != nil {
		return nil, err
	}
	return &hashed{files: f, name: name, r: r, sum: sha256.New()}, nil
}

// readAll reads a file of at most limit bytes.
func (f *files) readAll(name string, limit int64) ([]byte, error) {
	r, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil {
		err = checkSize(name, int64(len(data)), limit)
	}
	return data, err
}

// local returns the path of a file for mapping. An object is copied to the cache
// once for each version.
func (f *files) local(name, cache string) (string, error) {
	if !IsAddress(name) {
		return Resolve(f.dir, name), nil
	}
	if f.objects == nil {
		return "", At("/data/files", fmt.Errorf("%s: %w", name, errNoObjects))
	}
	version, err := f.objects.Version(f.ctx, name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(name + "\n" + version))
	file := filepath.Join(Resolve(f.dir, cache), "object-"+hex.EncodeToString(sum[:16]))
	if _, digest, err := fsx.Digest(file); err == nil {
		f.read = append(f.read, Lineage{Digest: digest, Name: name})
		return file, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	d, err := fsx.Create(filepath.Dir(file), 0o755, fsx.Options{})
	if err != nil {
		return "", err
	}
	if err := d.Close(); err != nil {
		return "", err
	}
	r, err := f.open(name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return file, fsx.Replace(file, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, fsx.Reader{Context: f.ctx, R: r})
		return err
	})
}

// hashed hashes an object while it is read.
type hashed struct {
	files *files
	name  string
	r     io.ReadCloser
	sum   hash.Hash
	done  bool
}

// Read implements io.Reader.
func (h *hashed) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.sum.Write(p[:n])
	if err != io.EOF || h.done {
		return n, err
	}
	h.done = true
	got := hex.EncodeToString(h.sum.Sum(nil))
	if want, ok := h.files.want[h.name]; ok {
		if got != want {
			return n, fmt.Errorf("%s differs from its lineage: got sha256:%s, want sha256:%s", h.name, got, want)
		}
		return n, err // the lineage is recorded
	}
	h.files.read = append(h.files.read, Lineage{Digest: "sha256:" + got, Name: h.name})
	return n, err
}

// Close implements io.Closer.
func (h *hashed) Close() error { return h.r.Close() }

// below returns the name of a file in the folder dir, which may be an address.
func below(dir, name string) string {
	if IsAddress(dir) {
		scheme, rest, _ := strings.Cut(dir, "://")
		return scheme + "://" + path.Join(rest, name)
	}
	return filepath.Join(dir, name)
}

// changedObjects names the objects of a run whose content differs from that of
// its checkpoint.
func changedObjects(before, now []Lineage) string {
	var text string
	for _, old := range before {
		if !IsAddress(old.Name) || slices.Contains(now, old) {
			continue
		}
		at := slices.IndexFunc(now, func(l Lineage) bool { return l.Name == old.Name })
		if at < 0 {
			text += fmt.Sprintf("; %s is missing", old.Name)
		} else {
			text += fmt.Sprintf("; %s: got %s, want %s", old.Name, now[at].Digest, old.Digest)
		}
	}
	for _, l := range now {
		if IsAddress(l.Name) && !slices.ContainsFunc(before, func(o Lineage) bool { return o.Name == l.Name }) {
			text += fmt.Sprintf("; %s is new", l.Name)
		}
	}
	return text
}
