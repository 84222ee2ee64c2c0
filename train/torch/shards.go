package torch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
)

// The files of a folder of torch.distributed.checkpoint that train.py writes.
const (
	Metadata   = ".metadata"
	headerFile = "mm.safetensors" // mm's header and tokenizer
)

// Limits of a checkpoint folder.
const (
	maxMetadata = 64 << 20 // bytes of .metadata
	maxChunks   = 1 << 10  // parts of a tensor
	maxExtent   = 1 << 31  // of a dimension
)

// prefix begins the names of the weights; others belong to the optimizer.
const prefix = "model."

// shardName matches the files of tensors.
var shardName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^__[0-9]{1,9}_[0-9]{1,9}\.distcp$`) })

// Collect writes the weights of a folder of torch.distributed.checkpoint, as
// train.py leaves it, to out as a checkpoint of mm train.
func Collect(folder, out string) error {
	data, err := fsx.ReadFile(filepath.Join(folder, Metadata), maxMetadata)
	if err != nil {
		return err
	}
	tensors, err := parseMetadata(data)
	if err != nil {
		return err
	}
	if err := distinct(folder, tensors); err != nil {
		return err
	}
	var weights []safetensors.Source
	for _, t := range tensors {
		weights = append(weights, safetensors.Source{Name: t.name, DType: safetensors.F32, Shape: t.shape, Data: shards{folder, t}})
	}
	return train.Refill(filepath.Join(folder, headerFile), out, weights)
}

// distinct checks that the chunks lie in different parts of existing files and
// are large enough, which bounds the memory of all tensors by that of the files.
func distinct(folder string, tensors []stored) error {
	files := map[string][]chunk{}
	for _, t := range tensors {
		for _, c := range t.chunks {
			if need := int64(product(c.sizes)); c.length/int64(storageTypes[t.dtype].width) < need {
				return fmt.Errorf("tensor %q: %d bytes for %d elements", t.name, c.length, need)
			}
			files[c.file] = append(files[c.file], c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := fsx.OpenPlain(folder, name)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		end := int64(0)
		slices.SortFunc(files[name], func(a, b chunk) int { return cmp.Compare(a.at, b.at) })
		for _, c := range files[name] {
			if c.at < end || c.at > info.Size() || c.length > info.Size()-c.at {
				return fmt.Errorf("%s: chunk of %d bytes at %d overlaps another or the end at %d", name, c.length, c.at, info.Size())
			}
			end = c.at + c.length
		}
	}
	return nil
}

// stored is a weight in a folder of shards.
type stored struct {
	name   string // in mm
	dtype  string // such as float32
	shape  []int
	chunks []chunk
}

// chunk is a part of a tensor in a file.
type chunk struct {
	offsets, sizes []int
	file           string
	at, length     int64
}

// parseMetadata returns the weights that an untrusted .metadata describes, by
// name.
func parseMetadata(data []byte) ([]stored, error) {
	v, err := unpickle(data, metadataClass)
	if err != nil {
		return nil, err
	}
	root, ok := v.(*object)
	if !ok || root.class != classes+"Metadata" {
		return nil, errors.New("metadata: want an object of class Metadata")
	}
	described, ok1 := root.field("state_dict_metadata").(*dict)
	places, ok2 := root.field("storage_data").(*dict)
	if !ok1 || !ok2 {
		return nil, errors.New("metadata: missing state_dict_metadata or storage_data")
	}
	where, err := parsePlaces(places)
	if err != nil {
		return nil, err
	}
	var all []stored
	for i, k := range described.keys {
		key, ok := k.(string)
		if !ok || !strings.HasPrefix(key, prefix) {
			continue
		}
		t, err := parseTensor(key, described.values[i], where)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", key, err)
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("metadata: no tensor %s…", prefix)
	}
	slices.SortFunc(all, func(a, b stored) int { return strings.Compare(a.name, b.name) })
	for i := range all[1:] {
		if all[i].name == all[i+1].name {
			return nil, fmt.Errorf("tensor %q: duplicate", all[i].name)
		}
	}
	return all, nil
}

// classes is the module of the descriptions.
const classes = "torch.distributed.checkpoint.metadata."

// metadataClass reports whether metadata may contain a global.
func metadataClass(g global) bool {
	switch g {
	case classes + "Metadata", classes + "TensorStorageMetadata", classes + "BytesStorageMetadata", classes + "TensorProperties",
		classes + "ChunkStorageMetadata", classes + "MetadataIndex", classes + "StorageMeta", classes + "_MEM_FORMAT_ENCODING",
		"torch.distributed.checkpoint.filesystem._StorageInfo", "torch.serialization._get_layout", "torch.Size", "pathlib.PosixPath", "pathlib.WindowsPath":
		return true
	}
	_, ok := dtypes[string(g)]
	return ok
}

// dtypes are the types of numbers that metadata name; false: not those of
// weights that are read.
var dtypes = map[string]bool{
	"torch.float32": true, "torch.float16": true, "torch.bfloat16": true,
	"torch.float64": false, "torch.int64": false, "torch.int32": false, "torch.uint8": false, "torch.bool": false,
}

// place is the file of a chunk.
type place struct {
	offsets    []int
	file       string
	at, length int64
}

// parsePlaces returns the places of all chunks by the name of their tensor.
func parsePlaces(places *dict) (map[string][]place, error) {
	all := map[string][]place{}
	for i, k := range places.keys {
		index, ok1 := k.(*object)
		info, ok2 := places.values[i].(*object)
		if !ok1 || !ok2 {
			return nil, errors.New("storage_data: want objects")
		}
		name, ok := index.field("fqn").(string)
		if !ok {
			return nil, errors.New("storage_data: missing fqn")
		}
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		offsets, err := extent(index.field("offset"), 0)
		if err != nil {
			return nil, fmt.Errorf("storage_data: %s: offset: %w", name, err)
		}
		file, ok1 := info.field("relative_path").(string)
		at, ok2 := info.field("offset").(int64)
		length, ok3 := info.field("length").(int64)
		if !ok1 || !ok2 || !ok3 || at < 0 || length < 0 || !shardName().MatchString(file) {
			return nil, fmt.Errorf("storage_data: %s: malformed place in file %q", name, file)
		}
		if info.field("transform_descriptors") != nil {
			return nil, fmt.Errorf("storage_data: %s: transformed data, want plain", name)
		}
		if len(all[name]) == maxChunks {
			return nil, fmt.Errorf("storage_data: %s: more than %d places", name, maxChunks)
		}
		all[name] = append(all[name], place{offsets, file, at, length})
	}
	return all, nil
}

// parseTensor returns a described tensor, whose chunks must fill it.
func parseTensor(key string, v any, where map[string][]place) (stored, error) {
	o, ok := v.(*object)
	if !ok || o.class != classes+"TensorStorageMetadata" {
		return stored{}, errors.New("want the description of a tensor")
	}
	t := stored{name: mmName(strings.TrimPrefix(key, prefix))}
	var err error
	if t.shape, err = extent(o.field("size"), 1); err != nil {
		return t, err
	}
	if len(t.shape) < 1 || len(t.shape) > 2 {
		return t, fmt.Errorf("got %d dimensions, want 1 or 2", len(t.shape))
	}
	if t.dtype, err = dtype(o.field("properties")); err != nil {
		return t, err
	}
	parts, ok := o.field("chunks").(*list)
	if !ok || len(parts.items) < 1 || len(parts.items) > maxChunks {
		return t, fmt.Errorf("want 1 to %d chunks", maxChunks)
	}
	for _, p := range parts.items {
		c, err := parseChunk(p, t.shape, where[key])
		if err != nil {
			return t, err
		}
		t.chunks = append(t.chunks, c)
	}
	return t, t.tiled()
}

// dtype returns the type of numbers in the properties of a tensor.
func dtype(v any) (string, error) {
	o, ok := v.(*object)
	if !ok {
		return "", errors.New("missing properties")
	}
	state, ok := o.state.(tuple)
	if !ok || len(state) == 0 {
		return "", errors.New("malformed properties")
	}
	g, ok := state[0].(global)
	if !ok || !dtypes[string(g)] {
		return "", fmt.Errorf("unsupported dtype %v, want float32, float16 or bfloat16", state[0])
	}
	return strings.TrimPrefix(string(g), "torch."), nil
}

func parseChunk(v any, shape []int, places []place) (chunk, error) {
	var c chunk
	o, ok := v.(*object)
	if !ok {
		return c, errors.New("malformed chunk")
	}
	var err1, err2 error
	c.offsets, err1 = extent(o.field("offsets"), 0)
	c.sizes, err2 = extent(o.field("sizes"), 0)
	if err := errors.Join(err1, err2); err != nil {
		return c, err
	}
	if len(c.offsets) != len(shape) || len(c.sizes) != len(shape) {
		return c, fmt.Errorf("chunk at %v of %v, want %d dimensions", c.offsets, c.sizes, len(shape))
	}
	for i := range shape {
		if c.offsets[i] > shape[i] || c.sizes[i] > shape[i]-c.offsets[i] {
			return c, fmt.Errorf("chunk at %v of %v exceeds %v", c.offsets, c.sizes, shape)
		}
	}
	i := slices.IndexFunc(places, func(p place) bool { return slices.Equal(p.offsets, c.offsets) })
	if i < 0 {
		return c, fmt.Errorf("chunk at %v has no file", c.offsets)
	}
	c.file, c.at, c.length = places[i].file, places[i].at, places[i].length
	return c, nil
}

// tiled checks that the chunks fill the tensor without overlap.
func (t stored) tiled() error {
	sum := 0
	for i, c := range t.chunks {
		sum += product(c.sizes)
		for _, d := range t.chunks[:i] {
			if overlap(c, d) {
				return fmt.Errorf("chunks at %v and %v overlap", d.offsets, c.offsets)
			}
		}
	}
	if sum != product(t.shape) {
		return fmt.Errorf("chunks hold %d of %d elements", sum, product(t.shape))
	}
	return nil
}

func overlap(a, b chunk) bool {
	for i := range a.sizes {
		if a.offsets[i] >= b.offsets[i]+b.sizes[i] || b.offsets[i] >= a.offsets[i]+a.sizes[i] {
			return false
		}
	}
	return true
}

func product(sizes []int) int {
	n := 1
	for _, s := range sizes {
		n *= s
	}
	return n
}

// extent returns a torch.Size of at most two numbers from least.
func extent(v any, least int64) ([]int, error) {
	if o, ok := v.(*object); ok && o.class == "torch.Size" && len(o.args) == 1 {
		v = o.args[0]
	}
	items, ok := v.(tuple)
	if !ok || len(items) > 2 {
		return nil, errors.New("want a size of 1 or 2 dimensions")
	}
	out := []int{}
	for _, item := range items {
		n, ok := item.(int64)
		if !ok || n < least || n > maxExtent {
			return nil, fmt.Errorf("size out of range: got %v, want %d to %d", item, least, maxExtent)
		}
		out = append(out, int(n))
	}
	return out, nil
}

// mmName returns the name in mm of a parameter in train.py.
func mmName(name string) string { return strings.Replace(name, ".lora_", ".weight.lora_", 1) }
