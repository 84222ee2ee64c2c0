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

// openShards maps the weight files of a folder: one, or those in the index.
func openShards(dir string) ([]*safetensors.File, error) {
	index, err := readOptional(dir, indexFile, maxIndex)
	if err != nil {
		return nil, err
	}
	if index == nil {
		f, err := safetensors.Open(filepath.Join(dir, singleFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("missing both %s and %s%s", singleFile, indexFile, others(dir))
		}
		if err != nil {
			return nil, err
		}
		return []*safetensors.File{f}, nil
	}
	where, err := parseIndex(index)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	var shards []*safetensors.File
	for _, name := range slices.Sorted(maps.Keys(where)) {
		f, err := safetensors.Open(filepath.Join(dir, name))
		if err == nil {
			shards = append(shards, f)
			err = holds(f, where[name])
		}
		if err != nil {
			for _, s := range shards {
				err = errors.Join(err, s.Close())
			}
			return nil, fmt.Errorf("%s: %w", indexFile, err)
		}
	}
	return shards, nil
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

// holds checks that a file has the tensors listed in the index.
func holds(f *safetensors.File, names []string) error {
	for _, n := range names {
		if _, ok := f.Tensor(n); !ok {
			return fmt.Errorf("missing tensor %s in the file of the index", n)
		}
	}
	return nil
}
