package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/mmap"
)

// Keys of a model in pieces, as llama-gguf-split writes them. A joined file does
// not have them.
const (
	KeySplitCount   = "split.count"         // u16, number of pieces
	KeySplitNo      = "split.no"            // u16, from 0
	KeySplitTensors = "split.tensors.count" // i32, of all pieces
)

// maxPieces limits the pieces of a model.
const maxPieces = 4096

// ErrPiece reports a file that is one piece of a model and cannot be read alone.
var ErrPiece = errors.New("piece of a model")

// PieceName returns the name of piece i (from 0) of n: PREFIX-00001-of-00003.gguf.
func PieceName(prefix string, i, n int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, n)
}

// ParsePieceName splits the path of a piece. It reports false for other paths.
func ParsePieceName(path string) (prefix string, i, n int, ok bool) {
	words := strings.Split(strings.TrimSuffix(path, ".gguf"), "-")
	if k := len(words); k > 3 && words[k-2] == "of" {
		i, n = number(words[k-3])-1, number(words[k-1])
		prefix = strings.Join(words[:k-3], "-")
	}
	ok = prefix != "" && 0 <= i && i < n && path == PieceName(prefix, i, n)
	return prefix, i, n, ok
}

// PiecePaths returns the paths of all pieces of the model whose first piece is at
// path, by its name; path alone if it is not the first of several.
func PiecePaths(path string) []string {
	paths := []string{path}
	if prefix, i, n, ok := ParsePieceName(path); ok && i == 0 && n <= maxPieces {
		for i := 1; i < n; i++ {
			paths = append(paths, PieceName(prefix, i, n))
		}
	}
	return paths
}

func number(digits string) int {
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}

// Stem returns the base name of a model's path without extension and piece number.
func Stem(path string) string {
	if prefix, _, _, ok := ParsePieceName(path); ok {
		return filepath.Base(prefix)
	}
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

// place of a file among the pieces of a model.
type split struct{ no, count, tensors int }

// split returns the place of f among pieces; count is at most 1 for a whole model.
func (f *File) split() (s split, err error) {
	count, err := GetOr(f, KeySplitCount, uint16(0))
	if s.count = int(count); err != nil || count < 2 {
		return s, err
	}
	if count > maxPieces {
		return s, fmt.Errorf("gguf: too many pieces: got %d, limit %d", count, maxPieces)
	}
	no, err := Get[uint16](f, KeySplitNo)
	if err != nil {
		return s, err
	}
	if no >= count {
		return s, fmt.Errorf("gguf: key %s: got %d, want less than the %d pieces", KeySplitNo, no, count)
	}
	tensors, err := Get[int32](f, KeySplitTensors)
	s.no, s.tensors = int(no), int(tensors)
	return s, err
}

// single refuses a piece, and removes the keys of pieces from a model in one file.
func (f *File) single() error {
	s, err := f.split()
	if err == nil && s.count > 1 {
		err = fmt.Errorf("gguf: %w: got only piece %d of %d", ErrPiece, s.no+1, s.count)
	}
	f.dropSplit()
	return err
}

func (f *File) dropSplit() {
	if !f.Has(KeySplitCount) {
		return
	}
	f.KVs = slices.DeleteFunc(slices.Clone(f.KVs), func(kv KV) bool { return isSplitKey(kv.Key) })
	clear(f.keys)
	for i, kv := range f.KVs {
		f.keys[kv.Key] = i
	}
}

func isSplitKey(key string) bool {
	return key == KeySplitCount || key == KeySplitNo || key == KeySplitTensors
}

// join appends the other pieces of a model to the first. names are those of all
// pieces. llama.cpp checks the numbers; it does not compare metadata.
func (f *File) join(names []string, rest []*File) error {
	if len(rest) == 0 {
		return f.single()
	}
	first, err := f.split()
	if err != nil {
		return err
	}
	for i, p := range rest {
		if err := f.add(p, first, i+1); err != nil {
			return fmt.Errorf("%s: %w", names[i+1], err)
		}
	}
	if n := len(f.Tensors); n != first.tensors {
		return fmt.Errorf("gguf: tensor count of %d pieces: got %d, key %s of the first is %d", first.count, n, KeySplitTensors, first.tensors)
	}
	f.dropSplit()
	return nil
}

// add appends piece i of a model.
func (f *File) add(p *File, first split, i int) error {
	s, err := p.split()
	if err != nil {
		return err
	}
	if s.count == 0 {
		return fmt.Errorf("gguf: got a whole model, want piece %d of %d", i+1, first.count)
	}
	want := split{i, first.count, first.tensors}
	if s != want {
		return fmt.Errorf("gguf: piece of another model: got piece %d of %d with %d tensors in all, want %d of %d with %d",
			s.no+1, s.count, s.tensors, want.no+1, want.count, want.tensors)
	}
	for _, kv := range p.KVs {
		if j, ok := f.keys[kv.Key]; ok && !isSplitKey(kv.Key) && !reflect.DeepEqual(f.KVs[j].Value, kv.Value) {
			return fmt.Errorf("gguf: piece of another model: key %s differs from the first piece's", kv.Key)
		}
	}
	for _, t := range p.Tensors {
		if _, twice := f.names[t.Name]; twice {
			return fmt.Errorf("gguf: duplicate tensor %q: an earlier piece has it", t.Name)
		}
		t.piece = i
		f.names[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	f.src, f.maps = append(f.src, p.src...), append(f.maps, p.maps...)
	f.size += p.size
	return nil
}

// piecesOf returns the paths of all pieces of the model whose first piece f is at
// path.
func (f *File) piecesOf(path string) ([]string, error) {
	s, err := f.split()
	if err != nil || s.count < 2 {
		return []string{path}, err
	}
	prefix, i, n, ok := ParsePieceName(path)
	switch named := ok && i == s.no && n == s.count; {
	case s.no != 0 && named:
		return nil, fmt.Errorf("gguf: %w: got piece %d of %d, want the first: %s", ErrPiece, s.no+1, s.count, PieceName(prefix, 0, n))
	case s.no != 0:
		return nil, fmt.Errorf("gguf: %w: got piece %d of %d, want the first", ErrPiece, s.no+1, s.count)
	case !named:
		return nil, fmt.Errorf("gguf: %w: got name %s for piece 1 of %d, want %s", ErrPiece, filepath.Base(path), s.count, PieceName("NAME", 0, s.count))
	}
	paths, missing := PiecePaths(path), []string(nil)
	for _, p := range paths {
		if _, err := os.Stat(p); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, filepath.Base(p))
		}
	}
	if k := len(missing); k > 0 {
		if k > 8 {
			missing = append(missing[:8], fmt.Sprintf("and %d more", k-8))
		}
		return nil, fmt.Errorf("gguf: missing pieces: %s", strings.Join(missing, ", "))
	}
	return paths, nil
}

// openOne maps a file, which may be a piece.
func openOne(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := parseOne(m.Data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), m.Close())
	}
	f.maps = []*mmap.Map{m}
	return f, nil
}

