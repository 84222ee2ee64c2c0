package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"
)

// raw builds valid and invalid files by hand.
type raw struct{ b []byte }

func (r *raw) u32(vs ...uint32) *raw {
	for _, v := range vs {
		r.b = binary.LittleEndian.AppendUint32(r.b, v)
	}
	return r
}

func (r *raw) u64(vs ...uint64) *raw {
	for _, v := range vs {
		r.b = binary.LittleEndian.AppendUint64(r.b, v)
	}
	return r
}

func (r *raw) str(s string) *raw  { r.u64(uint64(len(s))); r.b = append(r.b, s...); return r }
func (r *raw) raw(b ...byte) *raw { r.b = append(r.b, b...); return r }
func (r *raw) pad(n int) *raw     { return r.raw(make([]byte, n)...) }
func (r *raw) align() *raw        { return r.pad(int(pad(int64(len(r.b)), 32)) - len(r.b)) }

// head begins a version 3 file.
func head(tensors, keys uint64) *raw {
	r := &raw{b: []byte(magic)}
	return r.u32(3).u64(tensors, keys)
}

// info appends a tensor description.
func (r *raw) info(name string, typ uint32, offset uint64, dims ...uint64) *raw {
	return r.str(name).u32(uint32(len(dims))).u64(dims...).u32(typ).u64(offset)
}

