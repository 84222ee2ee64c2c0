package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/eval/suite"
)

// recordFile writes a file as mm eval suite records it.
func recordFile(t *testing.T, dir string, data []byte, ext string) suite.Recorded {
	t.Helper()
	sum := sha256.Sum256(data)
	name := "media/" + hex.EncodeToString(sum[:]) + ext
	if err := os.MkdirAll(filepath.Join(dir, "media"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return suite.Recorded{Kind: "image", Digest: "sha256:" + hex.EncodeToString(sum[:]), File: name}
}

// Images and sounds are shown if their bytes are those of the record and of a type that
// runs nothing; the others have a reason.
func TestMedia(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	good := recordFile(t, dir, b.Bytes(), ".png")
	wav := recordFile(t, dir, []byte("RIFF\x10\x00\x00\x00WAVEfmt "), ".wav")
	svg := recordFile(t, dir, []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`), ".svg")
	html := recordFile(t, dir, []byte("<html><script>alert(1)</script>"), ".png")
	changed := recordFile(t, dir, []byte("other"), ".png")
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(changed.File)), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	largest := recordFile(t, dir, append(bytes.Clone(b.Bytes()), make([]byte, maxMedium-b.Len())...), ".png")
	large := recordFile(t, dir, append(bytes.Clone(b.Bytes()), make([]byte, maxMedium-b.Len()+1)...), ".png")
	outside := good
	outside.File = "../" + good.File
	s := &site{held: map[string]string{}}
	for name, c := range map[string]struct {
		in   suite.Recorded
		kind string
		why  string
	}{
		"picture": {good, "image", ""}, "sound": {wav, "audio", ""}, "svg": {svg, "", "format"}, "page": {html, "", "format"}, "changed": {changed, "", "another digest"},
		"maxMedium": {largest, "image", ""}, "over maxMedium": {large, "", "over 4096 KiB"}, "outside": {outside, "", "name"}, "missing": {suite.Recorded{Digest: "sha256:" + strings.Repeat("a", 64), File: "media/" + strings.Repeat("a", 64)}, "", "missing"},
	} {
		s.held = map[string]string{}
		got := s.recorded(dir, []suite.Recorded{c.in})[0]
		if got.Kind != c.kind || (got.Path == "") != (c.why != "") || !strings.Contains(got.Caption, c.why) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	many := make([]suite.Recorded, maxMedia+1)
	if got := s.recorded(dir, many); len(got) != maxMedia {
		t.Errorf("maxMedia: got %d", len(got))
	}
	for n, ok := range map[int64]bool{maxAllMedia - int64(b.Len()): true, maxAllMedia - int64(b.Len()) + 1: false} { // maxAllMedia
		full := &site{held: map[string]string{}, bytes: n}
		if path, _ := full.hold(dir, good); (path != "") != ok {
			t.Errorf("with %d bytes: got %q", n, path)
		}
	}
	two := &site{held: map[string]string{}}
	if two.recorded(dir, []suite.Recorded{good, good}); len(two.media) != 1 {
		t.Errorf("got %d files", len(two.media))
	}
}
