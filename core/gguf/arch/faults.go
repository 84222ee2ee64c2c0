package arch

import (
	"errors"
	"fmt"
)

// faults collects errors, up to maxFaults.
type faults []error

// maxFaults limits the length of a message.
const maxFaults = 16

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (f *faults) full() bool { return len(*f) >= maxFaults }

func (f *faults) join() error { return errors.Join(*f...) }
