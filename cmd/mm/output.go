package main

import (
	"io"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/workspace"
)

// listed returns list, or an empty list if it is nil: JSON then shows [] instead of
// null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// show prints v as JSON if --json is set, otherwise as text, unless making it failed.
func show[T any](p *program, v T, err error, text func(T) error) error {
	if err != nil {
		return err
	}
	return p.PrintOr(v, func() error { return text(v) })
}

// silently prints v as JSON if --json is set, otherwise nothing, unless making it failed.
func (p *program) silently(v any, err error) error {
	return show(p, v, err, func(any) error { return nil })
}

// written prints v as JSON if --json is set, otherwise as it writes itself, unless making it
// failed.
func written[T interface{ Write(io.Writer) error }](p *program, v T, err error) error {
	return show(p, v, err, func(v T) error { return v.Write(p.Stdout) })
}

// printRows prints list as JSON if --json is set, otherwise as a table with a row
// for each element.
func printRows[T any](p *program, list []T, heading []string, row func(T) []string) error {
	return p.PrintOr(listed(list), func() error { return p.PrintTable(heading, rowsOf(list, row)) })
}

// rowsOf returns a row for each element of list.
func rowsOf[T any](list []T, row func(T) []string) (rows [][]string) {
	for _, e := range list {
		rows = append(rows, row(e))
	}
	return rows
}

// size formats a number of bytes.
func size(n int64) string { return fsx.FormatSize(n) }

// short abbreviates a digest.
func short(digest string) string { return diag.Short(digest) }

// features opens the cache of encoded inputs. If off, or if the folder is not
// usable, the result is nil.
func (p *program) features(w *workspace.Workspace, off bool) *media.VectorCache {
	dir := ""
	if !off {
		dir = w.FeatureDir()
	}
	if dir == "" {
		return nil
	}
	f, err := media.OpenVectorCache(dir, 0)
	if err != nil {
		p.Note("%v", err)
	}
	return f
}
