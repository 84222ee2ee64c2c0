package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// lineageFile is the record of a data set of mm data build, in its folder.
const lineageFile = "lineage.json"

// maxLineage bounds the size of a lineage in bytes.
const maxLineage = 16 << 20

// Lineage identifies a data set of mm data build: a digest of its manifest, which
// has the digests of the sources.
type Lineage struct {
	Digest  string `json:"digest"`
	Name    string `json:"name,omitempty"`
	License string `json:"license,omitempty"`
}

// built holds the files of a lineage.
type built struct {
	Lineage
	Format string   `json:"format"`
	Keys   []string `json:"keys"`
	Files  []struct {
		Split  string `json:"split"`
		File   string `json:"file"`
		SHA256 string `json:"sha256"`
	} `json:"files"`
}

func readLineage(dir string) (*built, error) {
	data, err := fsx.ReadFile(filepath.Join(dir, lineageFile), maxLineage)
	if err != nil {
		return nil, err
	}
	return parseLineage(data)
}

// parseLineage parses an untrusted lineage.
func parseLineage(data []byte) (*built, error) {
	var b built
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("%s: %w", lineageFile, err)
	}
	if b.Digest == "" || len(b.Files) == 0 {
		return nil, fmt.Errorf("%s: missing digest or files", lineageFile)
	}
	return &b, nil
}

// verify compares the digest of a file with the lineage.
func (b *built) verify(dir, name string) error {
	for _, f := range b.Files {
		if f.File != name {
			continue
		}
		_, got, err := fsx.Digest(filepath.Join(dir, name))
		if err == nil && got != "sha256:"+f.SHA256 {
			err = fmt.Errorf("%s differs from its lineage: got %s, want sha256:%s", name, got, f.SHA256)
		}
		return err
	}
	return fmt.Errorf("%s is not in the lineage", name)
}

// from returns d with the files of the data set that it names, and the lineages
// of its files. Files next to a lineage that lists them must match it.
func (d Data) from(f *files) (Data, []Lineage, error) {
	if d.Manifest == "" {
		all, err := d.lineages(f.dir)
		return d, all, err
	}
	folder := Resolve(f.dir, d.Manifest)
	b, err := d.manifest(f, folder)
	if err != nil {
		return d, nil, At("/data/manifest", err)
	}
	d.Format = b.Format
	if b.Format == "jsonl" {
		d.Keys = b.Keys
		if slices.Equal(b.Keys, []string{"answer", "prompt"}) {
			d.Keys, d.Context = []string{"prompt", "answer"}, []string{"prompt"}
		}
	}
	for _, file := range b.Files {
		if !isName(file.File) {
			return d, nil, Atf("/data/manifest", "%s: file %q, want a name", lineageFile, file.File)
		}
		path := below(d.Manifest, file.File)
		switch file.Split {
		case "train":
			d.Files = append(d.Files, path)
		case "held-out":
			d.HeldFiles = append(d.HeldFiles, path)
		default:
			continue
		}
		if IsAddress(path) {
			f.want[path] = file.SHA256 // compared at its end
		} else if err := b.verify(folder, file.File); err != nil {
			return d, nil, At("/data/manifest", err)
		}
	}
	return d, []Lineage{b.Lineage}, nil
}

// isName reports whether the file of a lineage is next to it.
func isName(file string) bool {
	return file != "" && file != "." && file != ".." && !strings.ContainsAny(file, `/\:`)
}

// manifest reads the lineage in the folder or below the prefix of the manifest.
func (d Data) manifest(f *files, folder string) (*built, error) {
	if !IsAddress(d.Manifest) {
		return readLineage(folder)
	}
	if f.objects == nil {
		return nil, fmt.Errorf("%s: %w", d.Manifest, errNoObjects)
	}
	plain := *f // the lineage itself is not data
	data, err := plain.readAll(below(d.Manifest, lineageFile), maxLineage)
	if err != nil {
		return nil, err
	}
	return parseLineage(data)
}

// withFiles checks d after its manifest was read.
func (d Data) withFiles() error {
	if d.Manifest == "" {
		return nil
	}
	if (d.Format == chatFormat) != (d.Template != "") {
		return Atf("/data/manifest", "data: a data set of conversations requires template, and no other does")
	}
	return nil
}

// lineages returns the lineages of the files that have one.
func (d Data) lineages(dir string) (all []Lineage, err error) {
	for _, name := range slices.Concat(d.Files, d.HeldFiles) {
		if IsAddress(name) {
			continue
		}
		path := Resolve(dir, name)
		b, err := readLineage(filepath.Dir(path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = b.verify(filepath.Dir(path), filepath.Base(path))
		}
		if err != nil {
			return nil, At("/data/files", err)
		}
		if !slices.Contains(all, b.Lineage) {
			all = append(all, b.Lineage)
		}
	}
	return all, nil
}
