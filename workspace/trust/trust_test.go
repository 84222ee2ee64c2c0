package trust

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/registry/sigstore"
	"mm-abi.org/mm/registry/sigstore/sigstoretest"
)

func TestMaxKey(t *testing.T) {
	for more, want := range []bool{true, false} {
		file := filepath.Join(t.TempDir(), "k.pub")
		if err := os.WriteFile(file, make([]byte, MaxKey+more), 0o644); err != nil {
			t.Fatal(err)
		}
		f := &File{Keys: map[string]Key{"k": {File: file}}}
		if _, err := f.pem("k"); (err == nil) != want {
			t.Errorf("MaxKey+%d: %v", more, err)
		}
	}
}

// A trust file names roots and identities; a root must be the pinned one.
func TestIdentities(t *testing.T) {
	dir := t.TempDir()
	root := sigstoretest.New(t, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)).Root()
	if err := os.WriteFile(filepath.Join(dir, "root.json"), root, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "long.json"), make([]byte, sigstore.MaxRoot+1), 0o644); err != nil {
		t.Fatal(err)
	}
	pin := fmt.Sprintf("%x", sha256.Sum256(root))
	const rule = "version: 1\nrules: [{match: '**', keys: [ci]}]\n"
	const ci = "identities: {ci: {root: r, issuer: https://token.test, subject: a@b.test, not_after: 2027-01-01}}\n"
	for text, want := range map[string]string{
		rule + ci + "roots: {r: {file: root.json}}":                                                                        "",
		rule + ci + "roots: {r: {file: root.json, sha256: " + pin + "}}":                                                   "",
		rule + ci + "roots: {r: {file: root.json, sha256: " + strings.Repeat("a", 64) + "}}":                               "SHA-256: got " + pin,
		rule + ci + "roots: {r: {file: none.json}}":                                                                        "none.json",
		rule + ci + "roots: {r: {file: long.json}}":                                                                        "long.json",
		rule + ci + "roots: {q: {file: root.json}}":                                                                        "unknown root",
		rule + "roots: {r: {file: root.json}}":                                                                             "unknown key",
		rule + "roots: {r: {file: root.json}}\nidentities: {ci: {root: r, issuer: i, subject_pattern: 'https://a/.*'}}":    "subject_pattern",
		rule + "roots: {r: {file: root.json}}\nidentities: {ci: {root: r, issuer: i, subject: s, extensions: {color: c}}}": "unknown extension",
	} {
		file := filepath.Join(dir, "trust.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := Load(file)
		if err == nil {
			_, err = f.Policy()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	// A changed root is another trust file.
	sum := func() string {
		f, err := Load(filepath.Join(dir, "trust.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return f.sum
	}
	if err := os.WriteFile(filepath.Join(dir, "trust.yaml"), []byte(rule+ci+"roots: {r: {file: root.json}}"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := sum()
	if err := os.WriteFile(filepath.Join(dir, "root.json"), append(root, ' '), 0o644); err != nil {
		t.Fatal(err)
	}
	if sum() == before {
		t.Error("a changed root leaves the trust file accepted")
	}
}
