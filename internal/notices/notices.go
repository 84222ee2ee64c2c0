// Package notices embeds the licenses and notices of the modules that mm and
// mm-native link, so that every copy of the programs carries them.
package notices

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

// compressed is made by go run ./tools/release -notices.
//
//go:embed notices.txt.gz
var compressed []byte

// Text returns the third-party notices as plain text.
func Text() (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
}
