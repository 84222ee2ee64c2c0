package htp_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

// read reads a context and fails the test if more than the metadata was read.
func read(t *testing.T, b []byte) (*htp.Context, error) {
	t.Helper()
	return htp.ReadContext(bytes.NewReader(b), int64(len(b)))
}

// variants returns contexts of all supported shapes.
func variants() map[string]htp.Context {
	all := map[string]htp.Context{}
	add := func(name string, change func(*htp.Context)) {
		c := htptest.Sample()
		change(&c)
		all[name] = c
	}
	tensor := func(c *htp.Context) *htp.Tensor { return &c.Graphs[0].Inputs[0] }
	add("plain", func(*htp.Context) {})
	add("schema 1", func(c *htp.Context) {
		c.Schema, c.SoC, c.Arch, c.SoCText = 1, 0, 0, "sv"
		c.Graphs[0].Memory = nil
		c.Tensors = []htp.Tensor{{ID: 9, Kind: 3, Name: "shared", DType: htp.Float16, Dims: []uint32{7}, Version: 1, Quant: htp.Quantization{Encoding: htp.Unquantized}}}
	})
	add("of the CPU", func(c *htp.Context) {
		c.Backend, c.Build, c.SoC, c.Arch = htp.CPU, "", 0, 0
		c.Graphs[0].Memory = nil
	})
	add("two graphs", func(c *htp.Context) {
		g := c.Graphs[0]
		g.Name, g.Updates = "decode", []htp.Tensor{{ID: 7, Kind: 4, Name: "w", DType: htp.SFixed8, Dims: []uint32{2}, Version: 1, Quant: htp.Quantization{Encoding: htp.Unquantized}}}
		g.Memory = &htp.Memory{VTCM: 8 << 20, SpillFill: 1 << 20}
		c.Graphs = append(c.Graphs, g)
	})
	add("no metadata for a chip", func(c *htp.Context) { c.SoC, c.Arch = 0, 0 })
	add("scale and offset", func(c *htp.Context) {
		tensor(c).DType, tensor(c).Quant = htp.UFixed8, htp.Quantization{Encoding: htp.ScaleOffset, Scales: []float32{0.0125}, Offsets: []int32{-117}}
	})
	add("bits", func(c *htp.Context) {
		tensor(c).DType, tensor(c).Quant = htp.SFixed8, htp.Quantization{Encoding: htp.Bits, Bits: 4, Scales: []float32{0.25}, Offsets: []int32{-1}}
	})
	add("per axis", func(c *htp.Context) {
		tensor(c).Quant = htp.Quantization{Encoding: htp.PerAxis, Axis: 1, Scales: []float32{0.1, 0.2, 0.3}, Offsets: []int32{0, -1, 5}}
	})
	add("bits per axis", func(c *htp.Context) {
		tensor(c).Quant = htp.Quantization{Encoding: htp.PerAxisBits, Axis: 1, Bits: 4, Scales: []float32{0.1, 0.2, 0.3}, Offsets: []int32{0, -1, 5}}
	})
	add("an unknown encoding", func(c *htp.Context) { tensor(c).Quant = htp.Quantization{Encoding: 5} })
	add("a dynamic dimension", func(c *htp.Context) { tensor(c).Version, tensor(c).Dynamic = 2, []bool{true, false} })
	add("no dimension", func(c *htp.Context) { tensor(c).Dims = nil })
	add("an unknown type", func(c *htp.Context) { tensor(c).DType = 0x777 })
	return all
}

