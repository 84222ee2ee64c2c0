package train

import (
	"errors"
	"fmt"
)

// Fault is an error in a configuration with its location.
type Fault struct {
	Path string // JSON pointer of the value, such as /freeze/layers
	Err  error
}

// Error returns the text of the error.
func (f Fault) Error() string { return f.Err.Error() }

// Unwrap returns the error.
func (f Fault) Unwrap() error { return f.Err }

// At locates err at path. An inner fault keeps its path, and nil stays nil.
func At(path string, err error) error {
	if err == nil {
		return nil
	}
	return Fault{path, err}
}

// Atf returns a fault with a formatted text.
func Atf(path, format string, args ...any) error { return At(path, fmt.Errorf(format, args...)) }

// Faults lists the faults of a configuration in err, each with its most precise
// path. It returns nil if err contains none.
func Faults(err error) []Fault {
	var all []Fault
	collect(err, "", &all)
	return all
}

// collect walks the tree of err below place.
func collect(err error, place string, all *[]Fault) {
	var inner Fault
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
	if errors.As(err, &inner) { // wrapped further down
		place = inner.Path
	}
	if err != nil && place != "" {
		*all = append(*all, Fault{place, err})
	}
}
