package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/schemas"
)

// maxTable bounds a compat.csv and an encoded lock, in bytes.
const maxTable = 16 << 20

// LockOptions for [Workspace.Lock].
type LockOptions struct {
	ResolveOptions
	Check bool // write nothing; files that are out of date are faults
}

// Locked is the result of [Workspace.Lock].
type Locked struct {
	Lock        *builds.Lock
	File        string
	Diagnostics diag.List // warnings
}

// Lock pins the modules of the graph in file to exact bytes: it writes the
// graph's lock and the build's rows of the compatibility table. Up-to-date
// files are not rewritten.
func (w *Workspace) Lock(ctx context.Context, file string, opt LockOptions) (*Locked, error) {
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if err := list.Err(); err != nil {
		return nil, err
	}
	g, list := builds.Parse(file, data)
	if err := list.Err(); err != nil {
		return nil, err
	}
	opt.merge = !opt.Check && !opt.Locked
	r := w.Resolver(opt.ResolveOptions)
	found, lock, err := r.Resolve(ctx, g)
	if err != nil {
		return nil, err
	}
	list = append(list, r.merged...)
	lock.Graph = builds.NewLock(g, data).Graph
	resolved := resolve.Resolved(found)
	list = append(list, g.Check(resolved)...)
	within, err := w.agents(ctx, g, resolved)
	if err != nil {
		return nil, err
	}
	list = append(list, within...)
	if err := list.Err(); err != nil {
		return nil, err
	}
	text, err := lock.Encode()
	if err != nil {
		return nil, err
	}
	compatFile := filepath.Join(filepath.Dir(g.File), builds.CompatFile)
	compat, err := readCompat(compatFile)
	if err != nil {
		return nil, err
	}
	rows := compat.Replace(g.Name, lock.CompatRows(g.Name, "fits"))
	table := rows.Encode()
	for _, f := range []struct {
		path string
		data []byte
		code diag.Code
	}{{g.LockFile(), text, diag.LockStale}, {compatFile, table, diag.CompatWritten}} {
		have, err := fsx.ReadFile(f.path, maxTable)
		switch {
		case err == nil && bytes.Equal(have, f.data):
		case f.path == compatFile && len(rows) == 0 && errors.Is(err, fs.ErrNotExist): // no core, no table
		case opt.Check:
			list.Add(f.code, diag.Pos{File: f.path}, "", "run mm lock "+g.File)
		default:
			if err := fsx.WriteFile(f.path, f.data, 0o644); err != nil {
				return nil, fmt.Errorf("writing %s: %w", f.path, err)
			}
		}
	}
	return &Locked{Lock: lock, File: g.LockFile(), Diagnostics: list}, list.Err()
}

func readCompat(file string) (builds.Compat, error) {
	data, err := fsx.ReadFile(file, maxTable)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return builds.ParseCompat(data)
}
