// Package assemble builds a graph into signed OCI artifacts.
//
// [Assemble] is an ordered list of steps:
//
//	validate   the graph alone
//	resolve    references become modules in the store, pinned by the lock
//	check      the modules match each other, and their weights the manifests
//	export     each target's files, quantized and checked
//	compose    a ModelPack manifest per target, an index over them
//	sign       every manifest and the index
//	publish    names in the store, the output folder
//
// A step uses the results of previous steps and stops the run with diagnostics.
// Nothing gets a name, and the output folder does not change, before publish, which
// exchanges complete folders. The same inputs give the same digests: no clock is
// read, and everything is sorted.
package assemble

import (
	"context"
	"fmt"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// Resolver resolves the references of a graph to modules in the store.
type Resolver interface {
	Resolve(ctx context.Context, g *builds.Graph) (map[string]*resolve.Module, *builds.Lock, error)
}

// Signer attaches release signatures to a manifest, or to an index and all its
// manifests, and returns the manifests of the signatures.
type Signer interface {
	Sign(ctx context.Context, store *registry.Store, subject ocispec.Descriptor) ([]ocispec.Descriptor, error)
}

// Options configures Assemble.
type Options struct {
	Graph     string          // path of the build.graph.yaml
	Out       string          // output folder: an OCI layout, with a folder per target; if empty, only the store
	Target    string          // a target of the graph; if empty, all
	Exports   []string        // exports replacing the graph's, such as "gguf=int4,kv=fp8", "onnx=a,b"; if nil, the graph's
	KeepGoing bool            // skip targets that cannot be built; otherwise they are an error
	Store     *registry.Store // store of blobs and results
	Cache     string          // folder of cached exports; if empty, nothing is cached
	Resolver  Resolver        // source of modules
	Exporters []Exporter      // supported formats, one exporter each
	Signer    Signer          // if nil, the result is not signed
	Created   *time.Time      // SOURCE_DATE_EPOCH; if nil, no time is written
	Force     bool            // overwrite a version; otherwise, only an unsigned build is replaced
	Untagged  bool            // do not name the result in the store
	Progress  func(step, detail string)
}

// Result is the result of Assemble.
type Result struct {
	Name        string             `json:"name"`
	Version     string             `json:"version"`
	Ref         string             `json:"ref"` // name:version in the store
	Digest      string             `json:"digest"`
	Out         string             `json:"out,omitempty"`
	Targets     []TargetResult     `json:"targets"`
	Signatures  []string           `json:"signatures,omitempty"`
	Diagnostics diag.List          `json:"diagnostics,omitempty"`
	Descriptor  ocispec.Descriptor `json:"-"`
	Lock        *builds.Lock       `json:"-"`
}

// TargetResult is a target of a Result.
type TargetResult struct {
	Target string `json:"target"`
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// build holds the state of a run.
type build struct {
	opt     Options
	graph   *builds.Graph
	source  []byte // content of the graph
	modules map[string]*resolve.Module
	weights map[string][]string // weight files of each module, in all formats
	lock    *builds.Lock
	targets []*target
	// keepVersion leaves the version's name in the store to the existing build,
	// since this one has only some of the targets.
	keepVersion bool
	list        diag.List
	result      *Result
	warned      map[string]bool // modules whose missing license texts were reported
}

// target is an export target under construction.
type target struct {
	name     string
	spec     builds.Target
	assembly *builds.Assembly
	layers   []artifact.Layer
	desc     ocispec.Descriptor
}

// step is a step of a build.
type step struct {
	name string
	run  func(*build, context.Context) error
}

var steps = []step{
	{"validate", (*build).validate}, // a faulty graph costs no download
	{"resolve", (*build).resolve},   // afterwards, every module has a digest
	{"check", (*build).check},       // mismatches are reported before hours of quantization
	{"export", (*build).export},     // the expensive step; its results are cached
	{"compose", (*build).compose},   // only complete targets get a manifest
	{"sign", (*build).sign},         // signatures cover digests
	{"publish", (*build).publish},   // last: only complete, signed builds get a name
}

// Assemble runs the steps. Warnings and notes are in the result; errors are
// returned as diag.Faults.
func Assemble(ctx context.Context, opt Options) (*Result, error) {
	b := &build{opt: opt, result: &Result{}, warned: map[string]bool{}}
	for _, s := range steps {
		b.say(s.name, "")
		if err := s.run(b, ctx); err != nil {
			return nil, b.fail(s.name, err)
		}
		if b.list.Failed() {
			b.list.Sort()
			return nil, b.list.Err()
		}
	}
	b.list.Sort()
	b.result.Diagnostics = b.list
	return b.result, nil
}

// fail adds the previous diagnostics to those in err.
func (b *build) fail(step string, err error) error {
	if list, ok := diag.From(err); ok {
		b.list = append(b.list, list...)
		b.list.Sort()
		return b.list.Err()
	}
	return fmt.Errorf("%s: %w", step, err)
}

func (b *build) say(step, detail string) {
	if b.opt.Progress != nil {
		b.opt.Progress(step, detail)
	}
}
