package train

import (
	"errors"
	"fmt"
)

// Fault is something wrong with a configuration, and where in it.
type Fault struct {
	Path string // JSON pointer of the value, such as /freeze/layers
	Err  error
}

// Error is what is wrong.
func (f Fault) Error() string { return f.Err.Error() }

// Unwrap is what is wrong.
func (f Fault) Unwrap() error { return f.Err }

// At says where err is; what knows its own place keeps it, and nil stays nil.
func At(path string, err error) error {
	if err == nil {
		return nil
	}
	return Fault{path, err}
}

// Atf is a fault in words.
func Atf(path, format string, args ...any) error { return At(path, fmt.Errorf(format, args...)) }

// Faults lists the faults of a configuration that err tells of, one by one, each
// at the most precise place known; none when err is of another kind.
func Faults(err error) []Fault {
	var all []Fault
	collect(err, "", &all)
	return all
}

// collect walks the tree of err below the place at.
func collect(err error, place string, all *[]Fault) {
	var own Fault
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			collect(e, place, all)
		}
		return
	}
	if f, ok := err.(Fault); ok {
		collect(f.Err, f.Path, all)
		return
	}
	if errors.As(err, &own) { // further down, with words around it
		place = own.Path
	}
	if err != nil && place != "" {
		*all = append(*all, Fault{place, err})
	}
}