// malformed is the corpus: every file is refused with a distinct message. Names
// contain the field's value where one matters.
func malformed() []struct {
	name string
	file []byte
	want string
} {
	u8key := func(key string) *raw { return head(0, 1).str(key).u32(idUint8).raw(7) }
	return []struct {
		name string
		file []byte
		want string
	}{
		{"empty file", nil, "the magic needs 4 bytes, 0 left"},
		{"other magic", []byte("GGML0000000000000000000000000000"), `not a GGUF file: bad magic "GGML"`},
		{"git lfs pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"},
		{"version 1", (&raw{b: []byte(magic)}).u32(1).u64(0, 0).b, "unsupported version 1: convert the file again"},
		{"version 4", (&raw{b: []byte(magic)}).u32(4).u64(0, 0).b, "unsupported version 4, latest is 3"},
		{"big endian", (&raw{b: []byte(magic)}).u32(3<<24).u64(0, 0).b, "big-endian"},
		{"header cut short", head(0, 0).b[:20], "the key count needs 8 bytes, 4 left"},
		{"n_tensors times size wraps (CVE-2024-21836)", head(math.MaxUint64/8, 0).pad(64).b, "too many tensors: got 2305843009213693951, limit 131072"},
		{"n_kv times size wraps (CVE-2024-23605)", head(0, math.MaxUint64/4).pad(64).b, "too many keys: got 4611686018427387903, limit 65536"},
		{"counts beyond the file", head(1000, 1000).pad(64).b, "1000 tensors and 1000 keys need at least 39000 bytes, 64 left"},
		{"string length wraps (CVE-2024-23496)", head(0, 1).u64(math.MaxUint64).pad(32).b, "key 0 too long: got 18446744073709551615 bytes, limit 65535"},
		{"string beyond the file", head(0, 1).u64(60000).pad(32).b, "key 0 needs 60000 bytes, 32 left"},
		{"value string beyond the file", head(0, 1).str("k").u32(idString).u64(1 << 29).pad(8).b, "key k: file truncated: its value needs 536870912 bytes, 8 left"},
		{"value string over the limit", head(0, 1).str("k").u32(idString).u64(1 << 62).pad(8).b, "key k: its value too long: got 4611686018427387904 bytes, limit 1073741824"},
		{"empty key", u8key("").pad(8).b, "key 0: empty key"},
		{"key not printable", u8key("a\x00b").b, `"a\x00b" is not printable`},
		{"duplicate key", head(0, 2).str("k").u32(idUint8).raw(1).str("k").u32(idUint8).raw(1).b, "duplicate key k"},
		{"unknown value type", head(0, 1).str("k").u32(13).pad(8).b, "key k: unknown value type 13"},
		{"bool of 2", head(0, 1).str("k").u32(idBool).raw(2).b, "key k: bad bool: got 2, want 0 or 1"},
		{"bool array with 255", head(0, 1).str("k").u32(idArray, idBool).u64(2).raw(1, 255).b, "key k: bad bool 1 of an array: got 255, want 0 or 1"},
		{"array count wraps (CVE-2024-21825)", head(0, 1).str("k").u32(idArray, idUint64).u64(1 << 61).pad(8).b, "key k: array too long: got 2305843009213693952 elements, limit 1073741824"},
		{"array of 2^63 elements hangs (PR 27188)", head(0, 1).str("k").u32(idArray, idUint8).u64(1 << 63).b, "key k: array too long: got 9223372036854775808 elements, limit 1073741824"},
		{"array beyond the file", head(0, 1).str("k").u32(idArray, idFloat32).u64(1000).pad(100).b, "an array of 1000 f32 needs 4000 bytes, 100 left"},
		{"string array beyond the file", head(0, 1).str("k").u32(idArray, idString).u64(1000).pad(100).b, "key k: file truncated: an array of 1000 strings needs at least 8000 bytes, 100 left"},
		{"string in an array beyond the file", head(0, 1).str("k").u32(idArray, idString).u64(2).str("a").u64(99).b, "string 1 of an array has 99 bytes, only 0 are left"},
		{"nested array", head(0, 1).str("k").u32(idArray, idArray).u64(1).u32(idUint8).u64(1).raw(1).b, "key k: unsupported array of arrays"},
		{"array of unknown type", head(0, 1).str("k").u32(idArray, 99).u64(1).pad(8).b, "unknown element type 99"},
		{"alignment 0", head(0, 1).str(KeyAlignment).u32(idUint32, 0).b, "alignment 0 is not a power of two"},
		{"alignment 3", head(0, 1).str(KeyAlignment).u32(idUint32, 3).b, "alignment 3 is not a power of two"},
		{"alignment not u32 (PR 26318)", head(0, 1).str(KeyAlignment).u32(idUint64).u64(32).b, "key general.alignment: got type u64, want u32"},
		{"alignment of 2 GiB (PR 24997)", head(0, 1).str(KeyAlignment).u32(idUint32, 1<<31).b, "alignment 2147483648 exceeds 1048576"},
		{"tensor name of 64 bytes", head(1, 0).info(strings.Repeat("n", 64), 0, 0, 1).align().pad(32).b, "the name of tensor 0 too long: got 64 bytes, limit 63"},
		{"tensor name empty", head(1, 0).info("", 0, 0, 1).align().pad(32).b, `tensor 0: name "" is empty or contains a NUL`},
		{"duplicate tensor", head(2, 0).info("t", 0, 0, 1).info("t", 0, 32, 1).align().pad(64).b, `duplicate tensor "t"`},
		{"five dimensions", head(1, 0).info("t", 0, 0, 1, 1, 1, 1, 1).align().pad(32).b, "tensor t: got 5 dimensions, limit 4"},
		{"2^32-1 dimensions", head(1, 0).str("t").u32(math.MaxUint32).pad(64).b, "tensor t: got 4294967295 dimensions, limit 4"},
		{"dimension of 0", head(1, 0).info("t", 0, 0, 4, 0).align().pad(32).b, "dimension 1 is 0 in [4 0]"},
		{"negative dimension", head(1, 0).info("t", 0, 0, math.MaxUint64).align().pad(32).b, "dimension 0 is 18446744073709551615"},
		{"dimension product wraps (CVE-2024-21802)", head(1, 0).info("t", 0, 0, 1<<42, 1<<42).align().pad(32).b, "dimension 1 is 4398046511104 in"},
		{"size wraps (CVE-2025-53630)", head(1, 0).info("t", 0, 0, 1<<62).align().pad(32).b, "tensor t: dimensions [4611686018427387904] exceed 2^63 bytes"},
		{"unknown tensor type (CVE-2024-42477)", head(1, 0).info("t", 999, 0, 32).align().pad(32).b, "tensor t: unknown element type 999"},
		{"removed tensor type", head(1, 0).info("t", 4, 0, 32).align().pad(32).b, "tensor t: unknown element type 4"},
		{"row of half a block", head(1, 0).info("t", 8, 0, 48).align().pad(64).b, "tensor t: row of 48 elements is not a multiple of the block size 32"},
		{"offset beyond 2^63", head(1, 0).info("t", 0, 1<<63, 8).align().pad(32).b, "tensor t: offset 9223372036854775808 out of range"},
		{"gap before a tensor", head(2, 0).info("a", 0, 0, 8).info("b", 0, 64, 8).align().pad(96).b, "tensor b: offset gap or overlap: got 64, want 32"},
		{"overlapping tensors", head(2, 0).info("a", 0, 0, 8).info("b", 0, 0, 8).align().pad(32).b, "tensor b: offset gap or overlap: got 0, want 32"},
		{"offset not aligned", head(2, 0).info("a", 0, 0, 1).info("b", 0, 4, 1).align().pad(32).b, "tensor b: offset gap or overlap: got 4, want 32"},
		{"dimensions larger than the file (CVE-2026-7482)", head(1, 0).info("t", 0, 0, 1<<20).align().pad(32).b, "file truncated: tensor t has 4194304 bytes at 64, file ends at 96"},
		{"data cut short", head(1, 0).info("t", 0, 0, 9).align().pad(35).b, "file truncated: tensor t has 36 bytes at 64, file ends at 99"},
		{"padding missing before data", head(1, 0).info("t", 0, 0, 1).b, "file truncated: tensor t has 4 bytes at 64, file ends at 57"},
		{"bytes after the last tensor", head(1, 0).info("t", 0, 0, 8).align().pad(33).b, "1 extra bytes after the last tensor"},
		{"bytes after the header", head(0, 0).pad(100).b, "100 extra bytes after the header of a file without tensors"},
	}
}

