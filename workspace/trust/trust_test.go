package trust

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/registry/sigstore"
	"mm-abi.org/mm/registry/sigstore/sigstoretest"
	"mm-abi.org/mm/workspace/home"
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

// Authorities need roots and identities; a changed file of roots is another trust file.
func TestAuthorities(t *testing.T) {
	dir := t.TempDir()
	root, err := os.ReadFile("../../registry/sign/testdata/folder/root.pem")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("root.pem", root)
	write("empty.pem", nil)
	write("most.pem", append(slices.Clone(root), bytes.Repeat([]byte("\n"), sign.MaxCertificateFile-len(root))...))
	write("over.pem", append(slices.Clone(root), bytes.Repeat([]byte("\n"), sign.MaxCertificateFile+1-len(root))...))
	pin := fmt.Sprintf("%x", sha256.Sum256(root))
	for text, want := range map[string]string{
		"match: 'local/**', file: root.pem, identities: [a]":                                     "",
		"match: 'local/**', file: most.pem, identities: [a]":                                     "",
		"match: 'local/**', file: root.pem, identities: [a], sha256: " + pin:                     "",
		"match: 'local/**', file: root.pem, identity_pattern: '^a|b$'":                           "",
		"match: 'local/**', file: root.pem, identities: [a], sha256: " + strings.Repeat("a", 64): "SHA-256: got " + pin,
		"match: 'local/**', file: over.pem, identities: [a]":                                     "over.pem",
		"match: 'local/**', file: empty.pem, identities: [a]":                                    "empty.pem",
		"match: 'local/**', file: none.pem, identities: [a]":                                     "none.pem",
		"match: 'local/**', file: root.pem":                                                      "no identities",
		"match: 'local/**', file: root.pem, identity_pattern: 'a'":                               "identity_pattern",
		"match: 'local/**', file: root.pem, identity_pattern: '^($'":                             "missing closing",
		"match: '**/**', file: root.pem, identities: [a]":                                        "match",
	} {
		write(home.TrustName, []byte("version: 1\nauthorities: [{"+text+"}]\n"))
		got, err := ForFolder(filepath.Join(dir, home.TrustName), "local/model", nil, time.Now())
		if want == "" && (err != nil || len(got.Authorities) != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %+v, %v, want %q", text, got, err, want)
		}
		f, err := Load(filepath.Join(dir, home.TrustName))
		if err == nil {
			_, err = f.Policy()
		}
		if (err == nil) != (want == "") {
			t.Errorf("%s: policy: got %v, want %q", text, err, want)
		}
	}
	write(home.TrustName, []byte("version: 1\nauthorities: [{match: local/model, file: root.pem, identities: [a]}]\n"))
	if got, err := ForFolder(filepath.Join(dir, home.TrustName), "local/other", nil, time.Now()); err != nil || len(got.Authorities) != 0 {
		t.Errorf("another name: got %+v, %v", got, err)
	}
	if got, err := ForFolder(filepath.Join(dir, home.TrustName), "local/model", []string{"../../registry/sign/testdata/folder/k.pub"}, time.Now()); err != nil || len(got.Keys) != 1 || len(got.Authorities) != 0 {
		t.Errorf("keys of flags replace the trust file: got %+v, %v", got, err)
	}
	before, err := Load(filepath.Join(dir, home.TrustName))
	write("root.pem", append(root, '\n'))
	if after, changed := Load(filepath.Join(dir, home.TrustName)); err != nil || changed != nil || before.sum == after.sum {
		t.Errorf("a changed file of roots leaves the trust file accepted: %v, %v", err, changed)
	}
}
