package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/workspace"
)

// An engine's files must be those that were installed; and it is pulled only
// for one of its systems.
func TestAddEngine(t *testing.T) {
	u := newWorld(t)
	dir := filepath.Join(u.dir, "lib")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libx.so.1", "LICENSE"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{
		"libx.so.1": digest.FromString("libx.so.1").String(),
		"LICENSE":   "sha256:0000000000000000000000000000000000000000000000000000000000000000",
	}
	e := workspace.Engine{Name: "x", Version: "1.0.0", License: "MIT", Source: "y", Systems: []workspace.EngineSystem{{OS: "plan9", Arch: "mips", Dir: dir, Files: files}}}
	w := u.open(workspace.Options{})
	key := pairs[0]().key
	signer := &workspace.Signer{Key: key, Sealer: key}
	if _, err := w.AddEngine(t.Context(), e, signer); err == nil || !strings.Contains(err.Error(), "not the file that was installed") {
		t.Fatalf("files that were changed: %v", err)
	}
	for name := range files {
		files[name] = digest.FromString(name).String()
	}
	added, err := w.AddEngine(t.Context(), e, signer)
	if err != nil {
		t.Fatal(err)
	}
	layout := "oci:" + filepath.Join(u.dir, "out")
	if _, err := w.Push(t.Context(), added.Ref, layout, workspace.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	for target, opens := range map[string]bool{"linux-amd64": false, "plan9-mips": true} {
		got, err := w.Pull(t.Context(), layout+":x:1.0.0", workspace.PullOptions{Kind: abi.KindEngine, Target: target, Out: filepath.Join(u.dir, target)})
		if (err == nil) != opens {
			t.Errorf("%s: %+v, %v", target, got, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(u.dir, "plan9-mips", "libx.so.1")); err != nil || string(data) != "libx.so.1" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := w.Pull(t.Context(), layout+":x:1.0.0", workspace.PullOptions{Kind: abi.KindModule}); err == nil || !strings.Contains(err.Error(), "MM0705") {
		t.Errorf("an engine for a module: %v", err)
	}
}
