package sandbox

import (
	"errors"
	"fmt"
)

// Kind says what went wrong with a call. The words stand in what the model is
// told, and keep their meaning.
type Kind string

// The kinds of faults.
const (
	Time     Kind = "time"     // the call took longer than its limit
	Memory   Kind = "memory"   // the guest wanted more than its limit
	Output   Kind = "output"   // it wrote more than its limit, or than the model can read
	Trap     Kind = "trap"     // it broke: an illegal instruction, a panic, its stack
	Exit     Kind = "exit"     // it ended with a code that is not 0
	Args     Kind = "args"     // the arguments are not those of the skill
	Result   Kind = "result"   // what it wrote is not the result it promised
	Refused  Kind = "refused"  // this machine or mm does not run it so
	Unknown  Kind = "unknown"  // there is no such skill here
	Repeated Kind = "repeated" // the same call was made before
)

// Fault is what went wrong with a call or a program, by the guest's doing.
type Fault struct {
	Kind    Kind
	Message string
	Code    int // the exit code, of kind Exit
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

// Faultf makes a fault.
func Faultf(k Kind, format string, args ...any) *Fault {
	return &Fault{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// Refuse makes a fault of kind Refused.
func Refuse(format string, args ...any) error { return Faultf(Refused, format, args...) }

// KindOf is the kind of the fault in err; empty where there is none.
func KindOf(err error) Kind {
	var f *Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}
