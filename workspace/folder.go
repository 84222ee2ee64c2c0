package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/sign"
)

// compareFolder compares the files of a target's folder with the artifact.
func compareFolder(ctx context.Context, at *Located) error {
	root, err := os.OpenRoot(at.folder)
	if err != nil {
		return err
	}
	defer root.Close()
	var list diag.List
	for _, l := range at.tree.Parts[0].Artifact.Layers {
		if err := compareFile(ctx, root, at.store, l); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			list.Add(diag.Tampered, diag.Pos{File: filepath.Join(at.ref, l.Path)}, err.Error(), "assemble it again, or use the layout around the folder")
		}
	}
	return list.Err()
}

// warnUnknown names the files of a target's folder that the artifact does not have.
// mm does not read them, but other programs that use the folder may.
func (w *Workspace) warnUnknown(at *Located) error {
	released := map[string]bool{assemble.SumsFile: true}
	for _, l := range at.tree.Parts[0].Artifact.Layers {
		released[l.Path] = true
	}
	return filepath.WalkDir(at.folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(at.folder, path)
		if err == nil && !released[filepath.ToSlash(rel)] {
			w.say("warning: %s is not a file of the release", path)
		}
		return err
	})
}

// compareFile compares one file with its blob: by its identity, where the
// folder shares it with the layout, by its bytes elsewhere.
func compareFile(ctx context.Context, root *os.Root, s *registry.Store, l artifact.Layer) error {
	name := filepath.FromSlash(l.Path)
	info, err := root.Lstat(name)
	if err != nil {
		return errors.New("the file is missing")
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	if blob, err := os.Stat(s.BlobPath(l.Descriptor)); err == nil && os.SameFile(info, blob) {
		return nil // hashed with the layout
	}
	if info.Size() != l.Descriptor.Size {
		return fmt.Errorf("it has %d bytes, %d were released", info.Size(), l.Descriptor.Size)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	r := content.NewVerifyReader(io.LimitReader(f, l.Descriptor.Size+1), l.Descriptor)
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	if err := r.Verify(); err != nil {
		return errors.New("its bytes are not those that were released")
	}
	return ctx.Err()
}

// explainBytes adds the hint to a refusal of damaged bytes.
func explainBytes(err error, s *registry.Store) error {
	var r *sign.Refusal
	if !errors.As(err, &r) || r.Reason != sign.Tampered {
		return err
	}
	explained := *r
	explained.Hint = "mm fsck --repair removes the damaged blob; then pull or assemble it again"
	return &explained
}
