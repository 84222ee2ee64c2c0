// Package htptest writes QNN files for tests with FlatBuffers' library. The
// files cannot be run.
package htptest

import (
	"encoding/binary"

	flatbuffers "github.com/google/flatbuffers/go"

	"mm-abi.org/mm/onnx/htp"
)

// Sample describes a context for SM8750 by QAIRT 2.47 with one graph, y
// float32[4,8] of x float32[4,16], for tests to modify.
func Sample() htp.Context {
	tensor := func(id, kind uint32, name string, dims ...uint32) htp.Tensor {
		return htp.Tensor{ID: id, Kind: kind, Name: name, DType: htp.Float32, Dims: dims, Version: 1, Quant: htp.Quantization{Encoding: htp.Unquantized}}
	}
	return htp.Context{
		BlobSize: 8192,
		Schema:   3, Backend: htp.HTP, Build: "v2.47.0.260601114230",
		Core: htp.Version{Major: 2, Minor: 36}, API: htp.Version{Major: 5, Minor: 47}, Blob: htp.Version{Major: 3, Minor: 3, Patch: 4},
		SoC: 69, Arch: 79,
		Graphs: []htp.Graph{{
			Name: "main", Inputs: []htp.Tensor{tensor(1, 0, "x", 4, 16)}, Outputs: []htp.Tensor{tensor(2, 1, "y", 4, 8)},
			Memory: &htp.Memory{VTCM: 4 << 20, Optimization: 3, Sized: true, IO: 16384, OpData: 4096, Constants: 8192},
		}},
	}
}

// Context writes the context c with a blob of c.BlobSize counting bytes.
// Reading it returns c, except Size, Metadata and BlobOffset, which follow from
// the layout.
func Context(c htp.Context) []byte { return Padded(c, 0, 0) }

// Padded writes the context c, with more bytes after the backend data of the
// context and of each graph.
func Padded(c htp.Context, context, graph int) []byte {
	w := &writer{flatbuffers.NewBuilder(1024), context, graph}
	var info flatbuffers.UOffsetT
	if c.Schema == 1 {
		info = w.first(c)
	} else {
		info = w.third(c)
	}
	versioned := w.table(field{0, 4, c.Schema}, field{1, 1, c.Schema}, field{2, 0, uint32(info)})
	w.b.Finish(w.table(field{0, 0, uint32(versioned)}))
	metadata := w.b.FinishedBytes()
	metadata = append(metadata, make([]byte, -len(metadata)&7)...)
	out := make([]byte, htp.ContextHead, 40)
	out[3], out[7], out[15] = 2, 3, 1
	for _, n := range []int{len(metadata), 40 + len(metadata), int(c.BlobSize)} {
		out = binary.LittleEndian.AppendUint64(out, uint64(n))
	}
	out = append(out, metadata...)
	for i := range c.BlobSize {
		out = append(out, byte(i))
	}
	return out
}

// field is a field of a table: its number, its size in bytes, and its value.
// Size 0 is an offset, 12 a version.
type field struct {
	number, size int
	value        any
}

type writer struct {
	b              *flatbuffers.Builder
	context, graph int // bytes after backend data
}

// table writes a table with all fields present.
func (w *writer) table(fields ...field) flatbuffers.UOffsetT {
	most := 0
	for _, f := range fields {
		most = max(most, f.number+1)
	}
	w.b.StartObject(most)
	for _, f := range fields {
		switch f.size {
		case 0:
			w.b.PrependUOffsetT(flatbuffers.UOffsetT(f.value.(uint32)))
		case 1:
			w.b.PrependByte(byte(f.value.(uint32)))
		case 4:
			if v, ok := f.value.(float32); ok {
				w.b.PrependFloat32(v)
			} else {
				w.b.PrependUint32(f.value.(uint32))
			}
		case 8:
			w.b.PrependUint64(f.value.(uint64))
		case 12:
			v := f.value.(htp.Version)
			w.b.Prep(4, 12)
			w.b.PrependUint32(v.Patch)
			w.b.PrependUint32(v.Minor)
			w.b.PrependUint32(v.Major)
		}
		w.b.Slot(f.number)
	}
	return w.b.EndObject()
}

func (w *writer) text(s string) uint32  { return uint32(w.b.CreateString(s)) }
func (w *writer) bytes(b []byte) uint32 { return uint32(w.b.CreateByteVector(b)) }

func (w *writer) offsets(all []flatbuffers.UOffsetT) uint32 {
	w.b.StartVector(4, len(all), 4)
	for i := len(all) - 1; i >= 0; i-- {
		w.b.PrependUOffsetT(all[i])
	}
	return uint32(w.b.EndVector(len(all)))
}

func (w *writer) words(all []uint32) uint32 {
	w.b.StartVector(4, len(all), 4)
	for i := len(all) - 1; i >= 0; i-- {
		w.b.PrependUint32(all[i])
	}
	return uint32(w.b.EndVector(len(all)))
}

func (w *writer) floats(all []float32) uint32 {
	w.b.StartVector(4, len(all), 4)
	for i := len(all) - 1; i >= 0; i-- {
		w.b.PrependFloat32(all[i])
	}
	return uint32(w.b.EndVector(len(all)))
}

// third writes the information of schema 3, first that of schema 1.
func (w *writer) third(c htp.Context) flatbuffers.UOffsetT {
	extra := []byte{}
	if c.Arch != 0 {
		extra = binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, uint32(c.Arch))
	}
	extra = append(extra, make([]byte, w.context)...)
	build, soc, shared, graphs, more := w.text(c.Build), w.text(c.SoCText), w.tensors(c.Tensors), w.graphs(c, 3), w.bytes(extra)
	return w.table(field{11, 8, uint64(c.BlobSize)}, field{0, 4, uint32(c.Backend)}, field{1, 0, build}, field{2, 12, c.Core}, field{3, 12, c.API}, field{4, 0, soc}, field{5, 12, c.Blob},
		field{7, 4, uint32(len(c.Tensors))}, field{8, 0, shared}, field{9, 4, uint32(len(c.Graphs))}, field{10, 0, graphs}, field{14, 4, uint32(len(extra))}, field{15, 0, more}, field{16, 4, c.SoC})
}

