package fsx

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// Digest returns the size of a regular file and its digest as in artifacts: "sha256:" and
// 64 hex digits.
func Digest(path string) (size int64, digest string, err error) {
	f, err := OpenRegular(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	return DigestOf(f)
}

// DigestOf returns the length and digest of a reader's data.
func DigestOf(r io.Reader) (size int64, digest string, err error) {
	h := sha256.New()
	if size, err = io.Copy(h, r); err != nil {
		return 0, "", err
	}
	return size, "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
