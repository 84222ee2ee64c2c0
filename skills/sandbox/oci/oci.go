// Package oci runs skills that are OCI images.
//
// An image is named by its digest and read from the store: manifest, config
// and layers, each hashed while it is read. The layers are merged in memory:
// their names, links and whiteouts are untrusted, and none becomes a path on
// disk before all of them are known. The result is written once, below a
// folder that only this user can access.
//
// There is no daemon and no other program: the image's entry point is a native
// program with the image as its read-only root, in the sandbox of the process
// executor, which enforces the limits. User, volumes and ports of the image
// are ignored. The format follows the OCI image-spec 1.1.
package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/skills/sandbox"
)

// Options configures an executor.
type Options struct {
	Dir string // folder of unpacked images, created for this user only
	// Blob opens the bytes with a SHA-256 in lower-case hex, or returns
	// fs.ErrNotExist. The executor verifies them.
	Blob     func(ctx context.Context, sha256 string) (io.ReadCloser, error)
	Programs sandbox.Executor // executor of native programs
}

// Executor is a sandbox.Executor of images.
type Executor struct {
	opt Options
	mu  sync.Mutex // serializes unpacking
}

// New returns an executor. It reads nothing.
func New(opt Options) *Executor { return &Executor{opt: opt} }

// Prepare implements sandbox.Executor. It unpacks the image of p.Ref unless
// that was done before; p.Args follow the image's command.
func (e *Executor) Prepare(ctx context.Context, p sandbox.Program) (sandbox.Guest, error) {
	if _, err := sandbox.Check(p); err != nil {
		return nil, err
	}
	sha, err := digest(p.Ref)
	if err != nil {
		return nil, err
	}
	root, run, err := e.ensure(ctx, sha)
	if err != nil {
		var fault *sandbox.Fault
		if errors.As(err, &fault) {
			return nil, sandbox.Refuse("image %s: %v", p.Ref, err)
		}
		return nil, err
	}
	p.Image = &sandbox.Image{Root: root, Path: run.Path, Name: run.Args[0], Dir: run.Dir, Env: run.Env}
	p.Args = append(run.Args[1:len(run.Args):len(run.Args)], p.Args...)
	return e.opt.Programs.Prepare(ctx, p)
}

// ensure returns the root of an image on disk and its plan.
func (e *Executor) ensure(ctx context.Context, sha string) (root string, p *plan, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	dir, err := fsx.Create(e.opt.Dir, 0o700, fsx.Options{})
	if err != nil {
		return "", nil, fmt.Errorf("creating the folder of images: %w", err)
	}
	defer dir.Close()
	if err := sandbox.Private(e.opt.Dir, "programs"); err != nil {
		return "", nil, err
	}
	at, err := filepath.Abs(filepath.Join(e.opt.Dir, sha))
	if err != nil {
		return "", nil, err
	}
	p, err = readPlan(at)
	if errors.Is(err, fs.ErrNotExist) {
		p, err = e.keep(ctx, dir, sha)
	}
	return filepath.Join(at, rootDir), p, err
}

// readPlan reads the plan of an unpacked image, or returns fs.ErrNotExist.
func readPlan(at string) (*plan, error) {
	data, err := fsx.ReadFile(filepath.Join(at, planFile), maxDocument)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	if err := json.Unmarshal(data, p); err != nil || len(p.Args) == 0 {
		return nil, fmt.Errorf("%s is damaged: remove the folder", at)
	}
	return p, nil
}

// keep unpacks an image atomically.
func (e *Executor) keep(ctx context.Context, dir *fsx.Dir, sha string) (p *plan, err error) {
	i, err := e.read(ctx, sha)
	if err != nil {
		return nil, err
	}
	scratch, done, err := dir.Scratch(ctx)
	if err != nil {
		return nil, fmt.Errorf("unpacking an image: %w", err)
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := scratch.MkdirAll(sha, 0o755); err != nil {
		return nil, err
	}
	into, err := fsx.Open(filepath.Join(scratch.Path(), sha), fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer into.Close()
	if p, err = e.unpack(ctx, i, into); err != nil {
		return nil, err
	}
	text, err := p.encode()
	if err != nil {
		return nil, err
	}
	if err := into.WriteFile(planFile, text, 0o644); err != nil {
		return nil, err
	}
	name, err := filepath.Rel(dir.Path(), into.Path())
	if err != nil {
		return nil, err
	}
	if err := dir.Rename(filepath.ToSlash(name), sha); err != nil {
		if other, err := readPlan(filepath.Join(dir.Path(), sha)); err == nil {
			return other, nil // another process was faster
		}
		return nil, fmt.Errorf("storing an image: %w", err)
	}
	return p, dir.SyncDir(".")
}
