package modules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// The hint for a changed file names what replaced it.
func TestRemedy(t *testing.T) {
	text := bytes.Repeat([]byte("a\nb\n"), 100)
	big := bytes.Repeat([]byte("abcdefg\n"), maxText/8)
	crlf := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) }
	for _, tc := range []struct {
		name       string
		want, have []byte
		hint       string
	}{
		{"pointer", []byte("GGUF"), []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "git lfs pull"},
		{"page", []byte("GGUF"), []byte("<!DOCTYPE html><html>"), "an HTML page"},
		{"empty", []byte("GGUF"), nil, "empty"},
		{"line feeds became CRLF", text, crlf(text), "line ends"},
		{"CRLF became line feeds", crlf(text), text, "line ends"},
		{"edited", text, append(text, 'c'), "declare its new digest"},
		{"cut", []byte("GGUF\x03\x00\x00\x00"), []byte("GGUF\x03"), "cut"},
		{"largest text", crlf(big), big, "line ends"},
		{"larger text", crlf(append(big, '\n')), append(big, '\n'), "declare its new digest"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/f", tc.have, 0o644); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(tc.want)
		got := remedy(root, "f", File{Path: "f", Size: int64(len(tc.want)), SHA256: hex.EncodeToString(sum[:])})
		if !strings.Contains(got, tc.hint) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.hint)
		}
		root.Close()
	}
}
