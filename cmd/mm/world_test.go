package main

import (
	"path/filepath"
	"testing"
)

// world is a home with a key and two signed builds of the same name in it.
func world(t *testing.T) {
	t.Helper()
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	t.Setenv("MM_KEY_PASSWORD", "")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Chdir("../..")
	for _, args := range [][]string{
		{"keys", "generate", "--unencrypted"},
		{"assemble", "builds/m-lite.graph.yaml", "--sign", "default", "--target", "laptop"},
		{"tag", "m-lite:0.1.0", "m-lite:kept"},
		{"assemble", "builds/m-lite.graph.yaml", "--sign", "default", "--target", "phone", "--force"},
	} {
		if _, stderr, code := mm(t, args...); code != exitOK {
			t.Fatalf("mm %v: exit %d: %s", args, code, stderr)
		}
	}
}
