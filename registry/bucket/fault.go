package bucket

import (
	"errors"

	"mm-abi.org/mm/internal/diag"
)

// Fault returns err as a diagnostic at the address, if it has a code.
func Fault(address string, err error) error {
	var at *CopyError
	if errors.As(err, &at) {
		address, err = at.Address, at.Err
	}
	code, ok := codeOf(err)
	if !ok {
		if at != nil {
			return at
		}
		return err
	}
	var list diag.List
	list.Add(code, diag.Pos{File: address}, diag.Printable(err.Error()), "")
	return list.Err()
}

// codeOf returns the code of an error.
func codeOf(err error) (diag.Code, bool) {
	for _, c := range []struct {
		err  error
		code diag.Code
	}{
		{ErrAddress, diag.BucketAddress}, {ErrKey, diag.BucketKey}, {ErrDigest, diag.BucketDigest}, {ErrChanged, diag.BucketChanged},
		{ErrExists, diag.BucketExists}, {ErrDenied, diag.BucketDenied}, {ErrAnswer, diag.BucketAnswer}, {ErrPointer, diag.BucketPointer},
		{ErrMissing, diag.BucketMissing}, {ErrNoPlace, diag.BucketMissing},
	} {
		if errors.Is(err, c.err) {
			return c.code, true
		}
	}
	return "", false
}
