//go:build amd64 || arm64

package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestLimits holds each limit on either side.
func TestLimits(t *testing.T) {
	size := int64(maxUnpacked)
	for _, c := range []struct {
		name  string
		limit int
		try   func(n int) error
	}{
		{"maxEntries", maxEntries, func(n int) error {
			tr := newTree()
			tr.entries = n - 1
			return tr.add(1, &tar.Header{Name: "a", Typeflag: tar.TypeReg}, "")
		}},
		{"maxEntries of parents", maxEntries, func(n int) error {
			tr := newTree()
			tr.entries = n - 2
			return tr.add(1, &tar.Header{Name: "d/a", Typeflag: tar.TypeReg}, "")
		}},
		{"maxDepth", maxDepth, func(n int) error { _, err := split(strings.Repeat("a/", n-1) + "a"); return err }},
		{"maxName", maxName, func(n int) error { _, err := split(strings.Repeat("a", n)); return err }},
		{"maxTarget", maxTarget, func(n int) error {
			return newTree().add(1, &tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("a", n)}, "")
		}},
		{"maxHops", maxHops, func(n int) error {
			tr := newTree()
			tr.root.children["l0"] = &node{kind: file}
			for i := range n {
				tr.root.children[fmt.Sprintf("l%d", i+1)] = &node{kind: link, target: fmt.Sprintf("l%d", i)}
			}
			_, err := tr.find(fmt.Sprintf("/l%d", n))
			return err
		}},
		{"maxUnpacked", maxUnpacked, func(n int) error { left := size; return take(&left, int64(n)) }},
		{"maxPacked", maxPacked, func(n int) error {
			c := check(bytes.NewReader(make([]byte, 2)), maxPacked)
			c.left -= int64(n - 2)
			_, err := io.Copy(io.Discard, c)
			return err
		}},
		{"maxDocument", maxDocument, func(n int) error {
			b := blobs{}
			d := b.add([]byte(`"`+strings.Repeat("x", n-2)+`"`), "")
			var text string
			return executor(t, b).document(t.Context(), d.Digest.Encoded(), &text)
		}},
		{"maxLayers", maxLayers, func(n int) error {
			b := blobs{}
			ref := b.image(t, func(c *ocispec.Image, m *ocispec.Manifest) {
				for len(m.Layers) < n {
					m.Layers, c.RootFS.DiffIDs = append(m.Layers, m.Layers[0]), append(c.RootFS.DiffIDs, c.RootFS.DiffIDs[0])
				}
			}, layer(t, guest))
			_, err := executor(t, b).read(t.Context(), ref[len(ref)-64:])
			return err
		}},
	} {
		if err := c.try(c.limit); err != nil {
			t.Errorf("%s at the limit: %v", c.name, err)
		}
		if err := c.try(c.limit + 1); err == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
}
