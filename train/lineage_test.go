package train

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeSet writes a data set of mm data build with the keys in each line.
func writeSet(t *testing.T, dir, format, keys, line string) {
	t.Helper()
	sum := sha256.Sum256([]byte(line))
	lineage := fmt.Sprintf(`{"digest":"sha256:abc","name":"n","license":"MIT","format":%q,"keys":%s,"files":[{"split":"train","file":"train.jsonl","sha256":"%x"}]}`, format, keys, sum)
	for name, text := range map[string]string{"train.jsonl": line, lineageFile: lineage} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDataFromManifest(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, dir, "jsonl", `["answer","prompt"]`, `{"prompt":"p","answer":"a"}`+"\n")
	want := []Lineage{{Digest: "sha256:abc", Name: "n", License: "MIT"}}
	for _, d := range []Data{{Manifest: dir}, {Files: []string{filepath.Join(dir, "train.jsonl")}}} {
		got, lineage, err := d.from(&files{})
		if err != nil || cmp.Diff(want, lineage) != "" {
			t.Fatalf("%+v: %v, %v", d, lineage, err)
		}
		if d.Manifest != "" && cmp.Diff([]any{[]string{"prompt", "answer"}, []string{"prompt"}, []string{filepath.Join(dir, "train.jsonl")}}, []any{got.Keys, got.Context, got.Files}) != "" {
			t.Errorf("%+v", got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "train.jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []Data{{Manifest: dir}, {Files: []string{filepath.Join(dir, "train.jsonl")}}} {
		if _, _, err := d.from(&files{}); err == nil || !strings.Contains(err.Error(), "differs from its lineage") {
			t.Errorf("changed file: %v", err)
		}
	}
}

func TestLineageFaults(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"{":  "unexpected end",
		"{}": "missing digest or files",
		`{"digest":"x","files":[{"split":"train","file":"../x"}]}`: "want a name",
		`{"digest":"x","files":[{"split":"train","file":"gone"}]}`: "no such file",
		strings.Repeat(" ", maxLineage+1):                          "too large",
	} {
		if err := os.WriteFile(filepath.Join(dir, lineageFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := (Data{Manifest: dir}).from(&files{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %s", text, err, want)
		}
	}
	if err := (Data{Manifest: dir, Files: []string{"x"}}).validate(); err == nil {
		t.Error("manifest and files are accepted")
	}
	if err := (Data{Manifest: dir}).validate(); err != nil {
		t.Error(err)
	}
}
