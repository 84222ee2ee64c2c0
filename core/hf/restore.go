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
	"math"
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
	r := restorer{m: m, files: map[string]*os.File{}, exact: &safetensors.File{}, rounded: map[string]int{}}
	if text := kept[exactFile]; text != nil {
		if r.exact, err = safetensors.Parse(text); err != nil {
			return nil, fmt.Errorf("%s: %w", exactFile, err)
		}
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.open(dir); err != nil {
		return nil, err
	}
	if err := r.restoreAll(ctx, f); err != nil {
		return nil, err
	}
	if err := r.restoreSettings(); err != nil {
		return nil, err
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
		if name == exactFile {
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
	all     []*os.File
	exact   *safetensors.File
	rounded map[string]int // tensors by the type of their weights in the GGUF file
}

// open opens the weight files in dir.
func (r *restorer) open(dir string) error {
	out, err := fsx.Open(dir, fsx.Options{})
	if err != nil {
		return err
	}
	defer out.Close()
	for i, name := range r.m.shards.names {
		file, err := out.Root().OpenFile(filepath.FromSlash(name), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		r.all = append(r.all, file)
		for _, t := range r.m.shards.files[i].Tensors {
			r.files[t.Name] = file
		}
	}
	return nil
}

// close writes the weight files to disk and closes them.
func (r *restorer) close() (err error) {
	for _, f := range r.all {
		err = errors.Join(err, f.Sync(), f.Close())
	}
	return err
}

// restoreAll writes the tensors of a GGUF file.
func (r *restorer) restoreAll(ctx context.Context, f *gguf.File) error {
	for _, s := range r.m.sources {
		if err := ctx.Err(); err != nil {
			return err
		}
		src, ok := s.Data.(*source)
		if !ok { // from config.json
			continue
		}
		t, ok := f.Tensor(s.Name)
		if !ok || !slices.Equal(t.Dims, s.Dims) {
			return fmt.Errorf("tensor %s: got %v in the GGUF file, want %v", s.Name, t.Dims, s.Dims)
		}
		if err := r.restore(src, t); err != nil {
			return fmt.Errorf("tensor %s: %w", s.Name, err)
		}
	}
	return nil
}

// restoreSettings writes the tensors that became keys.
func (r *restorer) restoreSettings() error {
	for _, t := range r.m.settings {
		g, ok := r.exact.Tensor(t.Name)
		if !ok || len(g.Data) != len(t.Data) {
			return fmt.Errorf("tensor %s is missing in %s", t.Name, exactFile)
		}
		if _, err := r.files[t.Name].WriteAt(g.Data, t.Offset); err != nil {
			return err
		}
	}
	return nil
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
		if err := s.revert(numbers, from, t.Type); err != nil {
			return err
		}
		g, ok := r.exact.Tensor(p.Name)
		if ok && s.cut && len(g.Data) == len(data) {
			copy(data, g.Data)
		}
		if ok && len(g.Data) == len(numbers) && t.Type == s.to && s.matches(g.Data, from) {
			copy(data, g.Data) // unchanged since the conversion
		} else {
			s.scatter(data, numbers, size)
		}
		if _, err := r.files[p.Name].WriteAt(data, p.Offset); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether a part becomes these rows of the GGUF file.
func (s *source) matches(part, rows []byte) bool {
	var b bytes.Buffer
	_, err := s.write(&b, part)
	return err == nil && bytes.Equal(b.Bytes(), rows)
}

// revert converts numbers of the GGUF file to the type of the parts.
func (s *source) revert(to, from []byte, typ tensor.Type) error {
	if typ == s.from && !s.computes() {
		copy(to, from)
		return nil
	}
	x := make([]float32, s.rows*s.cols)
	quant.Dequantize(x, from, typ)
	for i := range x {
		if s.logs {
			x[i] = float32(math.Log(-float64(x[i])))
		}
		x[i] -= s.plus
	}
	quant.Quantize(to, x, s.from)
	return quant.Finite(to, s.from)
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
		if s.across == nil {
			copy(part[at*s.cols*size:], row)
			continue
		}
		for c := range s.cols {
			copy(part[(at*s.cols+s.across(c))*size:][:size], row[c*size:])
		}
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
