package native

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packed returns an npm package with files.
func packed(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(data)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{w, z} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestWebMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: archives at the limits")
	}
	good := func() map[string][]byte {
		files := map[string][]byte{"package/dist/ort.js": []byte("no"), "package/lib/ort.wasm.min.mjs": []byte("no")}
		for _, name := range webFiles() {
			files["package/dist/"+name] = []byte(name + "\n//# sourceMappingURL=x.map\n")
		}
		return files
	}
	got, err := webMembers(bytes.NewReader(packed(t, good())))
	if err != nil || len(got) != len(webFiles()) {
		t.Fatalf("got %d files, %v", len(got), err)
	}
	for name, data := range got {
		want := name + "\n"
		if strings.HasSuffix(name, ".wasm") {
			want += "//# sourceMappingURL=x.map\n"
		}
		if string(data) != want {
			t.Errorf("%s: got %q, want %q", name, data, want)
		}
	}
	const wasm = "package/dist/ort-wasm-simd-threaded.wasm"
	for name, c := range map[string]struct {
		change func(map[string][]byte)
		want   string
	}{
		"maxWebFile":       {func(m map[string][]byte) { m[wasm] = make([]byte, maxWebFile) }, ""},
		"above maxWebFile": {func(m map[string][]byte) { m[wasm] = make([]byte, maxWebFile+1) }, "limit 67108864"},
		"missing":          {func(m map[string][]byte) { delete(m, wasm) }, "missing dist/ort-wasm-simd-threaded.wasm"},
	} {
		files := good()
		c.change(files)
		if _, err := webMembers(bytes.NewReader(packed(t, files))); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	for _, data := range [][]byte{nil, []byte("text"), packed(t, good())[:60]} {
		if _, err := webMembers(bytes.NewReader(data)); err == nil {
			t.Errorf("%d bytes are a package", len(data))
		}
	}
	file := filepath.Join(t.TempDir(), "x.tgz")
	if err := os.WriteFile(file, packed(t, good()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenWeb(t.Context(), file); err == nil || !strings.Contains(err.Error(), "digest mismatch") {
		t.Errorf("another package: %v", err)
	}
}
