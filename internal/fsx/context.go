package fsx

import (
	"context"
	"io"
)

// Reader reads from R until its context ends, and then returns the context's error. It
// makes a long copy interruptible.
type Reader struct {
	Context context.Context
	R       io.Reader
}

// Read implements io.Reader.
func (r Reader) Read(p []byte) (int, error) {
	if err := r.Context.Err(); err != nil {
		return 0, err
	}
	return r.R.Read(p)
}

// Writer writes to W until its context ends, and then returns the context's error.
type Writer struct {
	Context context.Context
	W       io.Writer
}

// Write implements io.Writer.
func (w Writer) Write(p []byte) (int, error) {
	if err := w.Context.Err(); err != nil {
		return 0, err
	}
	return w.W.Write(p)
}
