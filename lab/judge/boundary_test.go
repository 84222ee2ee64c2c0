package judge_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/judge"
)

const text = "This is research.\nIt trains on one phone; it makes no clinical claim."

func readBoundary(t *testing.T, change func(*judge.Boundary)) (*judge.Boundary, error) {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	b := judge.Boundary{ID: "boundary:test:v1", Text: text, SHA256: hex.EncodeToString(sum[:]), Phrases: []string{"This is research", "one phone"}, Required: []string{"README.md"}}
	if change != nil {
		change(&b)
	}
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "b.json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return judge.ReadBoundary(path)
}

func TestScan(t *testing.T) {
	b, err := readBoundary(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"README.md":              "# Title\n\n" + text + "\n\nAn MVP for our first paying customer.\nNo MVP.\nNotable biometrics\n",
		"docs/warn.md":           "This  is\nresearch, on ONE phone.\n",
		"docs/drift.md":          "This is research.\n",
		"docs/other.md":          "Diagnostics, cannot be had.\n",
		"docs/nothing.txt":       "surveillance\n",
		"node_modules/a/bad.md":  "surveillance\n",
		"sub/README.md":          "nothing here\n",
		"docs/data/unscanned.md": "surveillance\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.Scan(dir, filepath.Join(dir, "docs"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	failed := 0
	for _, r := range got {
		rel, _ := filepath.Rel(dir, r.Path)
		lines = append(lines, strings.TrimSpace(strings.Join([]string{rel, string(r.Status), r.Detail}, " ")))
		if r.Failed() {
			failed++
		}
		if r.Status == judge.TextForbidden && (r.Line != 6 && r.Line != 8) {
			t.Errorf("%+v", r)
		}
	}
	want := []string{
		"README.md pass", `README.md forbidden "first paying customer"`, `README.md forbidden "MVP"`, `README.md forbidden "biometrics"`,
		`docs/drift.md drift 1 of 2 phrases missing, first "one phone"`, "docs/other.md not-applicable",
		"docs/warn.md drift-warn all phrases found, different text", "sub/README.md missing",
	}
	if diff := cmp.Diff(want, lines); diff != "" || failed != 5 {
		t.Errorf("%d failures, %s", failed, diff)
	}
	if got, err := b.Scan(filepath.Join(dir, "docs", "data")); err != nil || len(got) != 3 || got[2].Status != judge.TextMissing {
		t.Errorf("named folder: %+v, %v", got, err)
	}
	if _, err := b.Scan(t.TempDir()); err == nil {
		t.Error("empty folder passes")
	}
	if _, err := b.Scan(filepath.Join(dir, "absent")); err == nil {
		t.Error("missing path passes")
	}
}

func TestReadRefuses(t *testing.T) {
	for name, change := range map[string]func(*judge.Boundary){
		"different text": func(b *judge.Boundary) { b.Text += " " },
		"no digest":      func(b *judge.Boundary) { b.SHA256 = "" },
		"no id":          func(b *judge.Boundary) { b.ID = "" },
		"no phrases":     func(b *judge.Boundary) { b.Phrases = nil },
		"unknown phrase": func(b *judge.Boundary) { b.Phrases = []string{"two phones"} },
		"bad pattern":    func(b *judge.Boundary) { b.Forbidden = []string{"("} },
	} {
		if b, err := readBoundary(t, change); err == nil {
			t.Errorf("%s: %+v", name, b)
		}
	}
}
