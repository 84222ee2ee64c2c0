package track

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// readLog reads the records of a log of W&B, as its own reader does.
func readLog(t *testing.T, data []byte) (records [][]byte) {
	t.Helper()
	if len(data) < 7 || string(data[:4]) != ":W&B" || binary.LittleEndian.Uint16(data[4:]) != 0xbee1 || data[6] != 0 {
		t.Fatalf("header %x", data[:min(len(data), 7)])
	}
	var one []byte
	for at := 7; at < len(data); {
		if rest := logBlock - at%logBlock; rest < logHead {
			at += rest
			continue
		}
		n, kind := int(binary.LittleEndian.Uint16(data[at+4:])), data[at+6]
		part := data[at+7 : at+7+n]
		if at%logBlock+7+n > logBlock {
			t.Fatalf("a part of %d bytes at %d crosses a block", n, at)
		}
		if got, want := binary.LittleEndian.Uint32(data[at:]), crc32.ChecksumIEEE(append([]byte{kind}, part...)); got != want {
			t.Fatalf("checksum %x, want %x", got, want)
		}
		one = append(one, part...)
		if kind == logFull || kind == logLast {
			records, one = append(records, one), nil
		}
		at += 7 + n
	}
	if one != nil {
		t.Error("a record without an end")
	}
	return records
}

// fields returns the fields of a message with bytes, by number.
func fields(t *testing.T, data []byte) map[protowire.Number][][]byte {
	t.Helper()
	out := map[protowire.Number][][]byte{}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			t.Fatal("malformed message")
		}
		data = data[n:]
		n = protowire.ConsumeFieldValue(number, kind, data)
		if n < 0 {
			t.Fatal("malformed message")
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data)
			out[number] = append(out[number], value)
		} else {
			value, _ := protowire.ConsumeVarint(data)
			out[number] = append(out[number], protowire.AppendVarint(nil, value))
		}
		data = data[n:]
	}
	return out
}

// exported writes a run in a format and returns the file.
func exported(t *testing.T, dir, format, out string) []byte {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := WriteExport(r, format, out, "1")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(got.File)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A run of W&B has a record for each step, over several blocks; the same run has the same
// bytes, and a longer one replaces them.
func TestWeightsAndBiases(t *testing.T) {
	dir, out := folder(t, 900, "steps"), t.TempDir()
	data := exported(t, dir, "wandb", out)
	if !bytes.Equal(data, exported(t, dir, "wandb", out)) {
		t.Error("a second export differs")
	}
	if len(data) < 3*logBlock {
		t.Fatalf("got %d bytes, want several blocks", len(data))
	}
	records := readLog(t, data)
	if len(records) != 2+900+2 {
		t.Fatalf("got %d records, want %d", len(records), 2+900+2)
	}
	kinds := map[protowire.Number]int{}
	for i, r := range records {
		f := fields(t, r)
		if n, _ := protowire.ConsumeVarint(f[recordNumber][0]); int(n) != i {
			t.Fatalf("record %d has number %d", i, n)
		}
		for k := range f {
			kinds[k]++
		}
	}
	if kinds[recordHeader] != 1 || kinds[recordRun] != 1 || kinds[recordHistory] != 900 || kinds[recordSummary] != 1 || kinds[recordExit] != 1 {
		t.Errorf("got %v", kinds)
	}
	last := fields(t, fields(t, records[901])[recordHistory][0])[1]
	got := map[string]string{}
	for _, i := range last {
		f := fields(t, i)
		got[string(f[itemNested][0])] = string(f[itemJSON][0])
	}
	if got["_step"] != "900" || got["_runtime"] != "900" || got["train/tokens"] != "9000" || got["eval/loss"] != "2" {
		t.Errorf("got %v", got)
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "offline-run-") {
		t.Errorf("got %v, %v", entries, err)
	}
}

// Records of every length around the end of a block are read back.
func TestRecordLog(t *testing.T) {
	for _, n := range []int{0, 1, logBlock - 7 - logHead - 8, logBlock - 7 - logHead - 7, logBlock - 7 - logHead - 1, logBlock - 7 - logHead, logBlock - 7 - logHead + 1, 3 * logBlock} {
		var b bytes.Buffer
		l := &recordLog{w: &b}
		l.header()
		want := [][]byte{bytes.Repeat([]byte{'a'}, n), []byte("b"), nil, bytes.Repeat([]byte{'c'}, logBlock)}
		for _, r := range want {
			l.record(r)
		}
		got := readLog(t, b.Bytes())
		if len(got) != len(want) {
			t.Fatalf("%d bytes: got %d records, want %d", n, len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%d bytes: record %d has %d bytes, want %d", n, i, len(got[i]), len(want[i]))
			}
		}
	}
}

// Events of OpenLineage are the begin and the end of a run with the digests of its data.
func TestOpenLineage(t *testing.T) {
	for end, want := range map[string][]string{"": {"START"}, "steps": {"START", "COMPLETE"}, "interrupted": {"START", "ABORT"}} {
		var got []string
		for line := range strings.Lines(string(exported(t, folder(t, 3, end), "openlineage", t.TempDir()))) {
			var e struct {
				EventType, EventTime, SchemaURL string
				Run                             struct{ RunID string }
				Job                             struct{ Namespace, Name string }
				Inputs                          []struct {
					Name   string
					Facets map[string]struct{ DatasetVersion string }
				}
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e.EventType)
			if len(e.Run.RunID) != 36 || e.Job.Name != "wall" || e.Job.Namespace != "mm" || len(e.Inputs) != 1 || e.Inputs[0].Facets["version"].DatasetVersion != "sha256:aa11" || !strings.HasSuffix(e.EventTime, "Z") {
				t.Errorf("got %+v", e)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q: got %v, want %v", end, got, want)
		}
	}
}

func TestExportValues(t *testing.T) {
	for v, want := range map[float64]string{1.5: "1.5", math.Inf(1): "Infinity", math.Inf(-1): "-Infinity", 1e-9: "1e-09"} {
		if got := numberJSON(v); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := numberJSON(math.NaN()); got != "NaN" {
		t.Errorf("got %s", got)
	}
	for text, want := range map[string]string{"1": "1", "true": "true", "adamw": `"adamw"`, "null": `"null"`, `a"b`: `"a\"b"`, "[1]": `"[1]"`} {
		if got := paramJSON(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	r, err := Open(folder(t, 1, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := WriteExport(r, "csv", t.TempDir(), "1"); err == nil {
		t.Error("an unknown format has no error")
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteExport(r, "wandb", filepath.Join(r.Dir, "file"), "1"); err == nil {
		t.Error("a file as the folder has no error")
	}
}
