// Package assemble turns a graph into signed OCI artifacts.
//
// [Assemble] is an ordered list of steps; read it as the table of contents:
//
//	validate   the graph alone
//	resolve    references become modules in the store, pinned by the lock
//	check      do the modules fit each other, and their weights the manifests
//	export     each target's files, quantised and checked
//	compose    a ModelPack manifest per target, an index over them
//	sign       every manifest and the index
//	publish    names in the store, the output folder
//
// A step sees what the steps before it left in the build and stops the run
// with diagnostics. Nothing has a name and nothing under the output folder
// changes before publish, which exchanges whole folders. The same inputs give the same
// digests: no clock is read, everything is sorted.
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

// Resolver finds the modules that a graph's references mean and brings them
// into the store.
type Resolver interface {
	Resolve(ctx context.Context, g *builds.Graph) (map[string]*resolve.Module, *builds.Lock, error)
}

// Signer attaches release signatures to a manifest, or to an index and every
// manifest below it, and returns the manifests of the signatures.
type Signer interface {
	Sign(ctx context.Context, store *registry.Store, subject ocispec.Descriptor) ([]ocispec.Descriptor, error)
}

// Options for Assemble.
type Options struct {
	Graph     string          // path of the build.graph.yaml
	Out       string          // folder that becomes an OCI layout with a folder a target. Empty: the store only
	Target    string          // one of the graph's targets. Empty: all of them
	Exports   []string        // "gguf=int4,kv=fp8", "onnx=a,b": exports in place of the graph's. Nil: the graph's
	KeepGoing bool            // build the targets that can be built. False: one that cannot stops the run
	Store     *registry.Store // where blobs and results go
	Cache     string          // folder that remembers exported files. Empty: export anew each time
	Resolver  Resolver        // where modules come from
	Exporters []Exporter      // the formats that can be written, one of each
	Signer    Signer          // nil: the result stays unsigned
	Created   *time.Time      // SOURCE_DATE_EPOCH; nil: no time is written
	Force     bool            // move a version that other bytes have. False: only an unsigned build gives way
	Untagged  bool            // leave the store's names alone: the result is known by its digest
	Progress  func(step, detail string)
}

// Result is what Assemble made.
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

// TargetResult is one target of a Result.
type TargetResult struct {
	Target string `json:"target"`
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// build carries one run from step to step.
type build struct {
	opt     Options
	graph   *builds.Graph
	source  []byte // the graph's own bytes
	modules map[string]*resolve.Module
	weights map[string][]string // paths of each module's weights, in all formats
	lock    *builds.Lock
	targets []*target
	// keepVersion leaves the version's name in the store to the build that has
	// it: this one is of some of the targets.
	keepVersion bool
	list        diag.List
	result      *Result
}

// target is one export target on its way.
type target struct {
	name     string
	spec     builds.Target
	assembly *builds.Assembly
	layers   []artifact.Layer
	desc     ocispec.Descriptor
}

// step is one line of the table of contents.
type step struct {
	name string
	run  func(*build, context.Context) error
}

var steps = []step{
	{"validate", (*build).validate}, // a graph with faults costs no download
	{"resolve", (*build).resolve},   // from here on every module is bytes with a digest
	{"check", (*build).check},       // misfits are told before hours of quantising
	{"export", (*build).export},     // the expensive step; its files are remembered
	{"compose", (*build).compose},   // only whole targets get a manifest
	{"sign", (*build).sign},         // a signature is over digests
	{"publish", (*build).publish},   // last: only whole, signed builds get a name
}

// Assemble runs the steps. Diagnostics that do not stop the run are in the
// result; those that do come as a diag.Faults.
func Assemble(ctx context.Context, opt Options) (*Result, error) {
	b := &build{opt: opt, result: &Result{}}
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

// fail adds the diagnostics met so far to those that err carries.
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
