// Package registry holds mm's local store: one content-addressed OCI image
// layout (oci-layout, index.json, blobs/sha256/…) that any number of processes
// may use at once and that a crash, a full disk or a cut cable cannot leave
// half-written.
package registry

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm/internal/fsx"
)

// ErrCorrupt says that stored bytes do not match their digest or size.
var ErrCorrupt = errors.New("content does not match its digest")

// ErrReadOnly says that the store was opened for reading only.
var ErrReadOnly = errors.New("store is read-only")

// Options for [Open].
type Options struct {
	ReadOnly  bool     // refuse every write and take no lock; the layout must exist. Zero: read and write
	MustExist bool     // fail with errdef.ErrNotFound where no layout is. Zero: create one
	Hook      fsx.Hook // seam for fault tests. Zero: none
}

// Store is an OCI image layout on disk. It is safe for concurrent use by
// goroutines and processes. It is an oras.GraphTarget.
type Store struct{}

// Open opens the layout at dir, creating it where there is none.
func Open(dir string, opt Options) (*Store, error) { return nil, errors.ErrUnsupported }

// Dir returns the folder the store lies in.
func (s *Store) Dir() string { return "" }

// Close releases the store's handle on its folder.
func (s *Store) Close() error { return errors.ErrUnsupported }

// Tag is a reference name and what it points to.
type Tag struct {
	Ref        string
	Descriptor ocispec.Descriptor
}

// Exists reports whether the blob is there with the right size. On a writable
// store a yes also keeps it from [Store.GC] for the grace period.
func (s *Store) Exists(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	return false, errors.ErrUnsupported
}

// Fetch opens the blob (an *os.File). The error is errdef.ErrNotFound where there is none.
func (s *Store) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	return nil, errors.ErrUnsupported
}

// OpenBlob opens the blob's file, for mmap or sendfile, after checking its size.
func (s *Store) OpenBlob(ctx context.Context, desc ocispec.Descriptor) (*os.File, error) {
	return nil, errors.ErrUnsupported
}

// BlobPath returns where the blob lies or would lie; "" for an invalid digest.
func (s *Store) BlobPath(desc ocispec.Descriptor) string { return "" }

// Push stores r as the blob desc describes, checking size and digest. The
// error is errdef.ErrAlreadyExists where the blob is there already.
func (s *Store) Push(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	return errors.ErrUnsupported
}

// Resolve finds what a reference name or a digest points to.
func (s *Store) Resolve(ctx context.Context, ref string) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{}, errors.ErrUnsupported
}

// Tag lets ref point to desc, whose whole content must be in the store.
func (s *Store) Tag(ctx context.Context, desc ocispec.Descriptor, ref string) error {
	return errors.ErrUnsupported
}

// Untag removes the reference name.
func (s *Store) Untag(ctx context.Context, ref string) error { return errors.ErrUnsupported }

// Tags lists every reference name, sorted.
func (s *Store) Tags(ctx context.Context) ([]Tag, error) { return nil, errors.ErrUnsupported }

// Predecessors returns the manifests that point to desc: its referrers, and the
// indexes and manifests that contain it.
func (s *Store) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return nil, errors.ErrUnsupported
}

// Referrers returns the manifests whose subject is desc, with artifact type and
// annotations filled in, sorted by digest; of one artifact type unless that is "".
func (s *Store) Referrers(ctx context.Context, desc ocispec.Descriptor, artifactType string) ([]ocispec.Descriptor, error) {
	return nil, errors.ErrUnsupported
}

// Walk calls fn for desc and for all it reaches through manifests and indexes
// (subjects apart), each once.
func (s *Store) Walk(ctx context.Context, desc ocispec.Descriptor, fn func(ocispec.Descriptor) error) error {
	return errors.ErrUnsupported
}

// AddOptions for [Store.AddFile].
type AddOptions struct {
	MediaType string // of the descriptor. Zero: application/octet-stream
	Link      bool   // hard link and make the source read-only, where the disk allows. Zero: copy
	Rehash    bool   // ignore the digest cache. Zero: trust it
}

// AddFile stores the file at path as a blob.
func (s *Store) AddFile(ctx context.Context, path string, opt AddOptions) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{}, errors.ErrUnsupported
}

