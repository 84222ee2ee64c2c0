package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/eval/demo"
	"mm-abi.org/mm/internal/testfiles"
)

// The demo shows all that a build can with the modules of the tree, whatever they
// are, and leaves what it showed. Trained ones caption a picture and write down a
// digit as they should; of placeholders it says what they are.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: slow")
	}
	repo := testfiles.Root(t)
	t.Chdir(t.TempDir())
	stdout, stderr, code := mm(t, "demo", "--json", "--from", repo)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var got struct {
		Folder string      `json:"folder"`
		Shown  []demo.Item `json:"shown"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	var what []string
	for _, s := range got.Shown {
		what = append(what, s.What)
		if s.Lacks != "" || filepath.Dir(s.File) != got.Folder || (s.Right == nil) != (s.What == "say") {
			t.Errorf("%s: %+v", s.What, s)
			continue
		}
		data, err := os.ReadFile(s.File)
		if err != nil {
			t.Error(err)
			continue
		}
		if filepath.Ext(s.File) == ".png" {
			_, err = preprocess.DecodeImage(data)
		} else {
			_, err = preprocess.DecodeSound(data)
		}
		if err != nil {
			t.Errorf("%s: %v", s.File, err)
		}
		if (s.What == "caption" || s.What == "digit") && len(s.Untrained) == 0 && !*s.Right {
			t.Errorf("%s: %q to %q, which is %q", s.What, s.Said, s.Ask, s.Answer)
		}
	}
	if want := []string{"caption", "question", "chart", "digit", "draw", "look", "say", "listen"}; !slices.Equal(what, want) {
		t.Errorf("shown are %v, want %v", what, want)
	}
	left, err := os.ReadDir(got.Folder)
	if err != nil || len(left) != 6 {
		t.Errorf("left are %v, %v", left, err)
	}
	if others, err := os.ReadDir("."); err != nil || len(others) != 1 {
		t.Errorf("beside them are %v, %v", others, err)
	}
}
