package workspace

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// The secret is made once, also by concurrent callers, for the user only.
func TestSecret(t *testing.T) {
	home := t.TempDir()
	got := make([][]byte, 4)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			w, err := Open(Options{Home: home})
			if err == nil {
				defer w.Close()
				got[i], err = w.Secret(32)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, one := range got {
		if len(one) != 32 || !bytes.Equal(one, got[0]) || bytes.Equal(one, make([]byte, 32)) {
			t.Errorf("secrets %x", got)
		}
	}
	file := filepath.Join(home, secretFile)
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	w, err := Open(Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, n := range []int{31, 33} {
		if err := os.WriteFile(file, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Secret(32); err == nil {
			t.Errorf("a secret of %d bytes was taken", n)
		}
	}
}

// Names of conversations cannot leave their folder.
func TestChatFile(t *testing.T) {
	w, err := Open(Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for name, ok := range map[string]bool{"a": true, "Notes-1.2_x": true, strings.Repeat("a", 100): true, strings.Repeat("a", 101): false, "": false, "..": false, ".a": false, "a/b": false, "a\\b": false, "a b": false, "a\n": false} {
		file, err := w.ChatFile(name)
		if (err == nil) != ok || ok && filepath.Base(file) != name+".json" {
			t.Errorf("%q: %s, %v", name, file, err)
		}
	}
}
