package onnx

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
)

// Opener opens a file of external data by its location. It returns an error for
// a file that the model may not use; onnx.ErrLinked for a file with several
// names.
type Opener func(location string) (*os.File, error)

// AdmitOptions describes what a model may contain. The zero value allows a model
// without external data.
type AdmitOptions struct {
	CheckOptions // External is set by Admit
	Open         Opener
}

// Refused reports that a model violates rules.
type Refused struct {
	Problems []Problem // the faults, without warnings
}

// Error lists the faults, one a line.
func (r *Refused) Error() string {
	lines := make([]string, len(r.Problems))
	for i, p := range r.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Admit reads and checks the model at path and attaches its external data. For a
// model with faults the error is [Refused].
func Admit(path string, opt AdmitOptions) (*Model, error) {
	m, err := Open(path)
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

func faultsOf(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.Warning })
}

// Size returns the size of the file at a location.
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

// FolderOpener opens files in an untrusted folder: regular files with one name each
// that declared allows; nil allows all.
func FolderOpener(dir string, declared func(location string) bool) Opener {
	return func(location string) (*os.File, error) {
		if err := CheckLocation(location); err != nil {
			return nil, err
		}
		if declared != nil && !declared(location) {
			return nil, fs.ErrNotExist
		}
		f, err := fsx.OpenPlain(dir, location)
		if errors.Is(err, fsx.ErrLinked) {
			return nil, fmt.Errorf("%w: %w", ErrLinked, err)
		}
		return f, err
	}
}

// SiblingOpener opens files in the folder of the model at path, as [FolderOpener]. If the model
// is a link, as in a Hugging Face cache, a file may be a link into the folder of
// the model's target.
func SiblingOpener(model string) Opener {
	dir := filepath.Dir(model)
	plain := FolderOpener(dir, nil)
	return func(location string) (*os.File, error) {
		f, err := plain(location)
		if !errors.Is(err, ErrLinked) {
			return f, err
		}
		if info, failed := os.Lstat(model); failed != nil || info.Mode()&fs.ModeSymlink == 0 {
			return nil, err
		}
		resolved, failed := filepath.EvalSymlinks(model)
		if failed != nil {
			return nil, err
		}
		target, failed := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(location)))
		if failed != nil || filepath.Dir(target) != filepath.Dir(resolved) {
			return nil, err
		}
		return FolderOpener(filepath.Dir(target), nil)(filepath.Base(target))
	}
}

// NamedOpener opens the files of a part of a build. names are their paths in the
// build, the model's first, and locations are relative to it; where returns the
// path of a file on disk. Sealed files, whose digests a store verifies, may
// have any number of names there.
func NamedOpener(names []string, where func(name string) (string, error), sealed bool) Opener {
	return func(location string) (*os.File, error) {
		if err := CheckLocation(location); err != nil {
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
		// No folder between the model and the file may be a link either.
		if dir := filepath.Dir(model); file == filepath.Join(dir, filepath.FromSlash(location)) {
			return SiblingOpener(model)(location)
		}
		return FolderOpener(filepath.Dir(file), nil)(filepath.Base(file))
	}
}
