package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// keepOutput takes standard output for the protocol and gives libraries that
// print there standard error instead.
func keepOutput() (*os.File, error) {
	out := os.Stdout
	return out, windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, windows.Handle(os.Stderr.Fd()))
}
