package oci

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/skills/sandbox"
)

// maxUnpacked limits the total size of the layers of an image, in bytes.
const maxUnpacked = 2 << 30

// Names in the folder of an image.
const (
	rootDir  = "root"
	spoolDir = "spool"
	planFile = "plan.json"
)

// plan describes how an unpacked image is run.
type plan struct {
	Path string   `json:"path"` // of the program, in the image
	Args []string `json:"args"` // argv
	Dir  string   `json:"dir"`
	Env  []string `json:"env"`
}

// unpack merges the layers of an image, writes the files into dir and returns
// the plan. Faults of the image are of kind Refused.
func (e *Executor) unpack(ctx context.Context, i *image, dir *fsx.Dir) (*plan, error) {
	t, left := newTree(), int64(maxUnpacked)
	if err := dir.MkdirAll(spoolDir, 0o700); err != nil {
		return nil, err
	}
	for n, d := range i.layers {
		if err := e.layer(ctx, t, n+1, d, hexDigest(i.config.RootFS.DiffIDs[n]), dir, &left); err != nil {
			return nil, fmt.Errorf("layer %d: %w", n+1, err)
		}
	}
	// The assets of a call are mounted over an existing folder.
	if in := t.root.children["in"]; in == nil {
		t.root.children["in"] = &node{children: map[string]*node{}}
	} else if in.kind != folder {
		return nil, sandbox.Refuse("/in is not a folder")
	}
	p, err := t.plan(i.config.Config)
	if err != nil {
		return nil, err
	}
	if err := t.write(ctx, dir); err != nil {
		return nil, err
	}
	return p, fsx.RemoveAll(filepath.Join(dir.Path(), spoolDir))
}

// layer adds one layer to the tree; left is the number of bytes that may
// follow.
func (e *Executor) layer(ctx context.Context, t *tree, n int, d ocispec.Descriptor, diff string, dir *fsx.Dir, left *int64) error {
	blob, err := e.open(ctx, hexDigest(d.Digest))
	if err != nil {
		return err
	}
	defer blob.Close()
	packed := check(blob, maxPacked)
	var plain io.Reader = packed
	switch d.MediaType {
	case ocispec.MediaTypeImageLayer:
	case ocispec.MediaTypeImageLayerGzip, dockerLayer:
		if plain, err = gzip.NewReader(packed); err != nil {
			return sandbox.Refuse("not gzip: %v", err)
		}
	default:
		return sandbox.Refuse("unsupported layer type %q: want tar or gzip", d.MediaType)
	}
	entries := check(plain, maxUnpacked)
	r := tar.NewReader(entries)
	for ctx.Err() == nil {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			if err := entries.is(diff); err != nil {
				return sandbox.Refuse("unpacked: %v", err)
			}
			if err := packed.is(hexDigest(d.Digest)); err != nil {
				return sandbox.Refuse("%v", err)
			}
			return nil
		}
		if err != nil {
			return sandbox.Refuse("not tar: %v", err)
		}
		if err := take(left, h.Size); err != nil { // counts holes, which are not read
			return err
		}
		data := ""
		if h.Typeflag == tar.TypeReg && !strings.HasPrefix(path.Base(h.Name), whiteout) {
			data = path.Join(spoolDir, strconv.Itoa(n)+"-"+strconv.Itoa(t.entries))
			if err := spool(dir, data, r); err != nil {
				return err
			}
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := t.add(n, h, data); err != nil {
			return sandbox.Refuse("%v", err)
		}
	}
	return ctx.Err()
}

// take subtracts a size from what is left of maxUnpacked.
func take(left *int64, size int64) error {
	if *left -= size; size < 0 || *left < 0 {
		return sandbox.Refuse("image too large: limit %d bytes", int64(maxUnpacked))
	}
	return nil
}

// spool writes the bytes of a file under a generated name.
func spool(dir *fsx.Dir, name string, r io.Reader) error {
	f, err := dir.Create(name, 0o444)
	if err != nil {
		return err
	}
	_, err = f.ReadFrom(r)
	if errors.Is(err, errLarge) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) {
		err = sandbox.Refuse("truncated or too large: %v", err)
	}
	return errors.Join(err, f.Close())
}

// write writes the tree below rootDir: folders, then files, then links, so
// that no written path crosses a link.
func (t *tree) write(ctx context.Context, dir *fsx.Dir) error {
	if err := dir.MkdirAll(rootDir, 0o755); err != nil {
		return err
	}
	placed := map[string]string{} // path of the first copy
	for _, now := range []kind{folder, file, link} {
		err := t.root.walk(rootDir, func(at string, n *node) error {
			if n.kind != now || ctx.Err() != nil {
				return ctx.Err()
			}
			switch n.kind {
			case folder:
				return dir.MkdirAll(at, 0o755)
			case link:
				return dir.Root().Symlink(n.target, at)
			}
			mode := fs.FileMode(0o444)
			if n.runs {
				mode = 0o555
			}
			if first, ok := placed[n.data]; ok {
				return dir.Root().Link(first, at)
			}
			placed[n.data] = at
			return errors.Join(dir.Rename(n.data, at), dir.Chmod(at, mode))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// plan derives the plan from the image's entry point and command.
func (t *tree) plan(c ocispec.ImageConfig) (*plan, error) {
	p := &plan{Args: slices.Concat(c.Entrypoint, c.Cmd), Dir: path.Clean("/" + c.WorkingDir)[1:], Env: c.Env}
	if len(p.Args) == 0 || p.Args[0] == "" {
		return nil, sandbox.Refuse("no entry point and no command")
	}
	size := 0
	search := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, text := range slices.Concat(p.Args, p.Env) {
		if size += len(text) + 1; size > 64<<10 || strings.ContainsRune(text, 0) {
			return nil, sandbox.Refuse("command and variables are too long or contain NUL")
		}
		if value, ok := strings.CutPrefix(text, "PATH="); ok {
			search = value
		}
	}
	if n, err := t.find("/" + p.Dir); err != nil || n.kind != folder {
		return nil, sandbox.Refuse("working folder /%s is not a folder (%v)", p.Dir, err)
	}
	from := strings.Split(search, ":")
	if strings.Contains(p.Args[0], "/") {
		from = []string{"/" + p.Dir}
		if strings.HasPrefix(p.Args[0], "/") {
			from = []string{"/"}
		}
	}
	for _, at := range from {
		p.Path = path.Join("/", at, p.Args[0])
		if n, err := t.find(p.Path); err == nil && n.kind == file && n.runs {
			return p, nil
		}
	}
	return nil, sandbox.Refuse("no program %s", p.Args[0])
}

// encode returns the plan as JSON.
func (p *plan) encode() ([]byte, error) { return json.Marshal(p) }
