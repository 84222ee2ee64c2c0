package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/registry/sign"
)

// signingKey returns a new key.
func signingKey(t *testing.T) *sign.PrivateKey {
	t.Helper()
	private, _, err := sign.Generate(sign.P256, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.LoadPrivate(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSignFolder(t *testing.T) {
	key := signingKey(t)
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, want string
		change     func(t *testing.T, dir string)
	}{
		{"same", "", func(*testing.T, string) {}},
		{"moved", "", func(t *testing.T, dir string) { t.Chdir(dir) }},
		{"git", "", func(t *testing.T, dir string) { write(t, filepath.Join(dir, ".git", "hook"), "x") }},
		{"changed", "sub/b: sha256", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "sub", "b"), "B") }},
		{"more", "c: not signed", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "c"), "") }},
		{"inner git", "not signed", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "sub", ".git", "c"), "") }},
		{"fewer", "a: signed but missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "a")); err != nil {
				t.Fatal(err)
			}
		}},
		{"link", "regular", func(t *testing.T, dir string) {
			if err := os.Symlink("a", filepath.Join(dir, "c")); err != nil {
				t.Skip("skipped: no symbolic links")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "a"), "a")
			write(t, filepath.Join(dir, "sub", "b"), "b")
			file := filepath.Join(dir, sign.FolderSignature)
			if _, err := SignFolder(t.Context(), dir, file, FolderSigner{Key: key}); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			f, err := VerifyFolder(t.Context(), dir, file, sign.FolderTrust{Keys: []*sign.PublicKey{key.Public()}})
			if c.want == "" && (err != nil || len(f.Files) != 2) || c.want != "" && (err == nil || !strings.Contains(filepath.ToSlash(err.Error()), c.want)) {
				t.Errorf("got %d files, %v, want %q", len(f.Files), err, c.want)
			}
		})
	}
}

// A signature that ignores a file is refused even though the signer is trusted.
func TestSignFolderIgnores(t *testing.T) {
	key := signingKey(t)
	dir := t.TempDir()
	for _, name := range []string{"a", "weights"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := folderFiles(t.Context(), dir, []string{"weights"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := sign.SignFolder(key, sign.Folder{Name: "m", Files: files, Ignored: []string{"weights"}}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sig")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyFolder(t.Context(), dir, file, sign.FolderTrust{Keys: []*sign.PublicKey{key.Public()}}); err == nil || !strings.Contains(err.Error(), `ignores "weights"`) {
		t.Errorf("got %v", err)
	}
}

func TestFolderFilesLimit(t *testing.T) {
	dir := t.TempDir()
	for i := range maxFolderFiles {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := folderFiles(t.Context(), dir, nil); err != nil || len(files) != maxFolderFiles {
		t.Errorf("got %d files, %v", len(files), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := folderFiles(t.Context(), dir, nil); err == nil {
		t.Error("one file more than the limit was signed")
	}
}
