package oci

import (
	"archive/tar"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Limits of an image, all layers together.
const (
	maxEntries = 200_000
	maxDepth   = 64   // nested folders
	maxName    = 255  // bytes
	maxTarget  = 4096 // bytes of a symbolic link
	maxHops    = 40   // links followed for one name
)

// whiteout is the prefix of entries that delete a file of lower layers; opaque
// deletes the content of a folder (image-spec, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// kind is the kind of a node.
type kind uint8

const (
	folder kind = iota
	file
	link // symbolic
)

// node is a file of an image.
type node struct {
	kind     kind
	layer    int // last layer that changed it
	children map[string]*node
	target   string // of a link
	data     string // of a file: path of its bytes
	runs     bool   // executable
}

// tree is an image without the contents of its files. Nothing of it is on disk
// while layers are merged, so no link or path of a layer is ever followed.
type tree struct {
	root    *node
	entries int
}

func newTree() *tree { return &tree{root: &node{children: map[string]*node{}}} }

// split splits a name of a layer. Names must not go up.
func split(name string) ([]string, error) {
	clean := path.Clean("/" + name)[1:]
	if strings.ContainsRune(name, 0) || slices.Contains(strings.Split(name, "/"), "..") {
		return nil, fmt.Errorf("name %q leads out of the image", name)
	}
	if clean == "" {
		return nil, nil
	}
	parts := strings.Split(clean, "/")
	if len(parts) > maxDepth {
		return nil, fmt.Errorf("name %.80q… is more than %d folders deep", name, maxDepth)
	}
	for _, p := range parts {
		if len(p) > maxName {
			return nil, fmt.Errorf("name %.80q… exceeds %d bytes", p, maxName)
		}
	}
	return parts, nil
}

// add adds an entry of a layer to the tree. data is the path of a file's
// bytes.
func (t *tree) add(layer int, h *tar.Header, data string) error {
	if t.entries++; t.entries > maxEntries {
		return fmt.Errorf("more than %d entries", maxEntries)
	}
	parts, err := split(h.Name)
	if err != nil {
		return err
	}
	if len(parts) == 0 { // the root exists
		return nil
	}
	dir, err := t.folder(layer, parts[:len(parts)-1])
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	name := parts[len(parts)-1]
	if strings.HasPrefix(name, whiteout) {
		return dir.whiteout(layer, name)
	}
	n := &node{layer: layer}
	switch h.Typeflag {
	case tar.TypeDir:
		if old := dir.children[name]; old != nil && old.kind == folder {
			old.layer = layer
			return nil
		}
		n.children = map[string]*node{}
	case tar.TypeReg:
		n.kind, n.data, n.runs = file, data, h.Mode&0o111 != 0
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxTarget || strings.ContainsRune(h.Linkname, 0) {
			return fmt.Errorf("%s: invalid link target %.80q", h.Name, h.Linkname)
		}
		n.kind, n.target = link, h.Linkname
	case tar.TypeLink:
		of, err := t.hardLinkTarget(h.Linkname)
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		n.kind, n.data, n.runs, n.target = of.kind, of.data, of.runs, of.target
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return fmt.Errorf("%s is a device or a pipe", h.Name)
	default:
		return fmt.Errorf("%s: unknown entry type %q", h.Name, h.Typeflag)
	}
	dir.children[name] = n
	return nil
}

// hardLinkTarget returns the file that a hard link names.
func (t *tree) hardLinkTarget(name string) (*node, error) {
	parts, err := split(name)
	if err != nil {
		return nil, err
	}
	n := t.root
	for _, p := range parts {
		if n = n.children[p]; n == nil {
			return nil, fmt.Errorf("hard link to missing file %q", name)
		}
	}
	if n.kind == folder {
		return nil, fmt.Errorf("hard link to folder %q", name)
	}
	return n, nil
}

// folder returns the folder of a path, created if absent. Links to folders are
// followed within the image.
func (t *tree) folder(layer int, parts []string) (*node, error) {
	at := t.root
	for i, p := range parts {
		next := at.children[p]
		if next == nil {
			if t.entries++; t.entries > maxEntries {
				return nil, fmt.Errorf("more than %d entries", maxEntries)
			}
			next = &node{children: map[string]*node{}}
			at.children[p] = next
		}
		if next.kind == link {
			target, err := t.find("/" + strings.Join(parts[:i+1], "/"))
			if err != nil {
				return nil, err
			}
			next = target
		}
		if next.kind != folder {
			return nil, fmt.Errorf("%q is not a folder", strings.Join(parts[:i+1], "/"))
		}
		next.layer = layer
		at = next
	}
	return at, nil
}

// whiteout deletes files of lower layers.
func (n *node) whiteout(layer int, name string) error {
	if name == opaque {
		n.prune(layer)
		return nil
	}
	target := strings.TrimPrefix(name, whiteout)
	if target == "" || target == "." || target == ".." {
		return fmt.Errorf("invalid whiteout %q", name)
	}
	if child := n.children[target]; child != nil && child.layer == layer && child.kind == folder {
		child.prune(layer)
	} else if child != nil && child.layer != layer {
		delete(n.children, target)
	}
	return nil
}

// prune deletes everything that this layer did not add.
func (n *node) prune(layer int) {
	for name, child := range n.children {
		switch {
		case child.layer != layer:
			delete(n.children, name)
		case child.kind == folder:
			child.prune(layer)
		}
	}
}

// find resolves a path of the image, following links as a process in it would.
func (t *tree) find(name string) (*node, error) {
	at, left, hops := []*node{t.root}, strings.Split(name, "/"), 0
	for len(left) > 0 {
		part := left[0]
		left = left[1:]
		here := at[len(at)-1]
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			at = at[:max(1, len(at)-1)]
			continue
		case here.kind != folder:
			return nil, fmt.Errorf("%s: parent is not a folder", name)
		}
		next := here.children[part]
		if next == nil {
			return nil, fmt.Errorf("image has no %s", name)
		}
		if next.kind != link {
			at = append(at, next)
			continue
		}
		if hops++; hops > maxHops {
			return nil, fmt.Errorf("%s: too many links", name)
		}
		if left = append(strings.Split(next.target, "/"), left...); len(left) > 4*maxTarget {
			return nil, fmt.Errorf("%s: too many links", name)
		}
		if strings.HasPrefix(next.target, "/") {
			at = at[:1]
		}
	}
	return at[len(at)-1], nil
}

// walk calls f for each node below n, sorted, a folder before its content.
func (n *node) walk(at string, f func(at string, n *node) error) error {
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		child := n.children[name]
		below := path.Join(at, name)
		if err := f(below, child); err != nil {
			return err
		}
		if err := child.walk(below, f); err != nil {
			return err
		}
	}
	return nil
}
