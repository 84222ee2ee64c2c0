package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"regexp"
	"runtime"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/skills/sandbox"
)

const (
	maxDocument = 4 << 20 // bytes of a manifest or a config
	maxLayers   = 128
	maxPacked   = 1 << 30 // bytes of one compressed layer
)

// Docker media types, the older names of the OCI ones.
const (
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerConfig   = "application/vnd.docker.container.image.v1+json"
	dockerLayer    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// pinned matches the digest of a reference.
var pinned = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`@sha256:([0-9a-f]{64})$`) })

var hexadecimal = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

// digest returns the digest of an image reference. A name or a tag alone may
// refer to other bytes later.
func digest(ref string) (string, error) {
	m := pinned().FindStringSubmatch(ref)
	if m == nil {
		return "", sandbox.Refuse("image %s has no digest: mm skill image %s fetches it and prints the name with @sha256:…", ref, ref)
	}
	return m[1], nil
}

// hexDigest returns the hash of a digest in a document, which is untrusted.
func hexDigest[T ~string](d T) string { return strings.TrimPrefix(string(d), "sha256:") }

// image holds the documents of an image.
type image struct {
	config ocispec.Image
	layers []ocispec.Descriptor
}

// read reads manifest and config of an image by its digest; of an index, those
// for this machine.
func (e *Executor) read(ctx context.Context, sha string) (*image, error) {
	var doc struct {
		MediaType string               `json:"mediaType"`
		Manifests []ocispec.Descriptor `json:"manifests"`
		Config    ocispec.Descriptor   `json:"config"`
		Layers    []ocispec.Descriptor `json:"layers"`
	}
	if err := e.document(ctx, sha, &doc); err != nil {
		return nil, err
	}
	if doc.MediaType == ocispec.MediaTypeImageIndex || doc.MediaType == dockerIndex || doc.Manifests != nil {
		d, err := here(doc.Manifests)
		if err != nil {
			return nil, err
		}
		doc.Manifests = nil
		if err := e.document(ctx, d, &doc); err != nil {
			return nil, err
		}
		if doc.Manifests != nil {
			return nil, sandbox.Refuse("index of indexes")
		}
	}
	if t := doc.Config.MediaType; t != ocispec.MediaTypeImageConfig && t != dockerConfig {
		return nil, sandbox.Refuse("not an image: config type %q", t)
	}
	if len(doc.Layers) == 0 || len(doc.Layers) > maxLayers {
		return nil, sandbox.Refuse("got %d layers, want 1 to %d", len(doc.Layers), maxLayers)
	}
	i := &image{layers: doc.Layers}
	if err := e.document(ctx, hexDigest(doc.Config.Digest), &i.config); err != nil {
		return nil, err
	}
	if i.config.OS != "linux" || i.config.Architecture != runtime.GOARCH {
		return nil, sandbox.Refuse("image is for %s/%s, this machine runs linux/%s", i.config.OS, i.config.Architecture, runtime.GOARCH)
	}
	if n := len(i.config.RootFS.DiffIDs); n != len(i.layers) {
		return nil, sandbox.Refuse("config has %d layers, manifest %d", n, len(i.layers))
	}
	return i, nil
}

// here returns the digest of the index entry for this machine.
func here(list []ocispec.Descriptor) (string, error) {
	var have []string
	for _, d := range list {
		p := d.Platform
		if p == nil {
			continue
		}
		if p.OS == "linux" && p.Architecture == runtime.GOARCH {
			return hexDigest(d.Digest), nil
		}
		have = append(have, p.OS+"/"+p.Architecture)
	}
	return "", sandbox.Refuse("image is for %s, not for linux/%s", strings.Join(have, ", "), runtime.GOARCH)
}

// document reads a JSON document by its digest.
func (e *Executor) document(ctx context.Context, sha string, into any) error {
	b, err := e.open(ctx, sha)
	if err != nil {
		return err
	}
	defer b.Close()
	data, err := io.ReadAll(io.LimitReader(b, maxDocument+1))
	if err != nil {
		return fmt.Errorf("reading sha256:%s: %w", sha, err)
	}
	if len(data) > maxDocument {
		return sandbox.Refuse("sha256:%s exceeds %d bytes", sha, maxDocument)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != sha {
		return sandbox.Refuse("stored bytes of sha256:%s have another hash", sha)
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(into); err != nil {
		return sandbox.Refuse("sha256:%s is not an image document: %v", sha, err)
	}
	return nil
}

// open opens a blob; a missing blob is refused.
func (e *Executor) open(ctx context.Context, sha string) (io.ReadCloser, error) {
	if !hexadecimal().MatchString(sha) {
		return nil, sandbox.Refuse("%.80q is not a SHA-256", sha)
	}
	b, err := e.opt.Blob(ctx, sha)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sandbox.Refuse("sha256:%s is not in the store: mm skill image NAME@sha256:… fetches an image", sha)
	}
	return b, err
}

// checked hashes what is read, up to a limit.
type checked struct {
	r    io.Reader
	sum  hash.Hash
	left int64
}

func check(r io.Reader, limit int64) *checked { return &checked{r, sha256.New(), limit} }

// errLarge ends the reading of a layer that exceeds its limit.
var errLarge = errors.New("layer too large")

// Read implements io.Reader.
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errLarge
	}
	c.sum.Write(p[:n])
	return n, err
}

// is reads the rest and compares the hash.
func (c *checked) is(sha string) error {
	if _, err := io.Copy(io.Discard, c); err != nil {
		return err
	}
	if got := hex.EncodeToString(c.sum.Sum(nil)); got != sha {
		return fmt.Errorf("got sha256:%s, want sha256:%s", got, sha)
	}
	return nil
}
