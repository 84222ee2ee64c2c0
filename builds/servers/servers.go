// Package servers writes builds in the forms of inference servers. [Repository] lays
// the ONNX functions of a build out for Triton or OpenVINO Model Server, [Web] for a page
// that runs them in a browser, [Core] writes its core as a folder of transformers for vLLM,
// and [Manifest] describes a published image or artifact for KServe, Kubernetes or Docker
// Compose.
// Everything is checked before a file is written, and the bytes depend on the build alone.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Kind is a server or an orchestrator.
type Kind string

// The kinds.
const (
	Triton     Kind = "triton"
	OVMS       Kind = "ovms"
	KServe     Kind = "kserve"
	Kubernetes Kind = "k8s"
	Compose    Kind = "compose"
	VLLM       Kind = "vllm"
)

// Kinds lists the kinds.
func Kinds() []Kind { return []Kind{Compose, Kubernetes, KServe, OVMS, Triton, VLLM} }

// Published reports whether the kind refers to an artifact at a registry and has none
// of its files.
func (k Kind) Published() bool { return k == KServe || k == Kubernetes || k == Compose }

// File is one file of an export.
type File struct {
	Path string // below the folder, slash separated
	Text []byte
	From string // file of the build with the bytes. Empty: Text
}

// Opener opens the files of a build.
type Opener interface {
	Open(name string) (*os.File, error)
}

// Write writes the files to dir, which must be absent or empty. After an error the
// files written before remain.
func Write(ctx context.Context, dir string, files []File, from Opener) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s: got a folder with files, want an empty or a new one: %w", dir, fs.ErrExist)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, f := range files {
		if err := f.write(ctx, d, from); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return nil
}

func (f File) write(ctx context.Context, d *fsx.Dir, from Opener) (err error) {
	if below := path.Dir(f.Path); below != "." {
		if err := d.MkdirAll(below, 0o755); err != nil {
			return err
		}
	}
	out, err := d.Create(f.Path, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if f.From == "" {
		_, err = out.Write(f.Text)
		return err
	}
	in, err := from.Open(f.From)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(out, fsx.Reader{Context: ctx, R: in})
	return err
}

// sorted sorts files by path.
func sorted(files []File) []File {
	slices.SortFunc(files, func(a, b File) int {
		switch {
		case a.Path < b.Path:
			return -1
		case a.Path > b.Path:
			return 1
		}
		return 0
	})
	return files
}

// fault adds a diagnostic of a build that a server cannot hold.
func fault(list *diag.List, detail, hint string) {
	list.Add(diag.NotServed, diag.Pos{}, detail, hint)
}
