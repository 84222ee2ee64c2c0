package modules

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
)

func TestIsLegal(t *testing.T) {
	for path, want := range map[string]bool{
		"LICENSE": true, "LICENSE.txt": true, "LICENSE-MIT": true, "licence.md": true, "COPYING": true, "COPYING_LIB": true, "NOTICE": true, "notice.txt": true, "LICENSES/MIT.txt": true,
		"LICENSED": false, "license/x": false, "sub/LICENSE": false, "LICENSES/MIT": false, "LICENSES/a/b.txt": false, "README.md": false, "LICENSE-x/y": false, "": false,
	} {
		if got := IsLegal(path); got != want {
			t.Errorf("%q: got %v", path, got)
		}
	}
	for path, want := range map[string]bool{"NOTICE": true, "notice.md": true, "NOTICED": false, "LICENSE": false} {
		if got := IsNotice(path); got != want {
			t.Errorf("IsNotice(%q): got %v", path, got)
		}
	}
}

const plainModule = "name: v\nversion: 1.0.0\ntype: router\nabi: mm-abi-1.0\nlicense: MIT\n"

// The license and notice files of a folder are files of the module; folders of such a
// name are not.
func TestFindLegal(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"LICENSES", "NOTICE.d"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{FileName: plainModule, "LICENSE": "a", "NOTICE": "b", "LICENSES/MIT.txt": "c", "LICENSES/README.md": "d", "other": "e"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, list := Load(dir)
	if list.Failed() {
		t.Fatal(list)
	}
	if d := cmp.Diff([]string{FileName, "LICENSE", "LICENSES/MIT.txt", "NOTICE"}, m.Paths()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestMaxLegal(t *testing.T) {
	for n, ok := range map[int]bool{maxLegal: true, maxLegal + 1: false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(plainModule), 0o644); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("LICENSE-%03d", i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, list := Load(dir)
		if slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Code == diag.TooLarge }) == ok {
			t.Errorf("maxLegal: %d files: %v", n, list)
		}
	}
}
