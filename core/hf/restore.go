package hf

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/fsx"
)

// KeptFolder is the folder of a module with the files of [Model.Keep].
const KeptFolder = "transformers"

// headerSuffix is the suffix of a kept header of a weight file.
const headerSuffix = ".header"

// gainsFile has the tensors to which the conversion adds a number, which rounds them.
const gainsFile = "gains.exact"

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
	var gains []safetensors.Source
	for _, s := range m.sources {
		if src, ok := s.Data.(*source); ok && src.plus != 0 {
			for _, p := range src.parts {
				gains = append(gains, safetensors.Source{Name: p.Name, DType: p.DType, Shape: p.Shape, Data: safetensors.Bytes(p.Data)})
			}
		}
	}
	if gains == nil {
		return kept, nil
	}
	var b bytes.Buffer
	_, err := safetensors.Write(&b, nil, gains)
	kept[gainsFile] = b.Bytes()
	return kept, err
}

// readHead reads the header of a weight file, with its length and padding.
func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
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

// Restore writes the folder of transformers that a GGUF file was converted from: the kept
// files, and the weights, which are the original ones if the file's are not quantized. It
// returns notes about weights that are not. dir must exist; a weight file in it is an error.
func Restore(ctx context.Context, dir string, kept map[string][]byte, f *gguf.File) (notes []string, err error) {
	if err := skeleton(dir, kept, f); err != nil {
		return nil, err
	}
	m, err := Open(dir, Options{Ignore: keysOf(kept["config.json"])})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.covers(); err != nil {
		return nil, err
	}
	r := restorer{m: m, files: map[string]*os.File{}, gains: &safetensors.File{}, rounded: map[string]int{}}
	if text := kept[gainsFile]; text != nil {
		if r.gains, err = safetensors.Parse(text); err != nil {
			return nil, fmt.Errorf("%s: %w", gainsFile, err)
		}
	}
	out, err := fsx.Open(dir, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer out.Close()
	for i, name := range m.shards.names {
		file, err := out.Root().OpenFile(filepath.FromSlash(name), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, file.Sync(), file.Close()) }()
		for _, t := range m.shards.files[i].Tensors {
			r.files[t.Name] = file
		}
	}
	stored := map[string]gguf.Tensor{}
	for _, t := range f.Tensors {
		stored[t.Name] = t
	}
	for _, s := range m.sources {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		src, ok := s.Data.(*source)
		if !ok { // from config.json
			continue
		}
		t, ok := stored[s.Name]
		if !ok || !slices.Equal(t.Dims, s.Dims) {
			return nil, fmt.Errorf("tensor %s: got %v in the GGUF file, want %v", s.Name, t.Dims, s.Dims)
		}
		if err := r.restore(src, t); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", s.Name, err)
		}
	}
	if err := r.tie(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(r.rounded)) {
		notes = append(notes, fmt.Sprintf("%d tensors were %s: their weights are rounded, not the original ones", r.rounded[name], name))
	}
	return notes, nil
}

// keysOf returns the keys of a JSON object and of the objects in it, all of which the
// conversion has accepted.
func keysOf(text []byte) []string {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return nil
	}
	var keys []string
	for key, value := range object {
		keys = append(append(keys, key), keysOf(value)...)
	}
	return keys
}

// skeleton writes the kept files, and the weight files with zeros. If the GGUF file has
// an output matrix, the folder's differs from the embedding.
func skeleton(dir string, kept map[string][]byte, f *gguf.File) error {
	output := slices.ContainsFunc(f.Tensors, func(t gguf.Tensor) bool { return t.Name == arch.Output })
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			return fmt.Errorf("bad name %q of a kept file", name)
		}
		if name == gainsFile {
			continue
		}
		path := filepath.Join(dir, name)
		weights, header := strings.CutSuffix(path, headerSuffix)
		if !header {
			if err := fsx.WriteFile(path, kept[name], 0o644); err != nil {
				return err
			}
			continue
		}
		if err := blank(weights, kept[name], output); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(weights), err)
		}
	}
	return nil
}

