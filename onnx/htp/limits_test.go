package htp_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

// context changes the sample and reads it.
func changed(change func(c *htp.Context)) error {
	c := htptest.Sample()
	change(&c)
	b := htptest.Context(c)
	_, err := htp.ReadContext(bytes.NewReader(b), int64(len(b)))
	return err
}

// padded reads the sample as write writes it.
func padded(write func(c htp.Context) []byte) error {
	b := write(htptest.Sample())
	_, err := htp.ReadContext(bytes.NewReader(b), int64(len(b)))
	return err
}

// archive is a DLC of stored entries.
func archive(t *testing.T, entries map[string][]byte, more int) error {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	add := func(name string, data []byte) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range entries {
		add(name, data)
	}
	for i := range more {
		add(fmt.Sprint("e", i), nil)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := htp.ReadDLC(bytes.NewReader(out.Bytes()), int64(out.Len()))
	return err
}

// litert is a model of some subgraphs, each with one input of a rank.
func litert(subgraphs, rank int) error {
	b := flatbuffers.NewBuilder(1 << 16)
	vector := func(n int, put func(i int)) flatbuffers.UOffsetT {
		b.StartVector(4, n, 4)
		for i := n - 1; i >= 0; i-- {
			put(i)
		}
		return b.EndVector(n)
	}
	dims := vector(rank, func(int) { b.PrependUint32(1) })
	b.StartObject(4)
	b.PrependUOffsetT(dims)
	b.Slot(0)
	tensor := b.EndObject()
	tensors := vector(1, func(int) { b.PrependUOffsetT(tensor) })
	inputs := vector(1, func(int) { b.PrependUint32(0) })
	b.StartObject(5)
	b.PrependUOffsetT(tensors)
	b.Slot(0)
	b.PrependUOffsetT(inputs)
	b.Slot(1)
	graph := b.EndObject()
	graphs := vector(subgraphs, func(int) { b.PrependUOffsetT(graph) })
	b.StartObject(5)
	b.PrependUOffsetT(graphs)
	b.Slot(2)
	b.FinishWithFileIdentifier(b.EndObject(), []byte("TFL3"))
	_, err := htp.ReadLiteRT(bytes.NewReader(b.FinishedBytes()), int64(len(b.FinishedBytes())))
	return err
}

// flexMap is a FlexBuffer map of n numbers with keys of one letter each.
func flexMap(n int) []byte {
	var b []byte
	for i := range n {
		b = append(b, byte('0'+i), 0)
	}
	for i := range n { // the keys' offsets
		b = append(b, byte(len(b)-2*i))
	}
	keys := len(b) - n
	b = append(b, byte(len(b)-keys), 1, byte(n))
	values := len(b)
	for range n {
		b = append(b, 7)
	}
	for range n {
		b = append(b, 2<<2) // unsigned, one byte
	}
	return append(b, byte(len(b)-values), 9<<2, 1)
}

// TestLimits has a file at each limit, and one beyond it.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: files at the limits")
	}
	graphs := func(n int) error {
		return changed(func(c *htp.Context) {
			g := c.Graphs[0]
			c.Graphs = nil
			for i := range n {
				g.Name = fmt.Sprint(i)
				c.Graphs = append(c.Graphs, g)
			}
		})
	}
	for _, c := range []struct {
		name  string
		limit int
		read  func(n int) error
		want  string
	}{
		{"MaxGraphs", htp.MaxGraphs, graphs, "bad graph count"},
		{"MaxTensors", htp.MaxTensors - 2, func(n int) error {
			return changed(func(c *htp.Context) {
				x := c.Graphs[0].Inputs[0]
				for i := range n {
					x.Name = fmt.Sprint(i)
					c.Tensors = append(c.Tensors, x)
				}
			})
		}, "limit"},
		{"MaxRank", htp.MaxRank, func(n int) error {
			return changed(func(c *htp.Context) {
				c.Graphs[0].Inputs[0].Dims = make([]uint32, n)
				for i := range n {
					c.Graphs[0].Inputs[0].Dims[i] = 1
				}
			})
		}, "limit 32"},
		{"MaxText", htp.MaxText, func(n int) error { return changed(func(c *htp.Context) { c.Graphs[0].Name = strings.Repeat("n", n) }) }, "too large"},
		{"MaxNotes", htp.MaxNotes, func(n int) error {
			return archive(t, map[string][]byte{"model": htptestModel(), "dlc.metadata": []byte(`{"x":"` + strings.Repeat("x", n-8) + `"}`)}, 0)
		}, "notes too large"},
		{"MaxEntries", htp.MaxEntries - 1, func(n int) error { return archive(t, map[string][]byte{"model": htptestModel()}, n) }, "too many entries"},
		{"MaxSubgraphs", htp.MaxSubgraphs, func(n int) error { return litert(n, 1) }, "too many subgraphs"},
		{"MaxLiteRTRank", htp.MaxLiteRTRank, func(n int) error { return litert(1, n) }, "exceeds limit 32"},
		{"MaxExtra of the context", htp.MaxExtra, func(n int) error {
			return padded(func(c htp.Context) []byte { return htptest.Padded(c, n-8, 0) })
		}, "too large"},
		{"MaxExtra of a graph", htp.MaxExtra, func(n int) error {
			return padded(func(c htp.Context) []byte { return htptest.Padded(c, 0, n-112) })
		}, "too large"},
		{"MaxOptions", htp.MaxOptions, func(n int) error {
			b := htptest.LiteRT{Parts: []htptest.Part{{Graph: "g", Context: []byte("context"), Pad: n - htptest.OptionsSize("g")}}}.Bytes()
			_, err := htp.ReadLiteRT(bytes.NewReader(b), int64(len(b)))
			return err
		}, "too large"},
		{"MaxKeys", htp.MaxKeys, func(n int) error {
			numbers, _, err := htp.Options(flexMap(n))
			if err == nil && len(numbers) != n {
				err = fmt.Errorf("%d numbers", len(numbers))
			}
			return err
		}, "bad map"},
	} {
		if err := c.read(c.limit); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := c.read(c.limit + 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s + 1: %v", c.name, err)
		}
	}
	b := htptest.Context(htptest.Sample())
	for n, want := range map[uint64]string{htp.MaxMetadata: "truncated in the metadata", htp.MaxMetadata + 1: "metadata too large"} {
		binary.LittleEndian.PutUint64(b[16:], n)
		if _, err := htp.ReadContext(bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("MaxMetadata: %d: %v", n, err)
		}
	}
}

// htptestModel is the entry model of a DLC.
func htptestModel() []byte {
	d := htptest.DLC("net", nil)
	z, err := zip.NewReader(bytes.NewReader(d), int64(len(d)))
	if err != nil {
		panic(err)
	}
	for _, f := range z.File {
		if f.Name == "model" {
			at, err := f.DataOffset()
			if err != nil {
				panic(err)
			}
			return d[at:][:f.UncompressedSize64]
		}
	}
	panic("no model")
}
