package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// keepOutput reserves standard output for the protocol and redirects what libraries print there
// to standard error.
func keepOutput() (*os.File, error) {
	out := os.Stdout
	return out, windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, windows.Handle(os.Stderr.Fd()))
}
