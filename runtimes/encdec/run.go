package encdec

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// run is one input and the ids that follow from it.
type run struct {
	m      *Model
	states map[string]runtimes.Tensor // hidden and hiddenMask
	cache  map[string]runtimes.Tensor // by the name after past and present
	length int                        // positions
}

// encode computes the states of an input.
func (m *Model) encode(ctx context.Context, in map[string]runtimes.Tensor) (*run, error) {
	out, err := m.function.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	r := &run{m: m, states: map[string]runtimes.Tensor{}, cache: map[string]runtimes.Tensor{}}
	for name, t := range out {
		if rest, ok := strings.CutPrefix(name, present); ok {
			r.cache[rest] = t
		}
	}
	var ok bool
	if r.states[hidden], ok = out[lastHidden]; !ok {
		return nil, fault(diag.LoopFile, "missing output "+lastHidden+" of the encoder", "")
	}
	if mask, ok := in[inputMask]; ok {
		r.states[hiddenMask] = mask
	}
	return r, nil
}

// fork returns a run of the same states. The run must not have ids.
func (r *run) fork() *run {
	return &run{m: r.m, states: r.states, cache: maps.Clone(r.cache)}
}

// step appends ids and returns the scores of the next one.
func (r *run) step(ctx context.Context, ids []int32) ([]float32, error) {
	f := r.m.past
	if r.length == 0 && r.m.first != nil {
		f = r.m.first
	}
	in := map[string]runtimes.Tensor{}
	for name, p := range f.inputs {
		switch name {
		case inputIDs:
			in[name] = integers(p, ids)
		case places:
			at := make([]int32, len(ids))
			for i := range at {
				at[i] = int32(r.length + i)
			}
			t := integers(p, at)
			if len(p.dims) == 1 {
				t.Shape = t.Shape[1:]
			}
			in[name] = t
		case useCache:
			in[name] = runtimes.Tensor{Type: runtimes.Bool, Shape: []int64{1}, Data: []byte{byte(min(r.length, 1))}}
		case hidden, hiddenMask:
			t, ok := r.states[name]
			if !ok {
				return nil, fault(diag.LoopFile, fmt.Sprintf("%s: nothing fills the input %s", f.name, name), "")
			}
			in[name] = t
		default:
			t, ok := r.cache[strings.TrimPrefix(name, past)]
			if !ok {
				if t, ok = r.empty(f, p); !ok {
					return nil, fault(diag.LoopFile, fmt.Sprintf("%s: the input %.64q of %d states exceeds %d bytes", f.name, name, t.Shape[2], maxEmpty), "")
				}
			}
			in[name] = t
		}
	}
	out, err := f.model.Run(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("running %s of %s: %w", f.name, r.m.function.Part().ID(), err)
	}
	for name, t := range out {
		rest, ok := strings.CutPrefix(name, present)
		// Merged files write an empty tensor for the encoder, whose values do not change.
		if ok && (r.length == 0 || !strings.Contains(rest, ".encoder.")) {
			r.cache[rest] = t
		}
	}
	r.length += len(ids)
	return r.m.scores(out[logits])
}

// empty returns the part of a cache before the first ids. If its length has the name
// of the number of states, as in merged files, it has that length: their first run
// does not read it. It reports whether the size is within maxEmpty.
func (r *run) empty(f *file, p port) (t runtimes.Tensor, ok bool) {
	length := int64(0)
	if states := r.states[hidden]; p.name(2) != "" && p.name(2) == f.inputs[hidden].name(1) && len(states.Shape) == 3 {
		length = states.Shape[1]
	}
	t = runtimes.Tensor{Type: p.elem, Shape: []int64{1, p.dims[1], length, p.dims[3]}, Data: []byte{}}
	row := p.dims[1] * p.dims[3] * int64(p.elem.Size())
	if length > maxEmpty/row {
		return t, false
	}
	t.Data = make([]byte, row*length)
	return t, true
}

// maxEmpty is the limit of bytes of a part of a cache before the first ids.
const maxEmpty = 1 << 28

// scores returns the scores of the last position.
func (m *Model) scores(t runtimes.Tensor) ([]float32, error) {
	n := int64(0)
	if len(t.Shape) > 0 {
		n = t.Shape[len(t.Shape)-1]
	}
	if n < int64(m.least) {
		return nil, fault(diag.LoopNumber, fmt.Sprintf("got scores of %d ids, want %d", n, m.least), "")
	}
	size := int64(t.Type.Size())
	if int64(len(t.Data)) < n*size {
		return nil, fault(diag.LoopNumber, fmt.Sprintf("got scores of shape %v", t.Shape), "")
	}
	last := runtimes.Tensor{Type: t.Type, Shape: []int64{n}, Data: t.Data[int64(len(t.Data))-n*size:]}
	out := make([]float32, n)
	if t.Type == runtimes.Float32 {
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(last.Data[4*i:]))
		}
	} else {
		values, err := modality.Numbers(last)
		if err != nil {
			return nil, err
		}
		for i, v := range values {
			out[i] = float32(v)
		}
	}
	for i, v := range out {
		if v != v {
			return nil, fault(diag.LoopNumber, fmt.Sprintf("the score of id %d is NaN", i), "")
		}
	}
	return out, nil
}

// integers returns a tensor [1, n].
func integers(p port, ids []int32) runtimes.Tensor {
	t := runtimes.Tensor{Type: p.elem, Shape: []int64{1, int64(len(ids))}}
	for _, id := range ids {
		if p.elem == runtimes.Int32 {
			t.Data = binary.LittleEndian.AppendUint32(t.Data, uint32(id))
		} else {
			t.Data = binary.LittleEndian.AppendUint64(t.Data, uint64(id))
		}
	}
	return t
}

// ones returns a mask [1, n].
func ones(p port, n int) runtimes.Tensor {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = 1
	}
	return integers(p, ids)
}

func fault(code diag.Code, detail, hint string) error {
	var list diag.List
	list.Add(code, diag.Pos{}, detail, hint)
	return list.Err()
}
