package compile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/engine/kernel"
)

const (
	mostSets = 1024
	// mostBytes is the size limit of an .npy file and of an unpacked archive.
	mostBytes = 1 << 30
)

// Samples reads inputs for the model at path. A place is an .npz with an array for
// each input, which is a set, or a folder with .npz files, or with INPUT.npy for
// each input, like a module's golden folder.
func Samples(path string, places []string) (sets []map[string]engine.Tensor, err error) {
	m, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	var names []string
	for _, v := range m.Inputs() {
		names = append(names, v.Name)
	}
	for _, place := range places {
		more, err := place1(place, names)
		if err != nil {
			return nil, err
		}
		if sets = append(sets, more...); len(sets) > mostSets {
			return nil, fmt.Errorf("%s: too many sets of inputs, the limit is %d", place, mostSets)
		}
	}
	return sets, nil
}

// place1 reads the sets of a place.
func place1(place string, names []string) (sets []map[string]engine.Tensor, err error) {
	info, err := os.Stat(place)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		in, err := archive(place, names)
		return []map[string]engine.Tensor{in}, err
	}
	entries, err := os.ReadDir(place)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.EqualFold(filepath.Ext(e.Name()), ".npz") {
			in, err := archive(filepath.Join(place, e.Name()), names)
			if err != nil {
				return nil, err
			}
			sets = append(sets, in)
		}
	}
	in, err := folder(place, names)
	if err != nil {
		return nil, err
	}
	if in != nil {
		sets = append(sets, in)
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s contains neither .npz files nor .npy files for the inputs %s", place, strings.Join(names, ", "))
	}
	return sets, nil
}

// folder reads NAME.npy of each input, or returns nil if there is none.
func folder(dir string, names []string) (map[string]engine.Tensor, error) {
	in := make(map[string]engine.Tensor)
	var missing []string
	for _, name := range names {
		// The name of an input is read from the model and may be a path.
		if name == "" || filepath.Base(name) != name {
			missing = append(missing, name)
			continue
		}
		data, err := fsx.ReadFile(filepath.Join(dir, name+".npy"), mostBytes)
		if errors.Is(err, os.ErrNotExist) {
			missing = append(missing, name)
			continue
		}
		if err == nil {
			in[name], err = drift.Read(data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name+".npy"), err)
		}
	}
	if len(in) == 0 {
		return nil, nil
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("missing %[2]s.npy in %[1]s", dir, missing[0])
	}
	return in, nil
}

// archive reads the inputs from an .npz.
func archive(path string, names []string) (in map[string]engine.Tensor, err error) {
	arrays, err := npy.OpenArchive(path, mostBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	in = make(map[string]engine.Tensor)
	for _, name := range names {
		a := arrays[name]
		if a == nil {
			return nil, fmt.Errorf("%s: missing array %q", path, name)
		}
		if in[name], err = drift.Of(a); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, name, err)
		}
	}
	return in, nil
}

// Fit reshapes each set to the model's input shapes; dynamic dimensions are 1.
// Dimensions of 1 may be missing or extra, and consecutive axes may be merged, up
// to a flat array. Another order of axes is refused.
func Fit(m *onnx.Model, sets []map[string]engine.Tensor) ([]map[string]engine.Tensor, error) {
	if len(sets) == 0 {
		return nil, errors.New("missing calibration inputs")
	}
	var out []map[string]engine.Tensor
	for i, set := range sets {
		in := make(map[string]engine.Tensor)
		for _, v := range m.Inputs() {
			t, ok := set[v.Name]
			if !ok {
				return nil, fmt.Errorf("inputs %d: missing %q", i, v.Name)
			}
			t, err := fitSample(v, t)
			if err != nil {
				return nil, fmt.Errorf("inputs %d: %q: %w", i, v.Name, err)
			}
			in[v.Name] = t
		}
		out = append(out, in)
	}
	return out, nil
}

// fitSample reshapes a tensor to the shape of an input.
func fitSample(v onnx.Value, t engine.Tensor) (engine.Tensor, error) {
	if v.Type.DType != t.Type {
		return t, fmt.Errorf("element type mismatch: got %s, want %s", t.Type, v.Type.DType)
	}
	if !v.Type.Ranked {
		return t, nil
	}
	same := len(v.Type.Dims) == len(t.Shape)
	shape := make([]int, len(v.Type.Dims))
	for i, d := range v.Type.Dims {
		shape[i] = 1
		if d.Param == "" && d.Value >= 0 && d.Value <= mostBytes {
			shape[i] = int(d.Value)
		}
		same = same && (d.Param != "" || d.Value < 0 || int64(t.Shape[i]) == d.Value)
	}
	if same {
		return t, nil
	}
	have, err1 := kernel.Count(t.Shape)
	want, err2 := kernel.Count(shape)
	if errors.Join(err1, err2) != nil || have != want {
		return t, fmt.Errorf("shape mismatch: got %v, want %v", t.Shape, v.Type.Dims)
	}
	if !runTogether(t.Shape, shape) {
		return t, fmt.Errorf("shape mismatch: got %v, want %v (equal size, but other axes)", t.Shape, v.Type.Dims)
	}
	return engine.Tensor{Type: t.Type, Shape: slices.Clone(shape), Data: t.Data}, nil
}

// runTogether reports whether shapes of equal size differ only by merged axes and
// dimensions of 1.
func runTogether(short, long []int) bool {
	at, one := 0, func(n int) bool { return n == 1 }
	long = slices.DeleteFunc(slices.Clone(long), one)
	for _, n := range slices.DeleteFunc(slices.Clone(short), one) {
		product := 1
		for at < len(long) && product < n {
			product *= long[at]
			at++
		}
		if product != n {
			return false
		}
	}
	return true
}
