package hf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/internal/fsx"
)

// KeptFolder is the folder of a module with the files of [Model.Keep].
const KeptFolder = "transformers"

// headerSuffix is the suffix of a kept header of a weight file.
const headerSuffix = ".header"

// exactFile has the tensors whose numbers the conversion changes, which rounds them:
// gains stored minus 1 and logarithms; and those of which it leaves rows
// out, and those that become keys.
const exactFile = "gains.exact"

// companions are the files of a folder, other than weights, that programs for
// transformers read.
func companions() []string {
	return []string{
		"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
		"tokenizer.model", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json", indexFile,
	}
}

// Keep returns the files with which [Restore] writes the folder at dir, of which m was
// read, again: the configuration, the tokenizer and the headers of the weight files. It
// returns an error if the weights of the GGUF file do not have all tensors of the folder.
func (m *Model) Keep(dir string) (map[string][]byte, error) {
	if err := m.covers(); err != nil {
		return nil, err
	}
	kept := map[string][]byte{}
	for _, name := range companions() {
		b, err := readOptional(dir, name, maxTokenizer)
		if err != nil {
			return nil, err
		}
		if b != nil && (name != indexFile || m.shards.note == "") {
			kept[name] = b
		}
	}
	for _, name := range m.shards.names {
		head, err := readHead(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		kept[name+headerSuffix] = head
	}
	var exact []safetensors.Source
	for _, s := range m.sources {
		if src, ok := s.Data.(*source); ok && (src.computes() || src.cut) {
			for _, p := range src.parts {
				exact = append(exact, safetensors.Source{Name: p.Name, DType: p.DType, Shape: p.Shape, Data: safetensors.Bytes(p.Data)})
			}
		}
	}
	for _, t := range m.settings {
		exact = append(exact, safetensors.Source{Name: t.Name, DType: t.DType, Shape: t.Shape, Data: safetensors.Bytes(t.Data)})
	}
	if exact == nil {
		return kept, nil
	}
	var b bytes.Buffer
	_, err := safetensors.Write(&b, nil, exact)
	kept[exactFile] = b.Bytes()
	return kept, err
}

// readHead reads the header of a weight file, with its length and padding.
func readHead(path string) ([]byte, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var size [8]byte
	if _, err := io.ReadFull(f, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxTokenizer {
		return nil, fmt.Errorf("the header exceeds %d bytes", maxTokenizer)
	}
	head := make([]byte, 8+n)
	copy(head, size[:])
	_, err = io.ReadFull(f, head[8:])
	return head, err
}

// covers reports whether the sources have all tensors of the folder. The output of tied
// weights may be the embedding once more.
func (m *Model) covers() error {
	used := map[string]bool{}
	for _, t := range m.settings {
		used[t.Name] = true
	}
	for _, s := range m.sources {
		switch src := s.Data.(type) {
		case *source:
			for _, p := range src.parts {
				used[p.Name] = true
			}
		case values:
		default:
			return fmt.Errorf("tensor %s has blocks in another format", s.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Tensors())) {
		if !used[name] && name != m.tiedOutput {
			return fmt.Errorf("tensor %s is not in the GGUF file", name)
		}
	}
	return nil
}