// blank creates a weight file with a header. Its data are zeros; if distinct, each tensor
// begins with its own number, so that no two are the same.
func blank(path string, head []byte, distinct bool) (err error) {
	size, tensors, err := safetensors.Layout(head)
	if err != nil {
		return err
	}
	dir, err := fsx.Open(filepath.Dir(path), fsx.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dir.Root().OpenFile(filepath.Base(path), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(head); err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	for i, t := range tensors {
		if distinct && t.Size >= 2 {
			if _, err := f.WriteAt(binary.LittleEndian.AppendUint16(nil, uint16(i)), t.Offset); err != nil {
				return err
			}
		}
	}
	return nil
}

// restorer writes tensors into the weight files.
type restorer struct {
	m       *Model
	files   map[string]*os.File // by tensor
	gains   *safetensors.File
	rounded map[string]int // tensors by the type of their weights in the GGUF file
}

// restore writes the parts that a tensor was made of.
func (r *restorer) restore(s *source, t gguf.Tensor) error {
	switch {
	case !quant.CanDequantize(t.Type):
		return fmt.Errorf("unsupported type %s", t.Type)
	case t.Type != s.to && t.Type != tensor.F32:
		r.rounded[t.Type.String()]++
	}
	row := t.Type.RowBytes(s.cols)
	size := s.from.BlockBytes()
	for i, p := range s.parts {
		data := make([]byte, len(p.Data))
		if _, err := r.files[p.Name].ReadAt(data, p.Offset); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		from := t.Data[i*s.rows*row : (i+1)*s.rows*row]
		numbers := make([]byte, s.rows*s.cols*size)
		s.revert(numbers, from, t.Type)
		if g, ok := r.gains.Tensor(p.Name); ok && len(g.Data) == len(numbers) && t.Type == s.to && bytes.Equal(s.convert(g.Data), from) {
			numbers = g.Data // unchanged since the conversion
		}
		s.scatter(data, numbers, size)
		if _, err := r.files[p.Name].WriteAt(data, p.Offset); err != nil {
			return err
		}
	}
	return nil
}

// revert converts numbers of the GGUF file to the type of the parts.
func (s *source) revert(to, from []byte, typ tensor.Type) {
	if typ == s.from && s.plus == 0 {
		copy(to, from)
		return
	}
	x := make([]float32, s.rows*s.cols)
	quant.Dequantize(x, from, typ)
	for i := range x {
		x[i] -= s.plus
	}
	quant.Quantize(to, x, s.from)
}

// scatter moves the rows of a tensor to their places in a part.
func (s *source) scatter(part, rows []byte, size int) {
	for i := range s.rows {
		row := rows[i*s.cols*size : (i+1)*s.cols*size]
		if s.transpose {
			for c := range s.cols {
				copy(part[(c*s.width+s.first+i*s.step)*size:][:size], row[c*size:])
			}
			continue
		}
		at := i
		if s.order != nil {
			at = s.order(i)
		}
		copy(part[at*s.cols*size:], row)
	}
}

// tie copies the embedding to an output that is its copy.
func (r *restorer) tie() error {
	name := r.m.tiedOutput
	if name == "" {
		return nil
	}
	all := r.m.Tensors()
	from, to := all[r.m.embedding], all[name]
	if from.Size != to.Size || r.files[from.Name] == nil || r.files[to.Name] == nil {
		return fmt.Errorf("tensors %s and %s differ", from.Name, to.Name)
	}
	_, err := io.Copy(io.NewOffsetWriter(r.files[to.Name], to.Offset), io.NewSectionReader(r.files[from.Name], from.Offset, from.Size))
	return err
}

// Same reports whether two folders have the same weights by name, type, shape and bytes;
// the error names the first difference.
func Same(a, b string) (err error) {
	x, err := openShards(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	y, err := openShards(b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.close()) }()
	left, right := (&Model{shards: x}).Tensors(), (&Model{shards: y}).Tensors()
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if t, ok := right[name]; !ok || !same(left[name], t) {
			return fmt.Errorf("tensor %s differs", name)
		}
	}
	if len(left) != len(right) {
		return fmt.Errorf("%d tensors, want %d", len(right), len(left))
	}
	return nil
}