// A context written by another library is read back.
func TestRead(t *testing.T) {
	for name, want := range variants() {
		t.Run(name, func(t *testing.T) {
			b := htptest.Context(want)
			got, err := read(t, b)
			if err != nil {
				t.Fatal(err)
			}
			if got.Size != int64(len(b)) || got.BlobOffset+got.BlobSize != got.Size || got.BlobOffset != 40+got.Metadata {
				t.Errorf("size %d, metadata %d, blob %d at %d", got.Size, got.Metadata, got.BlobSize, got.BlobOffset)
			}
			want.Size, want.Metadata, want.BlobOffset = got.Size, got.Metadata, got.BlobOffset
			if d := cmp.Diff(&want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// counted counts the bytes that are read.
type counted struct {
	io.ReaderAt
	n int
}

func (c *counted) ReadAt(b []byte, at int64) (int, error) {
	c.n += len(b)
	return c.ReaderAt.ReadAt(b, at)
}

// The blob of a large file is not read.
func TestReadsMetadataAlone(t *testing.T) {
	c := htptest.Sample()
	c.BlobSize = 1 << 20
	b := htptest.Context(c)
	r := &counted{ReaderAt: bytes.NewReader(b)}
	if _, err := htp.ReadContext(r, int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if r.n > 64<<10 {
		t.Errorf("%d bytes of %d were read", r.n, len(b))
	}
}

// Files of another kind, truncated files and contradictory files are refused
// with the reason.
func TestRefuses(t *testing.T) {
	good := htptest.Context(htptest.Sample())
	patch := func(at int, with ...byte) []byte { b := slices.Clone(good); copy(b[at:], with); return b }
	described := func(change func(*htp.Context)) []byte {
		c := htptest.Sample()
		change(&c)
		return htptest.Context(c)
	}
	for _, tc := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "not the expected file type"},
		{"text", []byte("name: core-llm, of a kind with more than forty bytes in it"), "not the expected file type"},
		{"the magic alone", good[:16], "truncated in the header: got 16 bytes, want 40"},
		{"cut in the metadata", good[:200], "truncated in the metadata"},
		{"cut in the blob", good[:len(good)-1], "truncated in the blob"},
		{"a byte more", append(slices.Clone(good), 0), "1 extra bytes"},
		{"metadata of 2^63", patch(16, 0, 0, 0, 0, 0, 0, 0, 128), "limit 67108864"},
		{"blob in the metadata", patch(24, 41, 0, 0, 0, 0, 0, 0, 0), "overlaps the metadata"},
		{"blob that wraps", patch(32, 255, 255, 255, 255, 255, 255, 255, 255), "truncated in the blob"},
		{"root of 0", patch(40, 0, 0, 0, 0), "zero offset at 0"},
		{"root beyond the end", patch(40, 255, 255, 255, 127), "malformed"},
		{"a name twice", described(func(c *htp.Context) { c.Graphs = append(c.Graphs, c.Graphs[0]) }), `graph 1: duplicate name "main"`},
		{"an input twice", described(func(c *htp.Context) {
			c.Graphs[0].Inputs = append(c.Graphs[0].Inputs, c.Graphs[0].Inputs[0])
		}), `duplicate name in inputs: "x"`},
		{"dynamic of another rank", described(func(c *htp.Context) { c.Graphs[0].Inputs[0].Dynamic = []bool{true} }), "1 dynamic flags"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := read(t, tc.file)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %+v, %v; want %s", c, err, tc.want)
			}
			if other := tc.want == "not the expected file type"; err != nil && errors.Is(err, htp.ErrOther) != other {
				t.Errorf("another kind of file: %v", !other)
			}
		})
	}
}

// An unknown schema is reported, and the header is still read.
func TestUnknownSchema(t *testing.T) {
	c := htptest.Sample()
	c.Schema = 2
	b := htptest.Context(c)
	got, err := read(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if want := "schema 2 of the metadata, in a table of form 2: unknown"; got.Unread != want || got.Size != int64(len(b)) || got.Schema != 0 || got.Graphs != nil {
		t.Errorf("%+v", got)
	}
}

// The blob's size is stored twice; a file in which they differ is refused.
func TestTwoSizes(t *testing.T) {
	b := htptest.Context(htptest.Sample())
	at := bytes.Index(b[40:], []byte{0, 32, 0, 0, 0, 0, 0, 0})
	if at < 0 {
		t.Fatal("no size in the metadata")
	}
	b[40+at]++
	if _, err := read(t, b); err == nil || !strings.Contains(err.Error(), "header has 8192, metadata 8193") {
		t.Error(err)
	}
}
