package phonetest

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
)

// TestMaxPath sends a request with a path of maxPath bytes, and one with a byte more.
func TestMaxPath(t *testing.T) {
	for n, want := range map[int]string{maxPath: "unknown command", maxPath + 1: "path too long"} {
		var out bytes.Buffer
		request := binary.LittleEndian.AppendUint32([]byte("WHAT"), uint32(n))
		in := io.MultiReader(bytes.NewReader(request), strings.NewReader("/"+strings.Repeat("a", n-1)))
		_ = new(Phone).serveSync(struct {
			io.Reader
			io.Writer
		}{in, &out})
		if !strings.Contains(out.String(), want) {
			t.Errorf("path of %d bytes: got %q, want %s", n, out.String(), want)
		}
	}
}