func TestMalformed(t *testing.T) {
	seen := make(map[string]string)
	for _, c := range malformed() {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.file)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %q, should hold %q", err, c.want)
			}
			if other, twice := seen[err.Error()]; twice {
				t.Errorf("same message as for %q: %v", other, err)
			}
			seen[err.Error()] = c.name
			if _, overReader := Read(bytes.NewReader(c.file), int64(len(c.file))); overReader == nil || overReader.Error() != err.Error() {
				t.Errorf("over a reader the error is %q, in memory %q", overReader, err)
			}
		})
	}
}

// TestMalformedAllocation checks that declared counts do not cause allocations:
// the corpus together takes less than a megabyte.
func TestMalformedAllocation(t *testing.T) {
	cases := malformed()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, c := range cases {
		if _, err := Parse(c.file); err == nil {
			t.Errorf("%s: accepted", c.name)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("refusing the corpus allocated %d bytes", got)
	}
}

// TestCheck covers valid containers that would still mislead an engine.
func TestCheck(t *testing.T) {
	good := []KV{
		{KeyArchitecture, "llama"},
		{KeyBlockCount.In("llama"), uint32(2)},
		{KeyHeadCount.In("llama"), []int32{4, 4}},
		{KeyTokens, []string{"a", "b"}},
		{KeyScores, []float32{0, 1}},
		{KeyTokenTypes, []int32{1, 1}},
		{KeyBOS, uint32(1)},
	}
	with := func(key string, v any) []KV {
		var out []KV
		for _, kv := range good {
			if kv.Key != key {
				out = append(out, kv)
			}
		}
		if v != nil {
			out = append(out, KV{key, v})
		}
		return out
	}
	for _, c := range []struct {
		name string
		kvs  []KV
		want string
	}{
		{"sound", good, ""},
		{"no architecture", with(KeyArchitecture, nil), "no such key: general.architecture"},
		{"architecture empty", with(KeyArchitecture, ""), "general.architecture is empty"},
		{"architecture not a string", with(KeyArchitecture, uint32(1)), "general.architecture: got type u32, want str"},
		{"block_count 0", with(KeyBlockCount.In("llama"), uint32(0)), "key llama.block_count: got 0, want 1 to 512"},
		{"block_count 513 (PR 25821)", with(KeyBlockCount.In("llama"), uint32(513)), "key llama.block_count: got 513, want 1 to 512"},
		{"block_count i32", with(KeyBlockCount.In("llama"), int32(2)), "key llama.block_count: got type i32, want u32"},
		{"scores u8 (PR 26690)", with(KeyScores, []uint8{0, 1}), "key tokenizer.ggml.scores: got type arr[u8], want arr[f32]"},
		{"token types i8 (PR 26690)", with(KeyTokenTypes, []int8{1, 1}), "key tokenizer.ggml.token_type: got type arr[i8], want arr[i32]"},
		{"too few scores", with(KeyScores, []float32{0}), "score count mismatch: got 1, want 2"},
		{"too many token types", with(KeyTokenTypes, []int32{1, 1, 1}), "token type count mismatch: got 3, want 2"},
		{"bos beyond the vocabulary", with(KeyBOS, uint32(2)), "key tokenizer.ggml.bos_token_id: id 2 out of range of 2 tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			if _, err := Write(&b, c.kvs, nil); err != nil {
				t.Fatal(err)
			}
			f, err := Parse(b.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			err = f.Check()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error is %v, should hold %q", err, c.want)
			}
		})
	}
}
