package sign

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// foreignFolder returns a signature that PyPI model-signing 1.1.1 wrote, and its key.
func foreignFolder(t testing.TB) ([]byte, *PublicKey) {
	t.Helper()
	data, err := os.ReadFile("testdata/folder/model.sig")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/folder/k.pub")
	if err != nil {
		t.Fatal(err)
	}
	key, err := LoadPublic(text)
	if err != nil {
		t.Fatal(err)
	}
	return data, key
}

// A signature of model-signing verifies, and ours over the same files has its statement.
func TestFolderForeign(t *testing.T) {
	data, key := foreignFolder(t)
	f, err := OpenFolder(data, FolderTrust{Keys: []*PublicKey{newKey(t, P256).private.Public(), key}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range f.Files {
		names = append(names, one.Name)
	}
	if diff := cmp.Diff([]string{"a/x", "a b/y", "a-b/x", "z"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	own := newKey(t, P256).private
	sealed, err := SignFolder(own, f, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := open(data)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := open(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs.statement.Subject, ours.statement.Subject); diff != "" {
		t.Errorf("subject (-theirs +ours):\n%s", diff)
	}
	again, err := OpenFolder(sealed, FolderTrust{Keys: []*PublicKey{own.Public()}})
	if err != nil {
		t.Fatal(err)
	}
	again.KeyID, f.KeyID = "", ""
	if diff := cmp.Diff(f, again); diff != "" {
		t.Errorf("folder (-want +got):\n%s", diff)
	}
}

// Statements that mm cannot judge are refused by name.
func TestFolderRefusals(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	good := func() folderPredicate {
		return folderPredicate{folderSerialization{Method: "files", Hash: "sha256"}, []folderResource{{"a", "sha256", sum}}}
	}
	for _, c := range []struct {
		name, want string
		change     func(s *statement, p *folderPredicate)
	}{
		{"good", "", func(*statement, *folderPredicate) {}},
		{"type", "predicate type", func(s *statement, _ *folderPredicate) { s.PredicateType = ReleaseType }},
		{"shards", "shards", func(_ *statement, p *folderPredicate) { p.Serialization.Method = "shards" }},
		{"hash", "blake2b", func(_ *statement, p *folderPredicate) { p.Serialization.Hash = "blake2b" }},
		{"links", "symbolic links", func(_ *statement, p *folderPredicate) { p.Serialization.AllowSymlinks = true }},
		{"subjects", "got 0", func(s *statement, _ *folderPredicate) { s.Subject = nil }},
		{"root", "subject digest", func(s *statement, _ *folderPredicate) { s.Subject[0].Digest["sha256"] = sum }},
		{"algorithm", "algorithm", func(_ *statement, p *folderPredicate) { p.Resources[0].Algorithm = "sha1" }},
		{"twice", "duplicate", func(_ *statement, p *folderPredicate) { p.Resources = append(p.Resources, p.Resources[0]) }},
		{"digest", "invalid SHA-256", func(_ *statement, p *folderPredicate) { p.Resources[0].Digest = strings.ToUpper(sum) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := good()
			root, err := folderDigest([]FolderFile{{"a", sum}})
			if err != nil {
				t.Fatal(err)
			}
			s := statement{PredicateType: FolderType, Subject: []resource{{Digest: map[string]string{"sha256": root}}}}
			c.change(&s, &p)
			if s.Predicate, err = json.Marshal(p); err != nil {
				t.Fatal(err)
			}
			_, err = s.folder()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Keys, sizes and payloads that do not belong to a signature are refused.
func TestFolderKeys(t *testing.T) {
	data, key := foreignFolder(t)
	if _, err := SignFolder(newKey(t, Ed25519).private, Folder{Files: []FolderFile{{"a", strings.Repeat("ab", 32)}}}, time.Time{}); err == nil || !strings.Contains(err.Error(), "P-256") {
		t.Errorf("Ed25519: got %v", err)
	}
	if _, err := SignFolder(newKey(t, P256).private, Folder{}, time.Time{}); err == nil {
		t.Error("a folder without files was signed")
	}
	if _, err := OpenFolder(data, FolderTrust{}); err == nil {
		t.Error("verified without keys")
	}
	if _, err := OpenFolder(data, FolderTrust{Keys: []*PublicKey{newKey(t, P256).private.Public()}}); err == nil {
		t.Error("verified by another key")
	}
	trust := FolderTrust{Keys: []*PublicKey{key}}
	pad := func(n int) []byte { return append(bytes.Clone(data), bytes.Repeat([]byte(" "), n-len(data))...) }
	if _, err := OpenFolder(pad(MaxFolderBundle), trust); err != nil {
		t.Errorf("a signature of the largest size: %v", err)
	}
	if _, err := OpenFolder(pad(MaxFolderBundle+1), trust); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a larger signature: got %v", err)
	}
}

func FuzzOpenFolder(f *testing.F) {
	data, key := foreignFolder(f)
	f.Add(data)
	f.Add([]byte(`{"mediaType":"","dsseEnvelope":{"signatures":[{}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		folder, err := OpenFolder(data, FolderTrust{Keys: []*PublicKey{key}})
		if err == nil && folder.KeyID == "" {
			t.Error("verified without a key")
		}
		var s statement
		if json.Unmarshal(data, &s) == nil {
			_, _ = s.folder()
		}
	})
}
