package python

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/modules"
)

// archive packs files as npm does.
func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(text))
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

// TestForeignPackage refuses other bytes than the package's and leaves no files.
func TestForeignPackage(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"another module": {archive(t, map[string]string{inPackage: "\x00asm\x01\x00\x00\x00"}), "digest"},
		"nothing":        {nil, "digest"},
		"too much":       {make([]byte, maxArchive+1), "exceeds"},
	} {
		dir := t.TempDir()
		if err := Write(dir, bytes.NewReader(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s left %v", name, left)
		}
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"another module":      {archive(t, map[string]string{inPackage: "\x00asm\x01\x00\x00\x00"}), "sha256"},
		"no module":           {archive(t, map[string]string{"package/package.json": "{}"}), "missing " + inPackage},
		"no archive":          {[]byte("PK"), "reading"},
		"an archive cut off":  {archive(t, map[string]string{inPackage: strings.Repeat("x", 1000)})[:60], "reading"},
		"a name out of bound": {archive(t, map[string]string{"../" + inPackage: "x"}), "missing " + inPackage},
	} {
		if _, err := member(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestModule checks the module that Write creates against its manifest.
func TestModule(t *testing.T) {
	f, err := os.Open(packageFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := filepath.Join(t.TempDir(), "micropython")
	if err := Write(dir, f); err != nil {
		t.Fatal(err)
	}
	m, list := modules.Load(dir)
	if list.Failed() {
		t.Fatal(list)
	}
	if m.Version != version {
		t.Errorf("module version %s, package version %s", m.Version, version)
	}
	if list := m.CheckFiles(t.Context()); len(list) > 0 {
		t.Error(list)
	}
}

// FuzzMember reads untrusted archives.
func FuzzMember(f *testing.F) {
	f.Add(archive(f, map[string]string{inPackage: "x", "package/README.md": "y"}))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		if code, err := member(data); err == nil && len(code) != 433743 {
			t.Errorf("took %d bytes", len(code))
		}
	})
}