func (w *writer) first(c htp.Context) flatbuffers.UOffsetT {
	build, soc, shared, graphs, more := w.text(c.Build), w.text(c.SoCText), w.tensors(c.Tensors), w.graphs(c, 1), w.bytes([]byte{1, 2, 3, 4})
	return w.table(field{14, 8, uint64(c.BlobSize)}, field{0, 4, uint32(c.Backend)}, field{1, 0, build}, field{2, 12, c.Core}, field{3, 12, c.API}, field{4, 0, soc}, field{5, 12, htp.Version{Patch: 1}}, field{6, 12, c.Blob},
		field{7, 4, uint32(4)}, field{8, 0, more}, field{10, 4, uint32(len(c.Tensors))}, field{11, 0, shared}, field{12, 4, uint32(len(c.Graphs))}, field{13, 0, graphs})
}

func (w *writer) graphs(c htp.Context, form uint32) uint32 {
	var all []flatbuffers.UOffsetT
	for _, g := range c.Graphs {
		name, in, out := w.text(g.Name), w.tensors(g.Inputs), w.tensors(g.Outputs)
		t := w.table(field{0, 0, name}, field{1, 4, uint32(len(g.Inputs))}, field{2, 0, in}, field{3, 4, uint32(len(g.Outputs))}, field{4, 0, out})
		if form >= 2 {
			updates := w.tensors(g.Updates)
			t = w.table(field{0, 0, uint32(t)}, field{1, 4, uint32(len(g.Updates))}, field{2, 0, updates})
		}
		if form == 3 {
			extra := append(memory(g.Memory), make([]byte, w.graph)...)
			more := w.bytes(extra)
			t = w.table(field{0, 0, uint32(t)}, field{1, 4, uint32(len(extra))}, field{2, 0, more})
		}
		all = append(all, w.table(field{0, 4, form}, field{1, 1, form}, field{2, 0, uint32(t)}))
	}
	return w.offsets(all)
}

func memory(m *htp.Memory) []byte {
	if m == nil {
		return nil
	}
	b := make([]byte, 40, 112)
	b[0] = 1
	binary.LittleEndian.PutUint64(b[8:], m.SpillFill)
	binary.LittleEndian.PutUint32(b[16:], m.VTCM)
	binary.LittleEndian.PutUint32(b[20:], m.Optimization)
	binary.LittleEndian.PutUint64(b[32:], m.HVXThreads)
	if m.Sized {
		for _, v := range []uint64{2, 256, 64, 0, m.IO, m.OpData, m.Constants, m.DDR, m.Shared} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	return b
}

func (w *writer) tensors(list []htp.Tensor) uint32 {
	var all []flatbuffers.UOffsetT
	for _, t := range list {
		all = append(all, w.tensor(t))
	}
	return w.offsets(all)
}

func (w *writer) tensor(t htp.Tensor) flatbuffers.UOffsetT {
	name, dims, data := w.text(t.Name), w.words(t.Dims), w.bytes(nil)
	fields := []field{{0, 4, t.ID}, {1, 4, t.Kind}, {2, 4, t.Format}, {3, 4, uint32(t.DType)}, {6, 4, uint32(len(t.Dims))}, {7, 0, dims}, {8, 0, data}, {9, 0, name}, {10, 4, uint32(t.Version - 1)}}
	if len(t.Dynamic) > 0 {
		b := make([]byte, len(t.Dynamic))
		for i, d := range t.Dynamic {
			if d {
				b[i] = 1
			}
		}
		fields = append(fields, field{11, 0, w.bytes(b)})
	}
	return w.table(append(fields, w.quantization(t.Quant)...)...)
}

func (w *writer) quantization(q htp.Quantization) []field {
	if q.Encoding == htp.Unquantized {
		return []field{{4, 4, uint32(q.Encoding)}, {14, 1, uint32(1)}, {15, 0, uint32(w.table())}}
	}
	var t flatbuffers.UOffsetT
	offsets := make([]uint32, len(q.Offsets))
	for i, o := range q.Offsets {
		offsets[i] = uint32(o)
	}
	switch q.Encoding {
	case htp.ScaleOffset:
		t = w.table(field{0, 4, q.Scales[0]}, field{1, 4, offsets[0]})
	case htp.Bits:
		t = w.table(field{0, 4, q.Bits}, field{1, 4, q.Scales[0]}, field{2, 4, offsets[0]})
	case htp.PerAxis:
		var pairs []flatbuffers.UOffsetT
		for i := range q.Scales {
			pairs = append(pairs, w.table(field{0, 4, q.Scales[i]}, field{1, 4, offsets[i]}))
		}
		t = w.table(field{0, 4, uint32(q.Axis)}, field{1, 4, uint32(len(q.Scales))}, field{2, 0, w.offsets(pairs)})
	case htp.PerAxisBits:
		scales, zeros := w.floats(q.Scales), w.words(offsets)
		t = w.table(field{0, 4, uint32(q.Axis)}, field{1, 4, q.Bits}, field{2, 4, uint32(len(q.Scales))}, field{3, 0, scales}, field{4, 0, zeros})
	default:
		t = w.table()
	}
	return []field{{4, 4, uint32(1)}, {13, 4, uint32(q.Encoding)}, {14, 1, uint32(q.Encoding) + 1}, {15, 0, uint32(t)}}
}
