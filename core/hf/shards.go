package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/core/safetensors"
)

// Names of weight files.
const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
)

// maxShards limits the files of a model.
const maxShards = 4096

// shards are the mapped weight files of a folder.
type shards struct {
	files []*safetensors.File
	names []string          // of the files
	note  string            // about an unused file, or ""
	lost  map[string]string // tensors of the index that no file holds, with the index's file
}

// openShards maps the weight files of a folder as transformers does:
// model.safetensors if present, otherwise the files in the index.
func openShards(dir string) (shards, error) {
	var s shards
	switch _, err := os.Lstat(filepath.Join(dir, singleFile)); {
	case err == nil:
		if _, err := os.Lstat(filepath.Join(dir, indexFile)); err == nil {
			s.note = fmt.Sprintf("%s is not used, because %s exists", indexFile, singleFile)
		}
		return s, s.open(dir, singleFile)
	case !errors.Is(err, fs.ErrNotExist):
		return s, err
	}
	index, err := readOptional(dir, indexFile, maxIndex)
	if err != nil {
		return s, err
	}
	if index == nil {
		return s, fmt.Errorf("missing both %s and %s%s", singleFile, indexFile, others(dir))
	}
	where, err := parseIndex(index)
	if err != nil {
		return s, fmt.Errorf("%s: %w", indexFile, err)
	}
	for _, name := range slices.Sorted(maps.Keys(where)) {
		if err := s.open(dir, name); err != nil {
			return s, errors.Join(fmt.Errorf("%s: %w", indexFile, err), s.close())
		}
	}
	s.lost = map[string]string{}
	held := map[string]bool{}
	for _, f := range s.files {
		for _, t := range f.Tensors {
			held[t.Name] = true
		}
	}
	for name, tensors := range where {
		for _, t := range tensors {
			if !held[t] {
				s.lost[t] = name
			}
		}
	}
	return s, nil
}

// open maps a weight file. The error names a missing file, or the target of a
// broken link.
func (s *shards) open(dir, name string) error {
	f, err := safetensors.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		if target, linked := os.Readlink(filepath.Join(dir, name)); linked == nil {
			return fmt.Errorf("missing weight file %s: link to %s, which does not exist", name, target)
		}
		return fmt.Errorf("missing weight file %s", name)
	}
	if err != nil {
		return err
	}
	s.files, s.names = append(s.files, f), append(s.names, name)
	return nil
}

func (s *shards) close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// others names weights in unsupported formats, for the error message.
func others(dir string) string {
	for _, name := range []string{"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.safetensors", "tf_model.h5"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return "; " + name + " is not read"
		}
	}
	return ""
}

// parseIndex returns the names of tensors by file.
func parseIndex(b []byte) (map[string][]string, error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil {
		return nil, err
	}
	if len(index.WeightMap) == 0 {
		return nil, errors.New("weight_map is missing or empty")
	}
	files := map[string][]string{}
	for _, tensor := range slices.Sorted(maps.Keys(index.WeightMap)) {
		name := index.WeightMap[tensor]
		if name == "" || name != filepath.Base(name) || strings.Contains(name, `\`) || !strings.HasSuffix(name, ".safetensors") {
			return nil, fmt.Errorf("tensor %s: file %q is not in the folder", tensor, name)
		}
		files[name] = append(files[name], tensor)
		if len(files) > maxShards {
			return nil, fmt.Errorf("more than %d weight files", maxShards)
		}
	}
	return files, nil
}