// AddBytes stores data as a blob.
func (s *Store) AddBytes(ctx context.Context, mediaType string, data []byte) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{}, errors.ErrUnsupported
}

// Partial is a blob on its way in that survives the process: what was written
// before a kill need not be fetched again.
type Partial struct{}

// Partial opens the resumable ingest of desc, waiting while another process has
// it. The error is errdef.ErrAlreadyExists where the blob is complete.
func (s *Store) Partial(ctx context.Context, desc ocispec.Descriptor) (*Partial, error) {
	return nil, errors.ErrUnsupported
}

// Offset is the number of bytes taken in; the next Write continues there.
func (p *Partial) Offset() int64 { return 0 }

// Write appends b.
func (p *Partial) Write(b []byte) (int, error) { return 0, errors.ErrUnsupported }

// Reset drops what was taken in, so that the next Write starts at 0.
func (p *Partial) Reset() error { return errors.ErrUnsupported }

// Commit checks size and digest and puts the blob into the store. On
// [ErrCorrupt] the bytes are dropped. It closes the Partial.
func (p *Partial) Commit() error { return errors.ErrUnsupported }

// Close keeps what was taken in for the next time. After Commit it does nothing.
func (p *Partial) Close() error { return errors.ErrUnsupported }

// Verify reads the whole blob and compares size and digest, never through a
// cache. The error is [ErrCorrupt] or errdef.ErrNotFound.
func (s *Store) Verify(ctx context.Context, desc ocispec.Descriptor) error {
	return errors.ErrUnsupported
}

// Remove takes a name away: the tag ref, or, where ref is a digest, every entry
// of that manifest and of its referrers. Bytes go with the next [Store.GC].
func (s *Store) Remove(ctx context.Context, ref string) error { return errors.ErrUnsupported }

// GCOptions for [Store.GC].
type GCOptions struct {
	DryRun bool          // report only
	Grace  time.Duration // keep what is younger. Zero: 24 hours; negative: no grace, unsafe beside writers
}

// GCReport says what [Store.GC] removed, or would remove.
type GCReport struct {
	Blobs []digest.Digest `json:"blobs"` // unreachable blobs, sorted
	Bytes int64           `json:"bytes"` // their size
	Temp  int             `json:"temp"`  // leftovers of interrupted work
	Kept  int             `json:"kept"`  // blobs that stay
	Young int             `json:"young"` // unreachable blobs within the grace period
}

// GC removes blobs no tag, index entry or repository reaches, and leftovers.
func (s *Store) GC(ctx context.Context, opt GCOptions) (GCReport, error) {
	return GCReport{}, errors.ErrUnsupported
}

// FsckOptions for [Store.Fsck].
type FsckOptions struct {
	Quick  bool // check presence and sizes only. Zero: hash every blob
	Repair bool // remove corrupt blobs so that they can be fetched again. Zero: report only
}

// Problem is one fault that [Store.Fsck] found.
type Problem struct {
	Digest digest.Digest `json:"digest,omitempty"`
	Ref    string        `json:"ref,omitempty"` // a tag that reaches it
	Path   string        `json:"path,omitempty"`
	Detail string        `json:"detail"`
}

// FsckReport is the outcome of [Store.Fsck]; the store is sound when Problems
// is empty.
type FsckReport struct {
	Tags     int       `json:"tags"`
	Blobs    int       `json:"blobs"`
	Bytes    int64     `json:"bytes"`
	Temp     int       `json:"temp"` // leftovers of interrupted work; harmless
	Problems []Problem `json:"problems"`
}

// Fsck checks the whole store.
func (s *Store) Fsck(ctx context.Context, opt FsckOptions) (FsckReport, error) {
	return FsckReport{}, errors.ErrUnsupported
}

// Artifact is a CNCF ModelPack manifest taken apart: a module, or an assembly
// for one target.
type Artifact struct {
	Name, Version string            // written to the config's descriptor
	Config        ModelConfig       // the ModelPack config
	Annotations   map[string]string // of the manifest
	Layers        []Layer           // one file each
}

