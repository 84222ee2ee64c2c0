package bucket

import (
	"errors"
	"fmt"
	"testing"

	"mm-abi.org/mm/internal/diag"
)

// Each error of a store has a code, also within others, and other errors stay as they are.
func TestFault(t *testing.T) {
	for err, code := range map[error]diag.Code{
		ErrAddress: diag.BucketAddress, ErrKey: diag.BucketKey, ErrDigest: diag.BucketDigest, ErrChanged: diag.BucketChanged, ErrExists: diag.BucketExists,
		ErrDenied: diag.BucketDenied, ErrAnswer: diag.BucketAnswer, ErrPointer: diag.BucketPointer, ErrMissing: diag.BucketMissing, ErrNoPlace: diag.BucketMissing,
	} {
		for _, one := range []error{err, fmt.Errorf("reading: %w", err), &CopyError{Address: "s3://b/k", Err: err}} {
			list, ok := diag.From(Fault("s3://b/k", one))
			if !ok || len(list) != 1 || list[0].Code != code || list[0].Pos.File != "s3://b/k" {
				t.Errorf("%v: got %v, want %s", one, list, code)
			}
		}
	}
	plain := errors.New("a cut connection")
	if got := Fault("s3://b/k", plain); got != plain {
		t.Errorf("got %v, want the error itself", got)
	}
}
