// Package dynlib loads shared libraries from a folder and binds their functions, without
// cgo.
package dynlib

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is a loaded library. It is never unloaded.
type Library struct {
	Path   string
	handle uintptr
}

// Open loads the only file of dir that matches a pattern of path/filepath, by its absolute
// path, so that the system searches no other folders.
func Open(dir string, patterns ...string) (*Library, error) {
	if dir == "" {
		return nil, fmt.Errorf("missing folder of libraries")
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
		return nil, fmt.Errorf("%s: got %d files %s, want 1", dir, len(found), strings.Join(patterns, " or "))
	}
	h, err := load(found[0])
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", found[0], err)
	}
	return &Library{found[0], h}, nil
}

// Private loads the library at an absolute path, without making its functions visible to
// other libraries.
func Private(path string) (*Library, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("path %q is not absolute", path)
	}
	h, err := loadPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return &Library{path, h}, nil
}

// Symbol returns the address of a function.
func (l *Library) Symbol(name string) (uintptr, error) {
	p, err := symbol(l.handle, name)
	if err != nil || p == 0 {
		return 0, fmt.Errorf("%s: missing function %s", l.Path, name)
	}
	return p, nil
}

// Bind sets function pointers to the library's functions of their names.
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

// String copies a C string; it returns "" for a null pointer.
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

// Pointer converts an address of C memory. The indirection keeps vet from reporting a
// misuse of unsafe.Pointer.
func Pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
