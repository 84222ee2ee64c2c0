package htp_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"mm-abi.org/mm/onnx/htp"
)

// program returns a program with n methods whose input has so many dimensions.
func program(n, rank int) []byte {
	b := flatbuffers.NewBuilder(1 << 12)
	list := func(tables []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		b.StartVector(4, len(tables), 4)
		for i := len(tables) - 1; i >= 0; i-- {
			b.PrependUOffsetT(tables[i])
		}
		return b.EndVector(len(tables))
	}
	ints := func(v []int32) flatbuffers.UOffsetT {
		b.StartVector(4, len(v), 4)
		for i := len(v) - 1; i >= 0; i-- {
			b.PrependInt32(v[i])
		}
		return b.EndVector(len(v))
	}
	dims := make([]int32, rank)
	for i := range dims {
		dims[i] = 1
	}
	sizes := ints(dims)
	b.StartObject(10)
	b.PrependInt8Slot(0, 6, 0)
	b.PrependUOffsetTSlot(2, sizes, 0)
	tensor := b.EndObject()
	b.StartObject(2)
	b.PrependByteSlot(0, 5, 0)
	b.PrependUOffsetTSlot(1, tensor, 0)
	values := list([]flatbuffers.UOffsetT{b.EndObject()})
	inputs := ints([]int32{0})
	b.StartObject(10)
	b.PrependUOffsetTSlot(2, values, 0)
	b.PrependUOffsetTSlot(3, inputs, 0)
	method := b.EndObject()
	methods := make([]flatbuffers.UOffsetT, n)
	for i := range methods {
		methods[i] = method
	}
	plans := list(methods)
	b.StartObject(8)
	b.PrependUOffsetTSlot(1, plans, 0)
	b.FinishWithFileIdentifier(b.EndObject(), []byte("ET12"))
	return b.FinishedBytes()
}

// Programs are bounded, and sizes in the extended header stay within the file.
func TestExecuTorchRefused(t *testing.T) {
	extended := func(program, base, segments uint64) []byte {
		out := append([]byte("\x28\x00\x00\x00ET12eh00\x20\x00\x00\x00"), make([]byte, 64)...)
		binary.LittleEndian.PutUint64(out[16:], program)
		binary.LittleEndian.PutUint64(out[24:], base)
		binary.LittleEndian.PutUint64(out[32:], segments)
		return out
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"another file":  {[]byte("not a program at all, but long enough to read"), "bad ExecuTorch magic"},
		"short":         {[]byte("\x08\x00"), "bad ExecuTorch magic"},
		"long program":  {extended(1<<40, 0, 0), "exceed the file"},
		"long segments": {extended(64, 64, 1<<63), "exceed the file"},
		"overlap":       {extended(64, 32, 8), "exceed the file"},
		"methods":       {program(htp.MaxMethods+1, 1), "too many methods"},
		"dimensions":    {program(1, htp.MaxProgramRank+1), "exceeds limit"},
	} {
		_, err := htp.ReadExecuTorch(bytes.NewReader(c.data), int64(len(c.data)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
	for _, data := range [][]byte{program(htp.MaxMethods, 1), program(1, htp.MaxProgramRank)} {
		if _, err := htp.ReadExecuTorch(bytes.NewReader(data), int64(len(data))); err != nil {
			t.Error(err)
		}
	}
}

func FuzzExecuTorch(f *testing.F) {
	f.Add(program(2, 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := htp.ReadExecuTorch(bytes.NewReader(data), int64(len(data))); err == nil && p.Size != int64(len(data)) {
			t.Errorf("got size %d of %d bytes", p.Size, len(data))
		}
	})
}
