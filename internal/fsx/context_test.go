package fsx_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// Reader and Writer pass data on until their context ends.
func TestContextEndsACopy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var b strings.Builder
	n, err := io.Copy(fsx.Writer{Context: ctx, W: &b}, fsx.Reader{Context: ctx, R: strings.NewReader("abc")})
	if n != 3 || err != nil || b.String() != "abc" {
		t.Fatalf("%d, %v, %q", n, err, b.String())
	}
	cancel()
	if _, err := (fsx.Reader{Context: ctx, R: strings.NewReader("abc")}).Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a read: %v", err)
	}
	if n, err := (fsx.Writer{Context: ctx, W: &b}).Write([]byte("d")); n != 0 || !errors.Is(err, context.Canceled) || b.String() != "abc" {
		t.Errorf("a write: %d, %v, %q", n, err, b.String())
	}
}
