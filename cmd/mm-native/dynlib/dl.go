// Package dl loads shared libraries of a folder and binds their functions to
// Go's, without cgo.
package dynlib

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is a loaded library. It stays loaded.
type Library struct {
	Path   string
	handle uintptr
}

// Open loads the one file of dir whose name matches a pattern of
// path/filepath; the folder is made absolute, so that nothing is searched for.
func Open(dir string, patterns ...string) (*Library, error) {
	if dir == "" {
		return nil, fmt.Errorf("no folder of libraries is named")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, p := range patterns {
		match, err := filepath.Glob(filepath.Join(dir, p))
		if err != nil {
			return nil, err
		}
		found = append(found, match...)
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) != 1 {
		return nil, fmt.Errorf("%s holds %d files %s, not one", dir, len(found), strings.Join(patterns, " or "))
	}
	h, err := load(found[0])
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", found[0], err)
	}
	return &Library{found[0], h}, nil
}

// Private loads the library at an absolute path, and no other library finds its
// functions through it.
func Private(path string) (*Library, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%q is no absolute path", path)
	}
	h, err := loadPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return &Library{path, h}, nil
}

// Symbol is the address of a function.
func (l *Library) Symbol(name string) (uintptr, error) {
	p, err := symbol(l.handle, name)
	if err != nil || p == 0 {
		return 0, fmt.Errorf("%s has no function %s", l.Path, name)
	}
	return p, nil
}

// Bind sets functions, given by pointers, to the library's of the names.
func (l *Library) Bind(functions map[string]any) error {
	for name, f := range functions {
		p, err := l.Symbol(name)
		if err != nil {
			return err
		}
		purego.RegisterFunc(f, p)
	}
	return nil
}

// String copies a C string; it is empty for none.
func String(address uintptr) string {
	if address == 0 {
		return ""
	}
	n := 0
	for *(*byte)(Pointer(address + uintptr(n))) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(Pointer(address)), n))
}

// Pointer makes an address of C memory usable; the indirection keeps vet from
// taking it for one of Go's.
func Pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
