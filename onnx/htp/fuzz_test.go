package htp_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

// summary is the content that FlatBuffers' library finds in a file of schema 3.
type summary struct {
	Backend, SoC uint32
	Build        string
	Core         [3]uint32
	Graphs       []string
	Dims         []uint32 // of the first input of the first graph
}

// library reads a context with FlatBuffers' library, which trusts its bytes; ok
// is false if it panics.
func library(b []byte, metadata int64) (out summary, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	b = b[40 : 40+metadata]
	at := func(t flatbuffers.Table, field int) flatbuffers.UOffsetT {
		return flatbuffers.UOffsetT(t.Offset(flatbuffers.VOffsetT(4 + 2*field)))
	}
	sub := func(t flatbuffers.Table, field int) flatbuffers.Table {
		return flatbuffers.Table{Bytes: b, Pos: t.Indirect(t.Pos + at(t, field))}
	}
	word := func(t flatbuffers.Table, field int) uint32 {
		if o := at(t, field); o != 0 {
			return t.GetUint32(t.Pos + o)
		}
		return 0
	}
	text := func(t flatbuffers.Table, field int) string {
		if o := at(t, field); o != 0 {
			return string(t.ByteVector(t.Pos + o))
		}
		return ""
	}
	element := func(t flatbuffers.Table, field, i int) flatbuffers.Table {
		return flatbuffers.Table{Bytes: b, Pos: t.Indirect(t.Vector(at(t, field)) + flatbuffers.UOffsetT(4*i))}
	}
	root := flatbuffers.Table{Bytes: b, Pos: flatbuffers.GetUOffsetT(b)}
	t := sub(sub(root, 0), 2)
	out.Backend, out.SoC, out.Build = word(t, 0), word(t, 16), text(t, 1)
	if o := at(t, 2); o != 0 {
		for i := range out.Core {
			out.Core[i] = t.GetUint32(t.Pos + o + flatbuffers.UOffsetT(4*i))
		}
	}
	if at(t, 10) == 0 {
		return out, true
	}
	for i := range t.VectorLen(at(t, 10)) {
		e := element(t, 10, i)
		form := e.GetByte(e.Pos + at(e, 1))
		g := sub(e, 2)
		for range form - 1 {
			g = sub(g, 0)
		}
		out.Graphs = append(out.Graphs, text(g, 0))
		if i == 0 && at(g, 2) != 0 && g.VectorLen(at(g, 2)) > 0 {
			x := element(g, 2, 0)
			if o := at(x, 7); o != 0 {
				for j := range x.VectorLen(o) {
					out.Dims = append(out.Dims, x.GetUint32(x.Vector(o)+flatbuffers.UOffsetT(4*j)))
				}
			}
		}
	}
	return out, true
}

// summarize returns the same content as found by the reader.
func summarize(c *htp.Context) summary {
	t := summary{Backend: uint32(c.Backend), SoC: c.SoC, Build: c.Build, Core: [3]uint32{c.Core.Major, c.Core.Minor, c.Core.Patch}}
	for i, g := range c.Graphs {
		t.Graphs = append(t.Graphs, g.Name)
		if i == 0 && len(g.Inputs) > 0 {
			t.Dims = append(t.Dims, g.Inputs[0].Dims...)
		}
	}
	return t
}

// held checks a file of any content: the reader does not panic, what it accepts
// is consistent, and FlatBuffers' library agrees.
func held(t *testing.T, file []byte) (accepted bool) {
	t.Helper()
	c, err := htp.ReadContext(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return false
	}
	if c.Size != int64(len(file)) || c.BlobOffset+c.BlobSize != c.Size || c.Metadata < 0 || c.BlobOffset < 40+c.Metadata {
		t.Fatalf("the layout does not add up: %+v", c)
	}
	if c.Unread != "" {
		if c.Schema != 0 || c.Graphs != nil {
			t.Fatalf("unread, and yet %+v", c)
		}
		return true
	}
	if c.Schema != 3 {
		return true
	}
	want, ok := library(file, c.Metadata)
	if !ok {
		t.Fatalf("the library fails where the reader does not: %+v", c)
	}
	if d := cmp.Diff(want, summarize(c)); d != "" {
		t.Fatal(d)
	}
	return true
}

func samples(t testing.TB) map[string][]byte {
	files, err := filepath.Glob("../../../shared/data/qnn/*.bin")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, path := range files {
		if out[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Two thousand damaged contexts, generated and of Qualcomm if present, do not
// cause a panic or a value that is not in the bytes. MM_HOSTILE sets another
// number per file.
func TestHostile(t *testing.T) {
	files := map[string][]byte{}
	for name, c := range variants() {
		c.BlobSize = 512
		files[name] = htptest.Context(c)
	}
	real := samples(t)
	if len(real) == 0 {
		t.Log("skipped: no ../shared/data/qnn, files of Qualcomm's libraries")
	}
	for name, b := range real {
		files[name] = b
	}
	each := 2000/len(files) + 1
	if n, err := strconv.Atoi(os.Getenv("MM_HOSTILE")); err == nil {
		each = n
	}
	total, accepted := 0, 0
	for name, b := range files {
		if !held(t, b) {
			t.Errorf("%s: the intact file is refused", name)
		}
		for seed := range each {
			if total++; held(t, htptest.Mutate(b, 1200, uint64(seed))) {
				accepted++
			}
		}
	}
	t.Logf("%d damaged files of %d, %d of them still read", total, len(files), accepted)
	if total < 2000 && os.Getenv("MM_HOSTILE") == "" || accepted == 0 || accepted == total {
		t.Errorf("%d files, %d accepted: the test is blind", total, accepted)
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range variants() {
		c.BlobSize = 64
		f.Add(htptest.Context(c))
	}
	f.Fuzz(func(t *testing.T, b []byte) { held(t, b) })
}
