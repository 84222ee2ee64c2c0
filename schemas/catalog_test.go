package schemas

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"
)

// catalog.json, which editors read, names an existing schema by its $id for each
// kind of file, and each schema's $id is its published address.
func TestCatalog(t *testing.T) {
	const published = "https://mm-abi.org/schemas/"
	files, err := filepath.Glob("*.schema.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			ID string `json:"$id"`
		}
		if err := json.Unmarshal(data, &s); err != nil || s.ID != published+file {
			t.Errorf("%s: $id %q, %v", file, s.ID, err)
		}
		ids[s.ID] = true
	}
	data, err := os.ReadFile("catalog.json")
	if err != nil {
		t.Fatal(err)
	}
	var catalog struct {
		Schemas []struct {
			URL       string   `json:"url"`
			FileMatch []string `json:"fileMatch"`
		} `json:"schemas"`
	}
	if err := json.Unmarshal(data, &catalog); err != nil {
		t.Fatal(err)
	}
	matched := map[string]bool{}
	for _, s := range catalog.Schemas {
		if !ids[s.URL] || len(s.FileMatch) == 0 {
			t.Errorf("%s: no such schema, or no files", s.URL)
		}
		for _, name := range []string{"module.yaml", "p.graph.yaml", "p.lock.yaml", "mm.yaml", "trust.yaml"} {
			for _, pattern := range s.FileMatch {
				if ok, _ := path.Match(pattern, name); ok {
					matched[name] = true
				}
			}
		}
	}
	if len(matched) != 5 {
		t.Errorf("matched %v, want 5 kinds of files", matched)
	}
}

// Only JSON's white space may follow a value.
func TestReadValueSpace(t *testing.T) {
	for text, good := range map[string]bool{"3": true, "3 \t\r\n": true, "3\v": false, "3\u00a0": false, "3 4": false} {
		if _, err := ReadValue([]byte(text)); (err == nil) != good {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// The locks of the repository's builds have the digests of its modules' files. The whole
// check is mm lock --check.
func TestLocks(t *testing.T) {
	locks, err := filepath.Glob("../builds/*.lock.yaml")
	if err != nil || len(locks) == 0 {
		t.Fatal(locks, err)
	}
	for _, file := range locks {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, list := Load(Lock, file, data)
		var lock struct {
			Modules []struct {
				Source string                          `json:"source"`
				Files  []struct{ Path, Digest string } `json:"files"`
			} `json:"modules"`
		}
		if doc == nil || doc.Decode(&lock) != nil || len(lock.Modules) == 0 {
			t.Fatal(file, list)
		}
		for _, m := range lock.Modules {
			for _, f := range m.Files {
				data, err := os.ReadFile(filepath.Join("..", m.Source, f.Path))
				if got := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); err != nil || got != f.Digest {
					t.Errorf("%s: %s/%s: got %s, want %s (%v): run mm lock", file, m.Source, f.Path, got, f.Digest, err)
				}
			}
		}
	}
}
