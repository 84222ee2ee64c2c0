package encdec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
)

// Names of Optimum's inputs and outputs.
const (
	inputIDs   = "input_ids"
	inputMask  = "attention_mask"
	hidden     = "encoder_hidden_states"
	hiddenMask = "encoder_attention_mask"
	useCache   = "use_cache_branch"
	places     = "cache_position"
	lastHidden = "last_hidden_state"
	logits     = "logits"
	past       = "past_key_values."
	present    = "present."
)

// file is one of the decoder's files.
type file struct {
	name    string
	model   runtimes.Function
	inputs  map[string]port
	outputs map[string]bool
}

// port is the type and the shape of an input; a dynamic dimension is 0 and may have
// a name.
type port struct {
	elem  runtimes.Elem
	dims  []int64
	names []string
}

// name returns the name of a dynamic dimension, or "".
func (p port) name(axis int) string {
	if axis < len(p.names) {
		return p.names[axis]
	}
	return ""
}

// ports reads the inputs and the outputs of an ONNX file.
func ports(path string) (in map[string]port, out map[string]bool, err error) {
	m, err := onnx.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	in, out = map[string]port{}, map[string]bool{}
	for _, v := range m.Inputs() {
		p := port{elem: runtimes.ElemOf(v.Type.DType)}
		for _, d := range v.Type.Dims {
			size := int64(0)
			if d.Param == "" && d.Value > 0 {
				size = d.Value
			}
			p.dims = append(p.dims, size)
			p.names = append(p.names, strings.Clone(d.Param))
		}
		in[strings.Clone(v.Name)] = p
	}
	for _, v := range m.Graph.Outputs {
		out[strings.Clone(v.Name)] = true
	}
	return in, out, nil
}

// open opens a file of the decoder.
func (m *Model) open(ctx context.Context, name string, list *diag.List) (*file, error) {
	path, err := m.function.File(name)
	if err != nil {
		return nil, err
	}
	f := &file{name: name}
	if f.inputs, f.outputs, err = ports(path); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	n := len(*list)
	f.check(list)
	if len(*list) > n {
		return f, nil
	}
	f.model, err = m.function.OpenFile(ctx, name)
	return f, err
}

// check reports inputs and outputs that a loop cannot use.
func (f *file) check(list *diag.List) {
	wrong := func(format string, args ...any) {
		list.Add(diag.LoopFile, diag.Pos{File: f.name}, fmt.Sprintf(format, args...), "")
	}
	if !f.outputs[logits] {
		wrong("missing output %s", logits)
	}
	if _, ok := f.inputs[inputIDs]; !ok {
		wrong("missing input %s", inputIDs)
	}
	for _, name := range sorted(f.inputs) {
		p := f.inputs[name]
		switch {
		case slices.Contains([]string{inputIDs, hidden, hiddenMask, useCache, places}, name):
		case !strings.HasPrefix(name, past):
			wrong("unknown input %.64q", name)
		case len(p.dims) != 4 || p.dims[1] < 1 || p.dims[3] < 1 || p.dims[1]*p.dims[3] > maxWidth || p.elem.Size() == 0:
			wrong("input %.64q of %s %v, want [batch, heads, ids, width] with numbers of heads and width", name, p.elem, p.dims)
		case !strings.Contains(name, ".encoder.") && !f.outputs[present+strings.TrimPrefix(name, past)]:
			wrong("input %.64q without the output %s", name, present+strings.TrimPrefix(name, past))
		}
	}
}

// maxWidth bounds the numbers of one position in a cache.
const maxWidth = 1 << 20

func sorted[T any](m map[string]T) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
