package diag

import "fmt"

// hinted is an error with a hint for the user.
type hinted struct {
	error
	hint string
}

// Hinted returns err with a hint for the user, which the printer asks for by Hint; nil
// stays nil.
func Hinted(err error, hint string) error {
	if err == nil {
		return nil
	}
	return hinted{err, hint}
}

// Unwrap returns the cause.
func (h hinted) Unwrap() error { return h.error }

// Hint returns the hint.
func (h hinted) Hint() string { return h.hint }

// Exited is an error with an exit code.
type Exited struct {
	error
	Code int
}

// Exiting returns err with an exit code; nil stays nil.
func Exiting(code int, err error) error {
	if err == nil {
		return nil
	}
	return Exited{err, code}
}

// Unwrap returns the cause.
func (e Exited) Unwrap() error { return e.error }

// Usage returns err as a fault of the command line, or of the options of a library; nil
// stays nil.
func Usage(err error) error { return Exiting(ExitUsage, err) }

// Usagef returns a fault of the command line, or of the options of a library.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }
