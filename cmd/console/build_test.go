package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program that is not a release is identified by its build ID or its bytes, a release by its
// version.
func TestRevision(t *testing.T) {
	dir := t.TempDir()
	one, two, gone := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "gone")
	for _, path := range []string{one, two} {
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []Build{{Version: Unreleased}, {Version: "0.2.1-0.20261125044305-f96791c0aa11"}, {Version: "0.2.0+dirty"}, {Version: "0.2.0", Modified: true}} {
		first, err := v.identify(one)
		second, err2 := v.identify(two)
		if err != nil || err2 != nil || first == second {
			t.Errorf("%+v: %s and %s, %v, %v", v, first, second, err, err2)
		}
		if _, err := v.identify(gone); err == nil {
			t.Errorf("%+v is known without its bytes", v)
		}
	}
	release, next := Build{Version: "0.2.0"}, Build{Version: "0.2.1"}
	first, err := release.identify(gone)
	if second, _ := next.identify(gone); err != nil || first == second {
		t.Errorf("releases: %s and %s, %v", first, second, err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadBuild(Unreleased, 1).Identify()
	if id, ok := strings.CutPrefix(got, "build "); err != nil || !ok || id != buildID(executable) || strings.Count(id, "/") != 3 {
		t.Errorf("this program is %s, its build %s; %v", got, buildID(executable), err)
	}
	for head, want := range map[string]string{
		"\x04\x00\x00\x00\x18\x00\x00\x00\x04\x00\x00\x00Go\x00\x00a/b/01234567890123456789\x00":  "a/b/01234567890123456789",
		"MZ\xff Go build ID: \"a/b-_/abcdefghijklmnopqrst\"\n \xffcode":                           "a/b-_/abcdefghijklmnopqrst",
		"MZ\xff Go build ID: \"redacted\"\n \xffcode":                                             "", // by the linker's flag
		strings.Repeat("x", buildHead) + "\xff Go build ID: \"a/abcdefghijklmnopqrst\"\n \xff":    "",
		strings.Repeat("x", buildHead-43) + "\xff Go build ID: \"a/abcdefghijklmnopqrst\"\n \xff": "a/abcdefghijklmnopqrst",
	} {
		if err := os.WriteFile(one, []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := buildID(one); got != want {
			t.Errorf("%.60q: build ID %q, want %q", head, got, want)
		}
	}
}
