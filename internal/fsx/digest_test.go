package fsx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "abc")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, B.1
	if n, got, err := Digest(path); n != 3 || got != want || err != nil {
		t.Errorf("%d, %s, %v", n, got, err)
	}
	if _, _, err := Digest(filepath.Dir(path)); err == nil {
		t.Error("digest of a folder")
	}
	broken := errors.New("broken")
	if n, got, err := DigestOf(iotest.ErrReader(broken)); n != 0 || got != "" || !errors.Is(err, broken) {
		t.Errorf("failing reader: %d, %s, %v", n, got, err)
	}
	if _, got, _ := DigestOf(strings.NewReader("abc")); got != want {
		t.Error(got)
	}
}
