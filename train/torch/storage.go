package torch

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/fsx"
)

// maxDescription bounds the description of one saved tensor, in bytes.
const maxDescription = 1 << 16

// shards writes a tensor as float32 from its files.
type shards struct {
	folder string
	tensor stored
}

// WriteTo reads the chunks and writes the tensor. Only one is in memory.
func (s shards) WriteTo(w io.Writer) (int64, error) {
	t := s.tensor
	out := make([]byte, 4*product(t.shape)) // distinct has compared it with the files
	for _, c := range t.chunks {
		data, err := s.read(c)
		if err != nil {
			return 0, fmt.Errorf("tensor %q: %s: %w", t.name, c.file, err)
		}
		place2D(out, data, t.shape, c)
	}
	n, err := w.Write(out)
	return int64(n), err
}

// place2D copies the rows of a chunk into a tensor of one or two dimensions.
func place2D(out, data []byte, shape []int, c chunk) {
	width, from, cols := 1, 0, 1
	if len(shape) == 2 {
		width, from, cols = shape[1], c.offsets[1], c.sizes[1]
	}
	for r := range c.sizes[0] {
		at := 4 * ((c.offsets[0]+r)*width + from)
		copy(out[at:at+4*cols], data[4*r*cols:])
	}
}

// read returns the numbers of a chunk as float32, little endian.
func (s shards) read(c chunk) ([]byte, error) {
	f, err := fsx.OpenPlain(s.folder, c.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return saved(io.NewSectionReader(f, c.at, c.length), c.length, s.tensor.dtype, c.sizes)
}

// storageTypes maps a type of numbers to the class of its storage and its
// width.
var storageTypes = map[string]struct {
	class global
	width int
}{
	"float32": {"torch.FloatStorage", 4}, "float16": {"torch.HalfStorage", 2}, "bfloat16": {"torch.BFloat16Storage", 2},
}

// saved reads a tensor written by torch.save: a zip archive with a pickle that
// describes one tensor over one storage, which is stored as it is.
func saved(r io.ReaderAt, size int64, dtype string, shape []int) ([]byte, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	kind := storageTypes[dtype]
	description, err := entry(z, "data.pkl", -1)
	if err != nil {
		return nil, err
	}
	if err := describes(description, kind.class, shape); err != nil {
		return nil, err
	}
	switch order, err := entry(z, "byteorder", -1); {
	case errors.Is(err, errMissing): // older than the entry
	case err != nil:
		return nil, err
	case string(order) != "little":
		return nil, fmt.Errorf("byte order %q, want little", order)
	}
	raw, err := entry(z, "data/0", int64(kind.width*product(shape)))
	if err != nil {
		return nil, err
	}
	return widen(raw, dtype), nil
}

// errMissing reports an archive without an entry.
var errMissing = errors.New("missing entry")

// entry returns the file of a name below the archive's folder. It must be
// stored and of the size; -1 means any size up to maxDescription.
func entry(z *zip.Reader, name string, size int64) ([]byte, error) {
	i := slices.IndexFunc(z.File, func(f *zip.File) bool {
		dir, base := path.Split(f.Name)
		if rest := path.Base(path.Clean(dir)); path.Dir(name) != "." {
			return base == path.Base(name) && rest == path.Dir(name)
		}
		return base == name
	})
	if i < 0 {
		return nil, fmt.Errorf("%w %s", errMissing, name)
	}
	f := z.File[i]
	n := int64(f.UncompressedSize64)
	switch {
	case f.Method != zip.Store || f.CompressedSize64 != f.UncompressedSize64:
		return nil, fmt.Errorf("%s is compressed", name)
	case size >= 0 && n != size, size < 0 && (n < 0 || n > maxDescription):
		return nil, fmt.Errorf("%s has %d bytes, want %d", name, n, size)
	}
	body, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data := make([]byte, n) // no more than the archive holds: the entry is stored
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, err
	}
	if _, err := body.Read(make([]byte, 1)); err != io.EOF { // reads the checksum
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// describes checks that a pickle describes a contiguous tensor of a shape over
// a storage of as many elements.
func describes(data []byte, class global, shape []int) error {
	v, err := unpickle(data, func(g global) bool {
		return g == class || g == "torch._utils._rebuild_tensor_v2" || g == "collections.OrderedDict"
	})
	if err != nil {
		return err
	}
	o, ok := v.(*object)
	if !ok || o.class != "torch._utils._rebuild_tensor_v2" || len(o.args) < 4 {
		return errors.New("description of a value that is not a tensor")
	}
	id, ok := o.args[0].(persistent)
	if !ok {
		return errors.New("tensor without a storage")
	}
	storage, ok := id.id.(tuple)
	if !ok || len(storage) != 5 || storage[0] != "storage" || storage[1] != class || storage[2] != "0" {
		return fmt.Errorf("malformed storage, want one of %s", class)
	}
	if storage[4] != int64(product(shape)) || o.args[1] != int64(0) {
		return fmt.Errorf("storage of %v elements from %v, want %d from 0", storage[4], o.args[1], product(shape))
	}
	sizes, err1 := extent(o.args[2], 0)
	strides, err2 := extent(o.args[3], 0)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	want := []int{1}
	if len(shape) == 2 {
		want = []int{shape[1], 1}
	}
	if !slices.Equal(sizes, shape) || len(strides) != len(shape) || product(shape) > 0 && !slices.Equal(strides, want) {
		return fmt.Errorf("tensor %v with strides %v, want %v with %v", sizes, strides, shape, want)
	}
	return nil
}

// widen returns numbers as float32.
func widen(raw []byte, dtype string) []byte {
	if dtype == "float32" {
		return raw
	}
	out, values := make([]byte, 0, 2*len(raw)), make([]float32, len(raw)/2)
	if dtype == "float16" {
		tensor.FromF16(values, raw)
	} else {
		for i := range values {
			values[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
	}
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}
