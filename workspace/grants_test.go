package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Grants are the user's: a project's trust file has none, and a file that the
// user names decides alone.
func TestGrants(t *testing.T) {
	dir, home, other := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(path, skill, read string) {
		text := "version: 1\ngrants:\n  - {skill: " + skill + ", program: sha256:" + strings.Repeat("0", 64) + ", allow: {read: [" + read + "]}}\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "trust.yaml"), "project", "/p")
	if err := os.WriteFile(filepath.Join(dir, "mm.yaml"), []byte("trust: trust.yaml\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	open := func(opt Options) *Workspace {
		opt.Dir, opt.Home = dir, home
		w, err := Open(opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
	var messages string
	w := open(Options{Say: func(text string) { messages += text }})
	if got, err := w.Grants(); err != nil || len(got) != 0 {
		t.Errorf("without a file of the user: %+v, %v", got, err)
	}
	if _, err := w.judges(); err != nil || !strings.Contains(messages, "grants in") {
		t.Errorf("%v, messages %q", err, messages)
	}
	write(filepath.Join(home, "trust.yaml"), "mine", "/m")
	write(filepath.Join(other, "t.yaml"), "other", "/o")
	for name, w := range map[string]*Workspace{"mine": open(Options{}), "other": open(Options{Trust: filepath.Join(other, "t.yaml")})} {
		if got, err := w.Grants(); err != nil || len(got) != 1 || got[0].Skill != name {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, path := range []string{"x", "../x", "/x/../y", "./x"} {
		write(filepath.Join(home, "trust.yaml"), "mine", path)
		if got, err := open(Options{}).Grants(); err == nil || !strings.Contains(err.Error(), "not a clean absolute path") {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
}
