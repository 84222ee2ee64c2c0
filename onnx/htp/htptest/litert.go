package htptest

import (
	"encoding/binary"

	flatbuffers "github.com/google/flatbuffers/go"
)

// LiteRT describes a model compiled ahead of time: consecutive parts, followed
// by operators for the processor.
type LiteRT struct {
	Stamp string // the chip; "" for no stamp
	Parts []Part
	// Left holds the numbers of builtin operators, 156 for ATAN2.
	Left []uint32
}

// Part is an operator that runs a graph of a context. Parts with equal bytes
// share them.
type Part struct {
	Graph   string
	Context []byte
	Pad     int // bytes before the options
}

// Bytes writes the model.
func (m LiteRT) Bytes() []byte {
	offsets := make([]uint64, len(m.Parts))
	var out []byte
	for range 2 { // the offsets are known in the second pass
		out = m.model(offsets)
		out = append(out, make([]byte, -len(out)&15)...)
		at := map[string]uint64{}
		for i, p := range m.Parts {
			if _, there := at[string(p.Context)]; !there {
				at[string(p.Context)] = uint64(len(out))
				out = append(out, p.Context...)
				out = append(out, make([]byte, -len(out)&15)...)
			}
			offsets[i] = at[string(p.Context)]
		}
	}
	return out
}

func (m LiteRT) model(offsets []uint64) []byte {
	w := &writer{b: flatbuffers.NewBuilder(1024)}
	var codes, ops []flatbuffers.UOffsetT
	name := w.text("DISPATCH_OP")
	codes = append(codes, w.table(field{0, 1, uint32(32)}, field{1, 0, name}, field{3, 4, uint32(32)}))
	for i, p := range m.Parts {
		o := w.bytes(append(make([]byte, p.Pad), options(p.Graph, offsets[i], uint64(len(p.Context)))...))
		ops = append(ops, w.table(field{0, 4, uint32(0)}, field{5, 0, o}))
	}
	for i, b := range m.Left {
		codes = append(codes, w.table(field{0, 1, min(b, 127)}, field{3, 4, b}))
		ops = append(ops, w.table(field{0, 4, uint32(i + 1)}))
	}
	var tensors []flatbuffers.UOffsetT
	for _, n := range []string{"x", "y"} {
		shape, text := w.words([]uint32{4, 16}), w.text(n)
		tensors = append(tensors, w.table(field{0, 0, shape}, field{1, 1, uint32(0)}, field{3, 0, text}))
	}
	all, in, out, list, main := w.offsets(tensors), w.words([]uint32{0}), w.words([]uint32{1}), w.offsets(ops), w.text("main")
	graph := w.table(field{0, 0, all}, field{1, 0, in}, field{2, 0, out}, field{3, 0, list}, field{4, 0, main})
	fields := []field{{0, 4, uint32(3)}, {1, 0, w.offsets(codes)}, {2, 0, w.offsets([]flatbuffers.UOffsetT{graph})}}
	empty := w.table()
	buffers := []flatbuffers.UOffsetT{empty}
	var metadata []flatbuffers.UOffsetT
	if m.Stamp != "" {
		stamp := make([]byte, 250)
		copy(stamp, "Qualcomm")
		copy(stamp[125:], m.Stamp)
		data, name := w.bytes(stamp), w.text("LiteRtStamp")
		buffers = append(buffers, w.table(field{0, 0, data}))
		metadata = append(metadata, w.table(field{0, 0, name}, field{1, 4, uint32(1)}))
	}
	fields = append(fields, field{4, 0, w.offsets(buffers)}, field{6, 0, w.offsets(metadata)})
	w.b.FinishWithFileIdentifier(w.table(fields...), []byte("TFL3"))
	return w.b.FinishedBytes()
}

// OptionsSize is the size of the options of a part, without padding.
func OptionsSize(graph string) int { return len(options(graph, 0, 0)) }

// options writes the FlexBuffer that names a graph and its bytecode, with
// 8-byte numbers as LiteRT's compiler does.
func options(graph string, at, size uint64) []byte {
	const keySize, keyOffset, keyName = 0, 14, 30
	b := []byte("bytecode_size\x00bytecode_offset\x00name\x00")
	b = append(b, byte(len(graph)))
	text := len(b)
	b = append(append(b, graph...), 0)
	b = append(b, make([]byte, -len(b)&7)...)
	word := func(v int) { b = binary.LittleEndian.AppendUint64(b, uint64(v)) }
	word(3)
	keys := len(b)
	for _, k := range []int{keyOffset, keySize, keyName} {
		word(len(b) - k)
	}
	word(len(b) - keys)
	word(8)
	word(3)
	values := len(b)
	b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, at), size)
	word(len(b) - text)
	b = append(b, 2<<2|3, 2<<2|3, 5<<2)
	return append(b, byte(len(b)-values), 9<<2|3, 1)
}
