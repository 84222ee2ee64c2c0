package htp_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx/htp"
)

// answer is QnnSystem's answer, written by scripts/qnn-reference.py.
type answer struct {
	RC       int64
	Schema   uint32
	Backend  uint32
	Build    string
	Core     [3]uint32
	API      [3]uint32
	SoCText  string `json:"soc_text"`
	Blob     [3]uint32
	BlobSize int64 `json:"blob_size"`
	SoC      uint32
	Arch     uint32 // of Extra
	Extra    string
	Shared   []askedTensor
	Graphs   []askedGraph
}

type askedGraph struct {
	Name            string
	Inputs, Outputs []askedTensor
	Updates         int
	Extra           string
}

type askedTensor struct {
	Version  int
	ID       uint32
	Name     string
	Kind     uint32
	Format   uint32
	DType    uint32
	Dims     []uint32
	Encoding uint32
	Axis     int32
	Bits     uint32
	Scales   []float32
	Offsets  []int32
}

func words(b []byte, at int) uint32 {
	return uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16 | uint32(b[at+3])<<24
}

// answered converts the reader's result.
func answered(c *htp.Context) answer {
	tensors := func(list []htp.Tensor) []askedTensor {
		out := []askedTensor{}
		for _, t := range list {
			q := t.Quant
			out = append(out, askedTensor{t.Version, t.ID, t.Name, t.Kind, t.Format, uint32(t.DType), append([]uint32{}, t.Dims...), uint32(q.Encoding), q.Axis, q.Bits, append([]float32{}, q.Scales...), append([]int32{}, q.Offsets...)})
		}
		return out
	}
	a := answer{Schema: c.Schema, Backend: uint32(c.Backend), Build: c.Build, Core: [3]uint32{c.Core.Major, c.Core.Minor, c.Core.Patch}, API: [3]uint32{c.API.Major, c.API.Minor, c.API.Patch}, SoCText: c.SoCText,
		Blob: [3]uint32{c.Blob.Major, c.Blob.Minor, c.Blob.Patch}, BlobSize: c.BlobSize, SoC: c.SoC, Arch: uint32(c.Arch), Shared: tensors(c.Tensors), Graphs: []askedGraph{}}
	for _, g := range c.Graphs {
		extra := ""
		if m := g.Memory; m != nil {
			extra = string(mustJSON(m))
		}
		a.Graphs = append(a.Graphs, askedGraph{g.Name, tensors(g.Inputs), tensors(g.Outputs), len(g.Updates), extra})
	}
	return a
}

// undefine replaces numbers unknown to the reader by undefined, as QnnSystem
// does.
func (a *answer) undefine() {
	const undefined, kinds = 0x7fffffff, 16 // of which QNN has defined some
	lists := [][]askedTensor{a.Shared}
	for _, g := range a.Graphs {
		lists = append(lists, g.Inputs, g.Outputs)
	}
	for _, list := range lists {
		for i := range list {
			t := &list[i]
			if !htp.DType(t.DType).Known() {
				t.DType = undefined
			}
			if t.Encoding > uint32(htp.PerAxisBits) {
				t.Encoding = undefined
			}
			if t.Kind >= kinds {
				t.Kind = undefined
			}
		}
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// memoryOf reads QnnSystem's bytes for a graph in their memory layout.
func memoryOf(t *testing.T, text string, backend uint32) string {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 40 || backend != 6 || words(b, 0) != 1 {
		return ""
	}
	long := func(at int) uint64 { return uint64(words(b, at)) | uint64(words(b, at+4))<<32 }
	m := &htp.Memory{SpillFill: long(8), VTCM: words(b, 16), Optimization: words(b, 20), HVXThreads: long(32)}
	if len(b) >= 112 && words(b, 40) == 2 {
		m.Sized, m.IO, m.OpData, m.Constants, m.DDR, m.Shared = true, long(72), long(80), long(88), long(96), long(104)
	}
	return string(mustJSON(m))
}

// For every file that both accept, intact or damaged, the reader agrees with
// QnnSystem field by field; both accept intact files. MM_QNN_REFERENCE is the
// folder that scripts/qnn-reference.sh fills.
func TestReference(t *testing.T) {
	dir := os.Getenv("MM_QNN_REFERENCE")
	if dir == "" {
		t.Skip("skipped: MM_QNN_REFERENCE names no answers of QnnSystem (make qnn-reference)")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no answers", err)
	}
	count := map[string]int{}
	for _, path := range files {
		var want answer
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		file, err := os.ReadFile(strings.TrimSuffix(path, ".json") + ".bin")
		if err != nil {
			t.Fatal(err)
		}
		damaged := strings.HasPrefix(name, "damaged.")
		c, err := htp.ReadContext(bytes.NewReader(file), int64(len(file)))
		switch {
		case want.RC == 0 && err == nil && c.Unread == "":
			count["both take"]++
		case want.RC == 0 && !damaged:
			t.Errorf("%s: %v, %+v", name, err, c)
			continue
		case want.RC == 0:
			count["we alone refuse"]++
			continue
		case err == nil && c.Unread == "":
			count["they alone refuse"]++
			continue
		default:
			count["both refuse"]++
			continue
		}
		if extra, err := hex.DecodeString(want.Extra); err == nil && len(extra) >= 8 && want.Backend == 6 && words(extra, 0) == 1 {
			want.Arch = words(extra, 4)
		}
		want.Extra = ""
		for i := range want.Graphs {
			want.Graphs[i].Extra = memoryOf(t, want.Graphs[i].Extra, want.Backend)
		}
		got := answered(c)
		got.undefine()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	t.Logf("%d files: %v", len(files), count)
}