// openRest maps and joins the pieces after the first; paths are those of all.
func (f *File) openRest(paths []string) error {
	var rest []*File
	for _, path := range paths[1:] {
		p, err := openOne(path)
		if err != nil {
			return errors.Join(err, closeAll(rest))
		}
		rest = append(rest, p)
	}
	if err := f.join(paths, rest); err != nil {
		f.maps = f.maps[:1]
		return errors.Join(err, closeAll(rest))
	}
	return nil
}

func closeAll(files []*File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Output is a file of a model in pieces, to write with [Write].
type Output struct {
	KVs     []KV
	Tensors []Source
}

// Split divides a model into pieces, each with at most limit bytes of
// tensors or one larger tensor. The first has the metadata. A model that fits in
// one piece is not changed.
func Split(kvs []KV, tensors []Source, limit int64) ([]Output, error) {
	align, err := alignmentOf(kvs)
	if err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("gguf: size of a piece: got %d, want at least 1", limit)
	}
	out, size := []Output{{KVs: kvs}}, int64(0)
	for _, t := range tensors {
		_, n, err := appendInfo(nil, t, 0)
		if err != nil {
			return nil, err
		}
		n = pad(n, align)
		if size > 0 && n > limit-size {
			out, size = append(out, Output{}), 0
		}
		size += n
		out[len(out)-1].Tensors = append(out[len(out)-1].Tensors, t)
	}
	if len(out) > maxPieces {
		return nil, fmt.Errorf("gguf: too many pieces: got %d, limit %d", len(out), maxPieces)
	}
	if len(out) == 1 {
		return out, nil
	}
	for i := range out {
		if i > 0 && align != defaultAlignment {
			out[i].KVs = []KV{{KeyAlignment, uint32(align)}}
		}
		out[i].KVs = append(slices.Clip(out[i].KVs), KV{KeySplitNo, uint16(i)}, KV{KeySplitCount, uint16(len(out))}, KV{KeySplitTensors, int32(len(tensors))})
	}
	return out, nil
}

// SplitInto is [Split] into at most n pieces of as equal size as the tensors allow.
func SplitInto(kvs []KV, tensors []Source, n int) ([]Output, error) {
	if n < 1 || n > maxPieces {
		return nil, fmt.Errorf("gguf: number of pieces: got %d, want 1 to %d", n, maxPieces)
	}
	sizes, total := make([]int64, len(tensors)), int64(0)
	align, err := alignmentOf(kvs)
	if err != nil {
		return nil, err
	}
	for i, t := range tensors {
		if _, sizes[i], err = appendInfo(nil, t, 0); err != nil {
			return nil, err
		}
		sizes[i] = pad(sizes[i], align)
		total += sizes[i]
	}
	fits := func(limit int64) bool {
		pieces, size := 1, int64(0)
		for _, k := range sizes {
			if size > 0 && k > limit-size {
				pieces, size = pieces+1, 0
			}
			size += k
		}
		return pieces <= n
	}
	lo, hi := int64(1), max(1, total)
	for lo < hi {
		if mid := lo + (hi-lo)/2; fits(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return Split(kvs, tensors, hi)
}