// Layer is one file of an artifact.
type Layer struct {
	Path        string             // clean, relative, slash separated
	Descriptor  ocispec.Descriptor // media type, digest, size
	Annotations map[string]string  // abi.Annotation… keys: component, role, version, format, quant
}

// ModelConfig is a ModelPack config
// (application/vnd.cncf.model.config.v1+json, model-spec v0.0.7).
type ModelConfig struct {
	Descriptor ModelDescriptor `json:"descriptor"`
	ModelFS    ModelFS         `json:"modelfs"` // filled in by Pack
	Config     ModelParams     `json:"config"`
}

// ModelDescriptor is the general part of a [ModelConfig].
type ModelDescriptor struct {
	CreatedAt   *time.Time `json:"createdAt,omitempty"` // from SOURCE_DATE_EPOCH; nil: left out
	Authors     []string   `json:"authors,omitempty"`
	Family      string     `json:"family,omitempty"`
	Name        string     `json:"name,omitempty"`
	DocURL      string     `json:"docURL,omitempty"`
	SourceURL   string     `json:"sourceURL,omitempty"`
	DatasetsURL []string   `json:"datasetsURL,omitempty"`
	Version     string     `json:"version,omitempty"`
	Revision    string     `json:"revision,omitempty"`
	Vendor      string     `json:"vendor,omitempty"`
	Licenses    []string   `json:"licenses,omitempty"` // SPDX expressions
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
}

// ModelFS names the layers by the digests of their bare bytes.
type ModelFS struct {
	Type    string          `json:"type"` // "layers"
	DiffIDs []digest.Digest `json:"diffIds"`
}

// ModelParams tells an engine what it gets.
type ModelParams struct {
	Architecture string             `json:"architecture,omitempty"`
	Format       string             `json:"format,omitempty"`
	ParamSize    string             `json:"paramSize,omitempty"`
	Precision    string             `json:"precision,omitempty"`
	Quantization string             `json:"quantization,omitempty"`
	Capabilities *ModelCapabilities `json:"capabilities,omitempty"`
}

// ModelCapabilities says what goes in and what comes out: text, image, audio,
// video, embedding, other.
type ModelCapabilities struct {
	InputTypes  []string `json:"inputTypes,omitempty"`
	OutputTypes []string `json:"outputTypes,omitempty"`
	Reasoning   *bool    `json:"reasoning,omitempty"`
	ToolUsage   *bool    `json:"toolUsage,omitempty"`
	Languages   []string `json:"languages,omitempty"`
}

// Index is an OCI image index over the targets of an assembly.
type Index struct {
	Annotations map[string]string
	Entries     []IndexEntry
}

// IndexEntry is one target of an [Index].
type IndexEntry struct {
	Descriptor ocispec.Descriptor // of the target's manifest
	Target     string             // "laptop"
	Platform   *ocispec.Platform  // nil: any
}

// Pack writes the config and manifest of a to dst, whose layers must be there,
// and returns the manifest's descriptor. Equal artifacts give equal bytes.
func Pack(ctx context.Context, dst content.Pusher, a Artifact) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{}, errors.ErrUnsupported
}

// PackIndex writes an image index over the entries, in their order.
func PackIndex(ctx context.Context, dst content.Pusher, entries []IndexEntry, annotations map[string]string) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{}, errors.ErrUnsupported
}

// ReadArtifact fetches, checks and takes apart the manifest desc.
func ReadArtifact(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (*Artifact, error) {
	return nil, errors.ErrUnsupported
}

// ReadIndex fetches, checks and takes apart the image index desc.
func ReadIndex(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor) (*Index, error) {
	return nil, errors.ErrUnsupported
}

// CheckoutOptions for [Store.Checkout].
type CheckoutOptions struct {
	Only  func(Layer) bool // which layers. Zero: all
	Link  bool             // hard link out of the store where the disk allows; the files are read-only. Zero: copy
	Force bool             // replace files that are there. Zero: refuse
}

// Checkout puts the files of a into dir, each hashed before it is visible, and
// returns their paths below dir. On any fault what it made is removed.
func (s *Store) Checkout(ctx context.Context, a *Artifact, dir string, opt CheckoutOptions) ([]string, error) {
	return nil, errors.ErrUnsupported
}
