package sandbox

import (
	"errors"
	"fmt"
)

// Kind is the class of a fault. The words appear in tool results for the model
// and keep their meaning.
type Kind string

// The kinds of faults.
const (
	Time     Kind = "time"     // the call took longer than its limit
	Memory   Kind = "memory"   // the guest exceeded its memory limit
	Output   Kind = "output"   // the guest wrote more than its limit, or more than fits into the model's context
	Trap     Kind = "trap"     // the guest crashed: an illegal instruction, a panic, a stack overflow
	Exit     Kind = "exit"     // the guest exited with a nonzero code
	Args     Kind = "args"     // the arguments do not match the skill's inputs
	Result   Kind = "result"   // the output does not match the skill's outputs
	Refused  Kind = "refused"  // this machine or mm cannot run the program
	Unknown  Kind = "unknown"  // no such skill
	Repeated Kind = "repeated" // an identical call was made before
)

// Fault is a failure of a call or a program that the guest caused.
type Fault struct {
	Kind    Kind
	Message string
	Code    int // exit code, for kind Exit
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

// Faultf returns a fault.
func Faultf(k Kind, format string, args ...any) *Fault {
	return &Fault{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// Refuse returns a fault of kind Refused.
func Refuse(format string, args ...any) error { return Faultf(Refused, format, args...) }

// KindOf returns the kind of the fault in err, "" if there is none.
func KindOf(err error) Kind {
	var f *Fault
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}
