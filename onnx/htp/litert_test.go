package htp_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

func readLiteRT(b []byte) (*htp.LiteRT, error) {
	return htp.ReadLiteRT(bytes.NewReader(b), int64(len(b)))
}

// sampleLiteRT is a model with two contexts in three parts and an operator
// between.
func sampleLiteRT() htptest.LiteRT {
	one := htptest.Context(htptest.Sample())
	c := htptest.Sample()
	c.BlobSize = 100
	two := htptest.Context(c)
	return htptest.LiteRT{Stamp: "SM8750", Left: []uint32{156, 156, 3}, Parts: []htptest.Part{{Graph: "main", Context: one}, {Graph: "other", Context: two}, {Graph: "again", Context: one}}}
}

func TestReadLiteRT(t *testing.T) {
	m := sampleLiteRT()
	b := m.Bytes()
	got, err := readLiteRT(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&htp.Stamp{Manufacturer: "Qualcomm", SoC: "SM8750"}, got.Stamp); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]htp.Operator{{Name: "ATAN2", Count: 2}, {Name: "CONV_2D", Count: 1}}, got.Left()); d != "" {
		t.Error(d)
	}
	if len(got.Dispatches) != 3 || got.Dispatches[1].Graph != "other" || got.Dispatches[1].Operator != 1 {
		t.Fatalf("%+v", got.Dispatches)
	}
	codes := got.Bytecodes()
	if len(codes) != 2 || !cmp.Equal(codes[0].Graphs, []string{"main", "again"}) {
		t.Fatalf("%+v", codes)
	}
	for i, want := range [][]byte{m.Parts[0].Context, m.Parts[1].Context} {
		if have := b[codes[i].Offset:][:codes[i].Size]; !bytes.Equal(have, want) {
			t.Errorf("bytecode %d is not the context that was put in", i)
		}
	}
	in := []htp.LiteRTTensor{{Name: "x", DType: "float32", Dims: []int32{4, 16}}}
	if d := cmp.Diff(in, got.Subgraphs[0].Inputs); d != "" {
		t.Error(d)
	}
}

// A malformed file is refused with the reason.
func TestLiteRTRefuses(t *testing.T) {
	b := sampleLiteRT().Bytes()
	replaced := func(old, new []byte) []byte {
		if !bytes.Contains(b, old) {
			t.Fatalf("no %q in the file", old)
		}
		return bytes.Replace(b, old, new, 1)
	}
	at := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	m, err := readLiteRT(b)
	if err != nil {
		t.Fatal(err)
	}
	first, second := uint64(m.Dispatches[0].Offset), uint64(m.Dispatches[1].Offset)
	for name, tc := range map[string]struct {
		file []byte
		want string
	}{
		"empty":               {nil, "not the expected file type"},
		"other":               {[]byte("PK\x03\x04 and more"), "not the expected file type"},
		"cut":                 {b[:len(b)-64], "exceeds the"},
		"the head alone":      {b[:8], "malformed"},
		"bytecode beyond":     {replaced(at(second), at(1<<40)), "exceeds the"},
		"bytecode that wraps": {replaced(at(second), at(1<<64-1)), "exceeds the"},
		"bytecode in another": {replaced(at(second), at(first+16)), "overlaps bytecode at"},
		"no offset":           {replaced([]byte("bytecode_offset"), []byte("bytecode_offses")), "without bytecode"},
		"no map":              {replaced([]byte{9<<2 | 3, 1}, []byte{1<<2 | 3, 1}), "want a map"},
		"options of text":     {replaced([]byte{11, 11, 20, 27, 39, 1}, []byte{20, 20, 20, 27, 39, 1}), "not a FlexBuffer"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := readLiteRT(tc.file); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%+v, %v; want %s", got, err, tc.want)
			}
		})
	}
}

// parts returns a model of n dispatches with distinct or shared bytecode.
func parts(n int, distinct bool) []byte {
	m := htptest.LiteRT{}
	for i := range n {
		context := make([]byte, 4)
		if distinct {
			binary.LittleEndian.PutUint32(context, uint32(i))
		}
		m.Parts = append(m.Parts, htptest.Part{Graph: "g", Context: context})
	}
	return m.Bytes()
}

// The work per file grows linearly with its dispatches, whose number is
// bounded. Allocations are measured, not time.
func TestMany(t *testing.T) {
	const n, each = 1000, 100
	for name, distinct := range map[string]bool{"distinct bytecode": true, "shared bytecode": false} {
		b := parts(n, distinct)
		if got := testing.AllocsPerRun(1, func() {
			if m, err := readLiteRT(b); err != nil || len(m.Dispatches) != n || distinct && len(m.Bytecodes()) != n {
				t.Errorf("%s: %+v, %v", name, m, err)
			}
		}); got > n*each {
			t.Errorf("%s: %.0f allocations for %d dispatches", name, got, n)
		}
	}
	if m, err := readLiteRT(parts(htp.MaxDispatches, false)); err != nil || len(m.Dispatches) != htp.MaxDispatches || len(m.Bytecodes()) != 1 {
		t.Errorf("4096 dispatches: %v", err)
	}
	if _, err := readLiteRT(parts(htp.MaxDispatches+1, false)); err == nil || !strings.Contains(err.Error(), "operator 4096 of subgraph 0: too many compiled parts") {
		t.Errorf("4097 dispatches: %v", err)
	}
}

// This file was written by Qualcomm's compiler.
func TestSample(t *testing.T) {
	b, err := os.ReadFile(filepath.FromSlash("../../../shared/data/qnn/fc.SM8650.litert2.2.0.q2.47.tflite"))
	if err != nil {
		t.Skip("skipped: no ../shared/data/qnn")
	}
	m, err := readLiteRT(b)
	if err != nil {
		t.Fatal(err)
	}
	want := &htp.LiteRT{Size: 46080, Stamp: &htp.Stamp{Manufacturer: "Qualcomm", SoC: "SM8650"}, Metadata: []string{"LiteRtStamp"},
		Subgraphs:  []htp.Subgraph{{Name: m.Subgraphs[0].Name, Inputs: []htp.LiteRTTensor{{"x", "float32", []int32{4, 16}}}, Outputs: []htp.LiteRTTensor{{"y", "float32", []int32{4, 8}}}}},
		Dispatches: []htp.Dispatch{{0, 0, "qnn_partition_0", 1024, 45056}}}
	if d := cmp.Diff(want, m); d != "" {
		t.Error(d)
	}
}

func FuzzReadLiteRT(f *testing.F) {
	f.Add(sampleLiteRT().Bytes())
	f.Add(htptest.LiteRT{Parts: []htptest.Part{{Graph: "g", Context: []byte("no context")}}}.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readLiteRT(b)
		if err != nil {
			return
		}
		for _, d := range m.Dispatches {
			if d.Offset < 0 || d.Size < 1 || d.Offset > m.Size-d.Size {
				t.Fatalf("bytecode exceeds the file: %+v", d)
			}
		}
	})
}
