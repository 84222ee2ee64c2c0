package torch

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/train"
)

const folder = "testdata/dcp"

// The fixture comes back with the logits that PyTorch computed, as the model in
// training and, merged and exported, in the inference engine.
func TestCollect(t *testing.T) {
	out := filepath.Join(t.TempDir(), "one.safetensors")
	if err := Collect(folder, out); err != nil {
		t.Fatal(err)
	}
	c, err := train.OpenLM(out)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Header.Step != 5 || c.Header.Resumable {
		t.Errorf("step %d, resumable %v", c.Header.Step, c.Header.Resumable)
	}
	var want struct {
		IDs    []int32     `json:"ids"`
		Logits [][]float32 `json:"logits"`
	}
	data, err := os.ReadFile(filepath.Join(folder, "logits.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	m, err := c.Model()
	if err != nil {
		t.Fatal(err)
	}
	m.Refresh(nil)
	path := filepath.Join(t.TempDir(), "one.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExportGGUF(f, nil); err != nil {
		t.Fatal(err)
	}
	f.Close()
	engine, err := infer.Load(path, infer.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	s, err := engine.NewSession(infer.SessionOptions{KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	d := m.NewDecoder()
	for i, id := range want.IDs {
		trained, err := d.Feed(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Feed(t.Context(), []int32{id}); err != nil {
			t.Fatal(err)
		}
		for _, got := range [][]float32{trained, s.Logits()} {
			for j, v := range got {
				if math.Abs(float64(v-want.Logits[i][j])) > 1e-4 {
					t.Fatalf("logit %d at %d: got %v, want %v", j, i, v, want.Logits[i][j])
				}
			}
		}
	}
}

// damaged copies the fixture with a change.
func damaged(t *testing.T, name string, change func([]byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{Metadata, headerFile, "__0_0.distcp", "__1_0.distcp"} {
		data, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if file == name {
			data = change(data)
		}
		if data == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func swap(old, with string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(with)) }
}

// Damaged folders are refused, and nothing is written.
func TestCollectRefuses(t *testing.T) {
	for what, c := range map[string]struct {
		file   string
		change func([]byte) []byte
		want   string
	}{
		"no metadata":     {Metadata, func([]byte) []byte { return nil }, "no such file"},
		"cut":             {Metadata, func(b []byte) []byte { return b[:len(b)/2] }, "truncated"},
		"more":            {Metadata, func(b []byte) []byte { return append(b, '.') }, "1 more bytes"},
		"another class":   {Metadata, swap("pathlib", "os.pthl"), `refused global "os.pthl.PosixPath"`},
		"another file":    {Metadata, swap("__0_0.distcp", "../0_.distcp"), "malformed place"},
		"another dtype":   {Metadata, swap("float32", "float64"), "unsupported dtype"},
		"no weights":      {Metadata, swap("model.", "modul."), "no tensor model."},
		"missing tensor":  {Metadata, swap("model.output.weight", "modul.output.weight"), "missing"},
		"no shard":        {"__1_0.distcp", func([]byte) []byte { return nil }, "no such file"},
		"short shard":     {"__1_0.distcp", func(b []byte) []byte { return b[:len(b)-9] }, "the end"},
		"another storage": {"__0_0.distcp", swap("FloatStorage", "ShortStorage"), "checksum"},
		"changed data":    {"__0_0.distcp", swap("\x00\x00\x80\x3f", "\x00\x00\x90\x3f"), "checksum"},
		"big endian":      {"__0_0.distcp", swap("little", "bigger"), "checksum"},
		"no header":       {headerFile, func([]byte) []byte { return nil }, "no such file"},
		"header":          {headerFile, swap(`"step\":5`, `"step\":6`), ""},
	} {
		t.Run(what, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "one.safetensors")
			dir := damaged(t, c.file, c.change)
			err := Collect(dir, out)
			if what == "missing tensor" { // the model finds out
				if err != nil {
					t.Fatal(err)
				}
				ck, err := train.OpenLM(out)
				if err != nil {
					t.Fatal(err)
				}
				defer ck.Close()
				if _, err = ck.Model(); err == nil {
					t.Error("a model without its head")
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error about %s", err, c.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("a file was written")
			}
		})
	}
}

// The description of a saved tensor must agree with the metadata.
func TestDescribes(t *testing.T) {
	pickle := func(class, key, count, offset, sizes, strides string) string {
		return "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((\x8c\x07storagectorch\n" + class + "\n\x8c\x01" + key + "\x8c\x03cpuK" + count + "tQK" + offset + sizes + strides + "\x89ccollections\nOrderedDict\n)RtR."
	}
	shape, strides := "K\x02K\x03\x86", "K\x03K\x01\x86"
	for _, c := range []struct{ in, want string }{
		{pickle("FloatStorage", "0", "\x06", "\x00", shape, strides), ""},
		{pickle("HalfStorage", "0", "\x06", "\x00", shape, strides), "refused global"},
		{pickle("FloatStorage", "1", "\x06", "\x00", shape, strides), "malformed storage"},
		{pickle("FloatStorage", "0", "\x07", "\x00", shape, strides), "storage of 7"},
		{pickle("FloatStorage", "0", "\x06", "\x01", shape, strides), "from 1"},
		{pickle("FloatStorage", "0", "\x06", "\x00", "K\x03K\x02\x86", strides), "[3 2]"},
		{pickle("FloatStorage", "0", "\x06", "\x00", shape, "K\x01K\x02\x86"), "strides [1 2]"},
		{"N.", "not a tensor"}, {"ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR.", "without a storage"},
	} {
		err := describes([]byte(c.in), "torch.FloatStorage", []int{2, 3})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.in, err, c.want)
		}
	}
}

// archived returns a zip archive, compressed or stored.
func archived(t *testing.T, method uint16, entries ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(entries); i += 2 {
		f, err := w.CreateHeader(&zip.FileHeader{Name: entries[i], Method: method})
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte(entries[i+1]))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Entries are stored, of the size, and in the order of bytes.
func TestSaved(t *testing.T) {
	description := "\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((\x8c\x07storagectorch\nFloatStorage\n\x8c\x010\x8c\x03cpuK\x02tQK\x00K\x02\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR."
	numbers := "\x00\x00\x80\x3f\x00\x00\x00\x40"
	for _, c := range []struct {
		data []byte
		want string
	}{
		{archived(t, zip.Store, "a/data.pkl", description, "a/data/0", numbers), ""},
		{archived(t, zip.Store, "a/data.pkl", description, "a/data/0", numbers, "a/byteorder", "little"), ""},
		{archived(t, zip.Store, "a/data.pkl", description, "a/data/0", numbers, "a/byteorder", "big"), `byte order "big"`},
		{archived(t, zip.Deflate, "a/data.pkl", description, "a/data/0", numbers), "compressed"},
		{archived(t, zip.Store, "a/data.pkl", description), "missing entry data/0"},
		{archived(t, zip.Store, "a/data/0", numbers), "missing entry data.pkl"},
		{archived(t, zip.Store, "a/data.pkl", description, "a/data/0", numbers+"0000"), "12 bytes, want 8"},
		{archived(t, zip.Store, "a/data.pkl", "N."+strings.Repeat("N", maxDescription-2), "a/data/0", numbers), "more bytes"},
		{archived(t, zip.Store, "a/data.pkl", "N."+strings.Repeat("N", maxDescription-1), "a/data/0", numbers), "65537 bytes"},
		{[]byte(numbers), "zip"},
	} {
		got, err := saved(bytes.NewReader(c.data), int64(len(c.data)), "float32", []int{2})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
		if err == nil && string(got) != numbers {
			t.Errorf("got %q", got)
		}
	}
}

// Sizes and counts are limited.
func TestLimits(t *testing.T) {
	for n, ok := range map[int64]bool{0: false, 1: true, maxExtent: true, maxExtent + 1: false} {
		if _, err := extent(tuple{n}, 1); (err == nil) != ok {
			t.Errorf("extent %d: %v", n, err)
		}
	}
	index := func(i int) *object {
		return &object{state: &dict{[]any{"fqn", "offset"}, []any{"model.w", tuple{int64(i)}}}}
	}
	info := &object{state: &dict{[]any{"relative_path", "offset", "length"}, []any{"__0_0.distcp", int64(0), int64(4)}}}
	for n, ok := range map[int]bool{maxChunks: true, maxChunks + 1: false} {
		places, chunks := &dict{}, &list{}
		for i := range n {
			places.keys, places.values = append(places.keys, index(i)), append(places.values, info)
			chunks.items = append(chunks.items, &object{state: &dict{[]any{"offsets", "sizes"}, []any{tuple{int64(i)}, tuple{int64(1)}}}})
		}
		where, err := parsePlaces(places)
		if (err == nil) != ok {
			t.Errorf("%d places: %v", n, err)
		}
		if where == nil {
			where, _ = parsePlaces(&dict{places.keys[:maxChunks], places.values[:maxChunks]})
		}
		o := &object{class: classes + "TensorStorageMetadata", state: &dict{[]any{"size", "properties", "chunks"},
			[]any{tuple{int64(n)}, &object{state: tuple{global("torch.float32")}}, chunks}}}
		if _, err := parseTensor("model.w", o, where); (err == nil) != ok {
			t.Errorf("%d chunks: %v", n, err)
		}
	}
	for n, ok := range map[int64]bool{maxMetadata: true, maxMetadata + 1: false} {
		dir := damaged(t, Metadata, func(b []byte) []byte { return b })
		if err := os.Truncate(filepath.Join(dir, Metadata), n); err != nil {
			t.Fatal(err)
		}
		err := Collect(dir, filepath.Join(dir, "out"))
		if large := err != nil && strings.Contains(err.Error(), "too large"); large == ok {
			t.Errorf("metadata of %d bytes: %v", n, err)
		}
	}
}

// Chunks must fill a tensor exactly.
func TestTiled(t *testing.T) {
	c := func(offset, size int) chunk { return chunk{offsets: []int{offset, 0}, sizes: []int{size, 4}} }
	for _, s := range []struct {
		chunks []chunk
		ok     bool
	}{
		{[]chunk{c(0, 3), c(3, 2)}, true}, {[]chunk{c(0, 5)}, true}, {[]chunk{c(0, 5), c(5, 0)}, true},
		{[]chunk{c(0, 3)}, false}, {[]chunk{c(0, 3), c(2, 2)}, false}, {[]chunk{c(0, 3), c(0, 3)}, false},
	} {
		if err := (stored{shape: []int{5, 4}, chunks: s.chunks}).tiled(); (err == nil) != s.ok {
			t.Errorf("%v: %v", s.chunks, err)
		}
	}
}

// Chunks that lie in the same bytes are refused, so that files bound memory.
func TestDistinct(t *testing.T) {
	one := func(at, length int64) stored {
		return stored{name: "w", dtype: "float32", shape: []int{4}, chunks: []chunk{{offsets: []int{0}, sizes: []int{4}, file: "__0_0.distcp", at: at, length: length}}}
	}
	for _, s := range []struct {
		all []stored
		ok  bool
	}{
		{[]stored{one(0, 100), one(100, 100)}, true}, {[]stored{one(100, 100), one(0, 100)}, true},
		{[]stored{one(0, 100), one(99, 100)}, false}, {[]stored{one(0, 15)}, false}, {[]stored{one(0, 16)}, true},
		{[]stored{one(1<<40, 100)}, false}, {[]stored{one(math.MaxInt64, math.MaxInt64)}, false},
	} {
		if err := distinct(folder, s.all); (err == nil) != s.ok {
			t.Errorf("%v: %v", s.all, err)
		}
	}
}

// Two-dimensional shards go to their rows and columns; half precision widens.
func TestPlace(t *testing.T) {
	out := make([]byte, 4*6)
	place2D(out, []byte{1, 0, 0, 0, 2, 0, 0, 0}, []int{2, 3}, chunk{offsets: []int{0, 1}, sizes: []int{2, 1}})
	want := make([]byte, 24)
	want[4], want[16] = 1, 2
	if d := cmp.Diff(want, out); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]byte{0, 0, 0x80, 0x3f}, widen([]byte{0x80, 0x3f}, "bfloat16")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]byte{0, 0, 0x80, 0x3f}, widen([]byte{0, 0x3c}, "float16")); d != "" {
		t.Error(d)
	}
}

func anything(global) bool { return true }

// Each instruction, and each limit on either side.
func TestUnpickle(t *testing.T) {
	for _, c := range []struct {
		in   string
		want any
		err  string
	}{
		{"\x80\x04K\x05.", int64(5), ""},
		{"\x80\x02M\x01\x02.", int64(0x201), ""},
		{"\x80\x04J\xff\xff\xff\xff.", int64(-1), ""},
		{"\x80\x04\x8a\x01\xfe.", int64(-2), ""},
		{"\x80\x04\x8a\x05\x00\x00\x00\x00\x01.", int64(1 << 32), ""},
		{"\x80\x04\x8a\x00.", int64(0), ""},
		{"\x80\x04\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.", int64(math.MaxInt64), ""},
		{"\x80\x04\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", nil, "9 bytes"},
		{"\x80\x06N.", nil, "protocol 6"}, {"\x80\x01N.", nil, "protocol 1"},
		{"\x80\x05N.", nil, ""}, {"\x88.", true, ""}, {"\x89.", false, ""},
		{"X\x02\x00\x00\x00ab.", "ab", ""}, {"\x8c\x01\xff.", nil, "UTF-8"}, {"X\x09\x00\x00\x00ab.", nil, "truncated"},
		{").", tuple{}, ""}, {"NK\x01\x86.", tuple{nil, int64(1)}, ""}, {"(NNt.", tuple{nil, nil}, ""}, {"N\x85q\x00h\x00\x86.", tuple{tuple{nil}, tuple{nil}}, ""},
		{"t.", nil, "missing mark"}, {"(\x85.", nil, "mark"}, {"\x86.", nil, "empty stack"},
		{"h\x00.", nil, "unknown memo"}, {"NN.", nil, "2 values"}, {".", nil, "0 values"}, {"N", nil, "truncated"}, {"N.N", nil, "1 more"},
		{"]NaK\x01a.", &list{[]any{nil, int64(1)}}, ""}, {"](NNe.", &list{[]any{nil, nil}}, ""},
		{"]NNs.", nil, "list"}, {"}Na.", nil, "dictionary"}, {"}(Nu.", nil, "dictionary"}, {"NNa.", nil, "items of"},
		{"cos\nsystem\n.", global("os.system"), ""}, {"cos\nsystem", nil, "truncated"}, {"NN\x93.", nil, "not text"},
		{"N)R.", nil, "call"}, {"cos\nsystem\nNR.", nil, "call"}, {"NNb.", nil, "takes none"},
		{"NQ.", persistent{}, ""}, {"(Q.", nil, "mark"},
		{"i.", nil, "0x69"}, {"\x92.", nil, "0x92"},
	} {
		got, err := unpickle([]byte(c.in), anything)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: error %v, want %s", c.in, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if d := cmp.Diff(c.want, got, cmp.AllowUnexported(list{}, dict{}, object{}, persistent{})); d != "" {
			t.Errorf("%q: %s", c.in, d)
		}
	}
	if _, err := unpickle([]byte("cos\nsystem\n)R."), metadataClass); err == nil || !strings.Contains(err.Error(), `refused global "os.system"`) {
		t.Errorf("os.system: %v", err)
	}
}

func TestFields(t *testing.T) {
	o := &object{state: &dict{}}
	d := o.state.(*dict)
	for i := range maxFields + 1 {
		if got := o.field("k"); i > 0 && got != "v" {
			t.Errorf("%d fields: got %v", i, got)
		}
		d.keys, d.values = append(d.keys, "k"), append(d.values, "v")
	}
	if got := o.field("k"); got != nil {
		t.Errorf("too many fields: got %v", got)
	}
}

func FuzzMetadata(f *testing.F) {
	data, err := os.ReadFile(filepath.Join(folder, Metadata))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("\x80\x04}."))
	f.Fuzz(func(t *testing.T, data []byte) {
		tensors, err := parseMetadata(data)
		if err != nil {
			return
		}
		for _, s := range tensors {
			if err := s.tiled(); err != nil {
				t.Error(err)
			}
			for _, c := range s.chunks {
				if !shardName().MatchString(c.file) {
					t.Errorf("file %q", c.file)
				}
			}
		}
	})
}

func FuzzSaved(f *testing.F) {
	tensors, err := fixture()
	if err != nil {
		f.Fatal(err)
	}
	for _, t := range tensors[:3] {
		c := t.chunks[0]
		data, err := os.ReadFile(filepath.Join(folder, c.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[c.at:c.at+c.length], c.sizes[0])
	}
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		if n < 0 || n > 1<<20 {
			return
		}
		got, err := saved(bytes.NewReader(data), int64(len(data)), "float32", []int{n})
		if err == nil && len(got) != 4*n {
			t.Errorf("%d bytes for %d numbers", len(got), n)
		}
	})
}

func fixture() ([]stored, error) {
	data, err := os.ReadFile(filepath.Join(folder, Metadata))
	if err != nil {
		return nil, err
	}
	return parseMetadata(data)
}
