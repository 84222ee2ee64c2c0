// Package console holds what cmd/mm shows and reads at a terminal without any
// model: declared commands with their help and manual pages, turns, progress, and how
// the program was built.
package console

// Error is an error of the command line.
type Error struct {
	Err    error
	Advice string // "": none
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns the advice.
func (e *Error) Hint() string { return e.Advice }
