// Package admit is the door that an ONNX model passes before an engine, our
// own or a native library, sees any of it.
//
// [File] reads the model, applies every check of package onnx to it and to
// the files of its external data, and maps those files: what comes out holds
// all its weights. Which files the model may name, and where they lie, is the
// caller's to say ([Options].Open); [Folder] and [Named] are the two ways.
package admit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
)

// Opener opens a file of external data by its location. What the model may not
// have is an error; onnx.ErrLinked where the file has another name.
type Opener func(location string) (*os.File, error)

// Options say what a model may have. The zero value is a model that holds all
// its weights.
type Options struct {
	onnx.CheckOptions // External is Open's
	Open              Opener
}

// Refused is a model that breaks rules.
type Refused struct {
	Problems []onnx.Problem // the faults, without warnings
}

// Error tells the faults, one a line.
func (r *Refused) Error() string {
	lines := make([]string, len(r.Problems))
	for i, p := range r.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// File reads and checks the model at path and gives it its external data. A
// model with faults is [Refused].
func File(path string, opt Options) (*onnx.Model, error) {
	m, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	open := opt.Open
	if open == nil {
		open = func(string) (*os.File, error) { return nil, fs.ErrNotExist }
	}
	opt.External = open.Size
	if faults := faultsOf(m.Check(opt.CheckOptions)); len(faults) > 0 {
		return nil, errors.Join(&Refused{faults}, m.Close())
	}
	if err := m.Attach(open); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), m.Close())
	}
	return m, nil
}

func faultsOf(problems []onnx.Problem) []onnx.Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p onnx.Problem) bool { return p.Warning })
}

// Size is the size of the file at a location.
func (o Opener) Size(location string) (int64, error) {
	f, err := o(location)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Folder opens files below a folder that anybody may have written: plain files
// with one name each, and only those that declared allows; nil allows all.
func Folder(dir string, declared func(location string) bool) Opener {
	return func(location string) (*os.File, error) {
		if err := onnx.CheckLocation(location); err != nil {
			return nil, err
		}
		if declared != nil && !declared(location) {
			return nil, fs.ErrNotExist
		}
		f, err := fsx.OpenPlain(dir, location)
		if errors.Is(err, fsx.ErrLinked) {
			return nil, fmt.Errorf("%w: %w", onnx.ErrLinked, err)
		}
		return f, err
	}
}

// Named opens the files that a part of a build names. names are their paths in
// the build, the model's first, which locations are relative to; where says
// where one lies on disk. Files that are sealed, held to their digests by a
// store, may have any number of names there.
func Named(names []string, where func(name string) (string, error), sealed bool) Opener {
	return func(location string) (*os.File, error) {
		if err := onnx.CheckLocation(location); err != nil {
			return nil, err
		}
		name := path.Join(path.Dir(names[0]), location)
		if !slices.Contains(names[1:], name) {
			return nil, fs.ErrNotExist
		}
		file, err := where(name)
		if err != nil {
			return nil, err
		}
		if sealed {
			return fsx.OpenRegular(file)
		}
		model, err := where(names[0])
		if err != nil {
			return nil, err
		}
		// Folders on the way from the model to the file may be no links either.
		if dir := filepath.Dir(model); file == filepath.Join(dir, filepath.FromSlash(location)) {
			return Folder(dir, nil)(location)
		}
		return Folder(filepath.Dir(file), nil)(filepath.Base(file))
	}
}
