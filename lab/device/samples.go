// Samples are the inputs of a run on a device in files.
//
// [ReadSamples] accepts arrays, numbers, raw elements and, with a module's manifest, images and
// audio files, which are preprocessed as for the engines of this machine
// (runtimes/modality). [SampleReference] computes on the processor what the device computes.

package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes/modality"
)

// SampleOptions selects the inputs.
type SampleOptions struct {
	// Places hold one set of inputs each: FILE if the graph has one input;
	// NAME=FILE,NAME=FILE; an .npz or .json file with all inputs; a folder with NAME.npy,
	// NAME.json or NAME.raw. A folder with SSSS/I.raw holds many.
	Places []string
	Module string // folder of the module that preprocesses images and audio; may be empty
}

// maxBytes is the maximum size of an input file.
const maxBytes = 1 << 30

// reader reads inputs for a graph.
type reader struct {
	graph    htp.Graph
	manifest *modules.Manifest // of the preprocessing module, may be nil
}

// ReadSamples returns the sets of inputs, each in the graph's order with the graph's number of
// elements.
func ReadSamples(ctx context.Context, j Job, opt SampleOptions) (sets [][][]float32, err error) {
	r := reader{}
	if _, r.graph, err = j.Open(); err != nil {
		return nil, err
	}
	if opt.Module != "" {
		var faults diag.List
		if r.manifest, faults = modules.Load(opt.Module); faults.Err() != nil {
			return nil, faults.Err()
		}
	}
	for _, place := range opt.Places {
		more, err := r.place(ctx, place)
		if err != nil {
			return nil, fmt.Errorf("inputs %s: %w", place, err)
		}
		if sets = append(sets, more...); len(sets) > protocol.MaxSamples {
			return nil, fmt.Errorf("more than %d sets of inputs", protocol.MaxSamples)
		}
	}
	return sets, nil
}

// place reads the sets of one place.
func (r reader) place(ctx context.Context, place string) ([][][]float32, error) {
	if info, err := os.Stat(place); err == nil && info.IsDir() {
		return r.folder(ctx, place)
	} else if err == nil {
		return r.file(ctx, place)
	}
	files := map[string]string{}
	for part := range strings.SplitSeq(place, ",") {
		name, path, ok := strings.Cut(part, "=")
		if _, duplicate := files[name]; !ok || name == "" || path == "" || duplicate {
			return nil, errors.New("not a file, a folder, or NAME=FILE with unique names")
		}
		files[name] = path
	}
	return r.set(ctx, files)
}

// file reads a set from one file.
func (r reader) file(ctx context.Context, path string) ([][][]float32, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".npz":
		return r.archive(path)
	case ".json":
		if set, ok, err := r.object(path); ok || err != nil {
			return [][][]float32{set}, err
		}
	}
	if n := len(r.graph.Inputs); n != 1 {
		return nil, fmt.Errorf("the graph has %d inputs (%s): use NAME=FILE for each", n, r.names())
	}
	return r.set(ctx, map[string]string{r.graph.Inputs[0].Name: path})
}

func (r reader) names() string {
	var names []string
	for _, t := range r.graph.Inputs {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// folder reads SSSS/I.raw, the layout of a runner, or files named after the inputs.
func (r reader) folder(ctx context.Context, dir string) ([][][]float32, error) {
	var sets [][][]float32
	for s := range protocol.MaxSamples {
		files := map[string]string{}
		for i, t := range r.graph.Inputs {
			files[t.Name] = filepath.Join(dir, filepath.FromSlash(protocol.File(s, i)))
		}
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(protocol.File(s, 0)))); errors.Is(err, os.ErrNotExist) {
			break
		}
		set, err := r.set(ctx, files)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set...)
	}
	if len(sets) > 0 {
		return sets, nil
	}
	files := map[string]string{}
	for _, t := range r.graph.Inputs {
		if path := named(dir, t.Name); path != "" {
			files[t.Name] = path
		}
	}
	return r.set(ctx, files)
}

// named returns the file of an input, or "". The name comes from the context and is ignored
// if it is a path.
func named(dir, input string) string {
	if input == "" || !filepath.IsLocal(input) || filepath.Base(input) != input {
		return ""
	}
	for _, ext := range []string{".npy", ".json", ".raw"} {
		path := filepath.Join(dir, input+ext)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// set reads a file per input.
func (r reader) set(ctx context.Context, files map[string]string) ([][][]float32, error) {
	var out [][]float32
	for _, t := range r.graph.Inputs {
		path, ok := files[t.Name]
		if !ok {
			return nil, fmt.Errorf("missing input %q, the graph has %s", t.Name, r.names())
		}
		v, err := r.tensor(ctx, t, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, v)
		delete(files, t.Name)
	}
	for name := range files {
		return nil, fmt.Errorf("unknown input %q, the graph has %s", name, r.names())
	}
	return [][][]float32{out}, nil
}

// tensor reads one input.
func (r reader) tensor(ctx context.Context, t htp.Tensor, path string) ([]float32, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".raw", ".bin":
		data, err := fsx.ReadFile(path, maxBytes)
		if err != nil {
			return nil, err
		}
		if n, ok := t.Bytes(); !ok || int64(len(data)) != n {
			return nil, fmt.Errorf("got %d bytes, want %[4]d for %[2]s%[3]v", len(data), t.DType, t.Dims, n)
		}
		return DecodeElements(t, data)
	case ".json":
		v, err := numbers(path)
		if err != nil {
			return nil, err
		}
		return fitted(t, v)
	case ".npy":
		data, err := fsx.ReadFile(path, maxBytes)
		if err != nil {
			return nil, err
		}
		a, err := npy.Decode(data)
		if err != nil {
			return nil, err
		}
		return array(t, a)
	}
	return r.media(ctx, t, path)
}

// array returns the numbers of an array. Its shape may differ, for example in a batch
// dimension, if the number of elements matches.
func array(t htp.Tensor, a *npy.Array) ([]float32, error) {
	v, err := modality.Numbers(modality.FromArray(a))
	if err != nil {
		return nil, err
	}
	return fitted(t, v)
}

// fitted checks the number of elements and converts them.
func fitted(t htp.Tensor, v []float64) ([]float32, error) {
	if n, ok := t.Elements(); !ok || int64(len(v)) != n {
		return nil, fmt.Errorf("got %d numbers for input %q of type %s%v", len(v), t.Name, t.DType, t.Dims)
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out, nil
}

// archive reads an .npz file with an array per input.
func (r reader) archive(path string) (sets [][][]float32, err error) {
	all, err := npy.OpenArchive(path, maxBytes)
	if err != nil {
		return nil, err
	}
	var out [][]float32
	for _, t := range r.graph.Inputs {
		a := all[t.Name]
		if a == nil {
			return nil, fmt.Errorf("missing array %q, the graph has %s", t.Name, r.names())
		}
		v, err := array(t, a)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return [][][]float32{out}, nil
}
