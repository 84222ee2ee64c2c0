package fsx

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// Digest is how many bytes a regular file has, and their digest as artifacts
// write it: "sha256:" and 64 hexadecimal digits.
func Digest(path string) (size int64, digest string, err error) {
	f, err := OpenRegular(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	return DigestOf(f)
}

// DigestOf is how many bytes a reader gives, and their digest.
func DigestOf(r io.Reader) (size int64, digest string, err error) {
	h := sha256.New()
	if size, err = io.Copy(h, r); err != nil {
		return 0, "", err
	}
	return size, "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
