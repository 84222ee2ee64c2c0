package sign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/registry/artifact"
)

// Limits of the tree below a manifest.
const (
	maxManifest = 4 << 20 // bytes of one manifest or index
	maxNesting  = 4       // indexes within indexes
	maxNodes    = 100_000 // descriptors in all
)

// readBuffer is how much of a blob each worker holds, in bytes.
const readBuffer = 1 << 20

// TreeOptions for [VerifyTree].
type TreeOptions struct {
	Only    func(layer ocispec.Descriptor) bool // which layers to read; the others may be missing. Zero: all
	Workers int                                 // blobs hashed at a time. Zero: GOMAXPROCS
}

// Tree counts the content that [VerifyTree] read.
type Tree struct {
	Blobs int   // each digest once
	Bytes int64 // their size
}

// VerifyTree reads everything that desc reaches in src (manifests, configs,
// layers, the children of an index; not referrers) and compares size and
// digest of each. It extends a signature over a manifest to the bytes that
// will be used. The error is a [*Refusal]: [Tampered] or [Missing] naming the
// blob, or [Hostile] if a manifest is beyond the limits. Memory is bounded by
// the workers' buffers and 4 MiB a manifest, whatever the sizes.
func VerifyTree(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, opt TreeOptions) (Tree, error) {
	blobs, tree, err := collect(ctx, src, desc, opt.Only)
	if err != nil {
		return Tree{}, err
	}
	workers := opt.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next, read atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(workers, len(blobs)) {
		group.Go(func() error {
			buf := make([]byte, readBuffer)
			for i := next.Add(1); i <= int64(len(blobs)); i = next.Add(1) {
				if err := verifyBlob(ctx, src, blobs[i-1], buf); err != nil {
					return err
				}
				read.Add(blobs[i-1].Size)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Tree{}, err
	}
	tree.Blobs += len(blobs)
	tree.Bytes += read.Load()
	return tree, nil
}

// collect reads the manifests below desc and lists the blobs they name, each
// digest once.
func collect(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, only func(ocispec.Descriptor) bool) (blobs []ocispec.Descriptor, tree Tree, err error) {
	seen := map[digest.Digest]int64{}
	fresh := func(d ocispec.Descriptor) (bool, error) {
		if size, ok := seen[d.Digest]; ok {
			if size != d.Size {
				return false, refusal(Hostile, d.Digest, "it is named with two sizes, %d and %d", size, d.Size)
			}
			return false, nil
		}
		seen[d.Digest] = d.Size
		return true, nil
	}
	nodes := 0
	err = walkNodes(ctx, src, desc, 0, &nodes, func(d ocispec.Descriptor, n *node) error {
		if ok, err := fresh(d); err != nil {
			return err
		} else if ok {
			tree.Blobs++
			tree.Bytes += d.Size
		}
		for _, b := range n.blobs() {
			if err := checkDescriptor(b); err != nil {
				return err
			}
			if ok, err := fresh(b); err != nil {
				return err
			} else if ok && (only == nil || n.isConfig(b) || only(b)) {
				blobs = append(blobs, b)
			}
		}
		return nil
	})
	return blobs, tree, err
}

// verifyBlob hashes one blob through buf.
func verifyBlob(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, buf []byte) error {
	r, err := src.Fetch(ctx, desc)
	if err != nil {
		return fetchError(desc, err)
	}
	defer r.Close()
	verifier := desc.Digest.Verifier()
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		m, err := r.Read(buf)
		n += int64(m)
		if n > desc.Size {
			return refusal(Tampered, desc.Digest, "it is longer than its %d bytes", desc.Size)
		}
		verifier.Write(buf[:m]) // a hash never fails
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", desc.Digest, err)
		}
	}
	if n != desc.Size {
		return refusal(Tampered, desc.Digest, "it has %d bytes, not %d", n, desc.Size)
	}
	if !verifier.Verified() {
		return refusal(Tampered, desc.Digest, "its bytes do not match its digest")
	}
	return nil
}

// node holds the references of a manifest or an index, of OCI or of Docker.
type node struct {
	Config    *ocispec.Descriptor  `json:"config"`
	Layers    []ocispec.Descriptor `json:"layers"`
	Manifests []ocispec.Descriptor `json:"manifests"`
}

// blobs are config and layers.
func (n *node) blobs() []ocispec.Descriptor {
	if n.Config == nil {
		return n.Layers
	}
	return append([]ocispec.Descriptor{*n.Config}, n.Layers...)
}

// isConfig reports whether d is the config.
func (n *node) isConfig(d ocispec.Descriptor) bool {
	return n.Config != nil && n.Config.Digest == d.Digest
}

// isManifest reports whether mediaType is one whose content names more content.
func isManifest(mediaType string) bool {
	switch mediaType {
	case ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex,
		"application/vnd.docker.distribution.manifest.v2+json",
		"application/vnd.docker.distribution.manifest.list.v2+json":
		return true
	}
	return false
}

// walkManifests calls fn for the manifests below desc and then for desc.
func walkManifests(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, depth int, fn func(ocispec.Descriptor) error) error {
	nodes := 0
	return walkNodes(ctx, src, desc, depth, &nodes, func(d ocispec.Descriptor, _ *node) error { return fn(d) })
}

// walkNodes calls fn for the manifests below desc and then for desc, each as
// often as it is named. nodes counts the descriptors.
func walkNodes(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, depth int, nodes *int, fn func(ocispec.Descriptor, *node) error) error {
	if depth > maxNesting {
		return refusal(Hostile, desc.Digest, "indexes are nested deeper than %d", maxNesting)
	}
	data, err := fetchManifest(ctx, src, desc)
	if err != nil {
		return err
	}
	var n node
	if err := strictJSON(data, &n); err != nil {
		return refusal(Hostile, desc.Digest, "not a manifest: %v", err)
	}
	if *nodes += 2 + len(n.Layers) + len(n.Manifests); *nodes > maxNodes {
		return refusal(Hostile, desc.Digest, "more than %d blobs", maxNodes)
	}
	for _, child := range n.Manifests {
		if !isManifest(child.MediaType) {
			return refusal(Hostile, desc.Digest, "the index names a %q", clip(child.MediaType))
		}
		if err := walkNodes(ctx, src, child, depth+1, nodes, fn); err != nil {
			return err
		}
	}
	return fn(desc, &n)
}

// fetchManifest reads a manifest or index and checks its digest.
func fetchManifest(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) ([]byte, error) {
	if err := checkDescriptor(desc); err != nil {
		return nil, err
	}
	if desc.Size > maxManifest {
		return nil, refusal(Hostile, desc.Digest, "a manifest of %d bytes is over the limit of %d", desc.Size, maxManifest)
	}
	r, err := src.Fetch(ctx, desc)
	if err != nil {
		return nil, fetchError(desc, err)
	}
	defer r.Close()
	var data bytes.Buffer
	if _, err := data.ReadFrom(io.LimitReader(r, desc.Size+1)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", desc.Digest, err)
	}
	if int64(data.Len()) != desc.Size || desc.Digest.Algorithm().FromBytes(data.Bytes()) != desc.Digest {
		return nil, refusal(Tampered, desc.Digest, "its bytes do not match its digest")
	}
	return data.Bytes(), nil
}

// checkDescriptor refuses digests that cannot be checked and negative sizes.
func checkDescriptor(d ocispec.Descriptor) error {
	if err := d.Digest.Validate(); err != nil {
		return refusal(Hostile, digest.Digest(clip(d.Digest.String())), "%v", err)
	}
	if d.Size < 0 {
		return refusal(Hostile, d.Digest, "a size of %d", d.Size)
	}
	return nil
}

// fetchError distinguishes a missing blob, and one of another length, from a
// failed source.
func fetchError(desc ocispec.Descriptor, err error) error {
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return refusal(Missing, desc.Digest, "blob not found")
	case errors.Is(err, artifact.ErrCorrupt), errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrInvalidDescriptorSize):
		return refusal(Tampered, desc.Digest, "%v", err)
	}
	return fmt.Errorf("fetching %s: %w", desc.Digest, err)
}

// refusal returns a refusal about one blob.
func refusal(reason Reason, d digest.Digest, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Subject: d, Detail: fmt.Sprintf(format, args...), Hint: reason.hint()}
}
