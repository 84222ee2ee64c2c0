// Package oci runs skills that are OCI images.
//
// An image is named by its digest and comes out of the store: manifest, config
// and layers, each hashed when it is read. The layers are put over each other in
// memory (a layer's names, links and whiteouts are a stranger's: none of them is
// ever a path on this machine's disk before all of them are known) and what
// comes of it is written below a folder that is this user's alone, once.
//
// There is no daemon and no other program: the image's entry point is a native
// program with the image as its root, read-only, behind the walls of the process
// executor, which enforce the limits. Nothing of them is the image's to say: its
// user, volumes and ports are not looked at. Source of the format: OCI
// image-spec 1.1.
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

// Options of an executor.
type Options struct {
	Dir string // where unpacked images are kept; it is made, and this user's alone
	// Blob opens the bytes that have a SHA-256, in lower-case hex; fs.ErrNotExist
	// where there are none. They need not be believed.
	Blob     func(ctx context.Context, sha256 string) (io.ReadCloser, error)
	Programs sandbox.Executor // what a native program runs under: process
}

// Executor is a sandbox.Executor of images.
type Executor struct {
	opt Options
	mu  sync.Mutex // while an image is unpacked
}

// New makes an executor. It reads nothing.
func New(opt Options) *Executor { return &Executor{opt: opt} }

// Prepare implements sandbox.Executor. The image of p.Ref is unpacked unless it
// lies there already; p.Args follow its command.
func (e *Executor) Prepare(ctx context.Context, p sandbox.Program) (sandbox.Guest, error) {
	if _, err := sandbox.Check(p); err != nil {
		return nil, err
	}
	sha, err := digest(p.Ref)
	if err != nil {
		return nil, err
	}
	root, run, err := e.unpacked(ctx, sha)
	if err != nil {
		var fault *sandbox.Fault
		if errors.As(err, &fault) {
			return nil, sandbox.Refuse("the image %s: %v", p.Ref, err)
		}
		return nil, err
	}
	p.Image = &sandbox.Image{Root: root, Path: run.Path, Name: run.Args[0], Dir: run.Dir, Env: run.Env}
	p.Args = append(run.Args[1:len(run.Args):len(run.Args)], p.Args...)
	return e.opt.Programs.Prepare(ctx, p)
}

// unpacked is the root of an image on disk, and how it is run.
func (e *Executor) unpacked(ctx context.Context, sha string) (root string, p *plan, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	dir, err := fsx.Create(e.opt.Dir, 0o700, fsx.Options{})
	if err != nil {
		return "", nil, fmt.Errorf("keeping images: %w", err)
	}
	defer dir.Close()
	if err := sandbox.Private(e.opt.Dir, "programs"); err != nil {
		return "", nil, err
	}
	at, err := filepath.Abs(filepath.Join(e.opt.Dir, sha))
	if err != nil {
		return "", nil, err
	}
	p, err = kept(at)
	if errors.Is(err, fs.ErrNotExist) {
		p, err = e.keep(ctx, dir, sha)
	}
	return filepath.Join(at, rootDir), p, err
}

// kept reads the plan of an image that was unpacked; fs.ErrNotExist where it was
// not.
func kept(at string) (*plan, error) {
	data, err := fsx.ReadFile(filepath.Join(at, planFile), maxDocument)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	if err := json.Unmarshal(data, p); err != nil || len(p.Args) == 0 {
		return nil, fmt.Errorf("%s was damaged: remove the folder", at)
	}
	return p, nil
}

// keep unpacks an image; it is there whole or not at all.
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
		if other, found := kept(filepath.Join(dir.Path(), sha)); found == nil {
			return other, nil // another process was first
		}
		return nil, fmt.Errorf("keeping an image: %w", err)
	}
	return p, dir.SyncDir(".")
}
