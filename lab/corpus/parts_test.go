package corpus

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go/format"

	"mm-abi.org/mm/internal/diag"
)

func TestFilter(t *testing.T) {
	row := map[string]any{"text": "Hello", "n": 3, "f": 0.5, "tags": []any{"a", "b"}, "ok": true}
	for text, want := range map[string]bool{
		`n > 2 && lower(text) startsWith "he"`: true,
		`"b" in tags`:                          true,
		`text matches "^H.*o$"`:                true,
		`(gone ?? 1) == 1 && ok`:               true,
		`len(text) == 5 ? f < 0.1 : true`:      false,
		`tags[0] == "c" or not ok`:             false,
	} {
		f, err := NewFilter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Keep(row); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	if f, err := NewFilter(`b > 1 && a == b`); err != nil || !slices.Equal(f.Columns, []string{"a", "b"}) {
		t.Errorf("%v %v", f, err)
	}
}

// Bombs and functions outside of the list are refused before a row is read.
func TestFilterBombs(t *testing.T) {
	for _, text := range []string{
		`let a = text + text; len(a) > 1`, `text + text == ""`, `all(1..1000000, all(1..1000000, true))`, `len(1..1000000000) > 0`,
		`repeat(text, 1000000) == ""`, `text matches text`, `reduce(tags, #acc + #, "") == ""`, `filter(tags, true) == []`, `2 ** 9999 > 0`,
		`text.foo()`, `foo(text)`, `now() > 0`, `toJSON(text) == ""`, `map(tags, {# + #}) == []`, `"x"; true`, `$env == 1`, `{"a": 1} == 1`,
		strings.Repeat("(", maxNodes+1) + "ok" + strings.Repeat(")", maxNodes+1), strings.Repeat("!", 4000) + "ok", strings.Repeat("ok && ", maxNodes) + "ok",
		"ok || " + strings.Repeat("x", maxExpression), `text`, `1`, ``,
	} {
		f, err := NewFilter(text)
		if err == nil {
			if _, err = f.Keep(map[string]any{"text": "t", "ok": true, "tags": []any{"a"}}); err == nil {
				t.Errorf("%.80s is accepted", text)
			}
		}
	}
	edge := `text == "` + strings.Repeat("x", maxExpression-len(`text == ""`)) + `"`
	if _, err := NewFilter(edge); err != nil {
		t.Errorf("%d bytes: %v", len(edge), err)
	}
	if _, err := NewFilter(strings.Repeat("(", 100) + "ok" + strings.Repeat(")", 100)); err != nil {
		t.Error(err)
	}
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{`n > 2 && lower(text) startsWith "he"`, `"b" in tags`, `let a = text; a`, `1..9`, `tags[-1]?.x ?? 2`, `text[1:2] matches "("`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := NewFilter(text)
		if err != nil {
			return
		}
		filter.Keep(map[string]any{"text": "Hello", "n": 3, "tags": []any{"a", "b"}})
	})
}

// The scanner accepts the same texts as encoding/json, up to its nesting, and
// decodes the same values.
func checkMembers(t *testing.T, b []byte) {
	t.Helper()
	got := map[string]any{}
	err := members(b, func(k, v []byte) error {
		key, err := decodeText(k)
		if err != nil {
			return err
		}
		got[key], err = decodeValue(v)
		return err
	})
	var want map[string]any
	dec := json.NewDecoder(bytes.NewReader(b))
	failed := dec.Decode(&want)
	if failed == nil && len(bytes.Trim(b[dec.InputOffset():], " \t\r\n")) > 0 {
		failed = errors.New("more")
	}
	var f *fault
	if errors.As(err, &f) && (f.code != diag.RowFault || contains(f.detail, "duplicate")) {
		return
	}
	if (err == nil) != (failed == nil && want != nil) {
		t.Fatalf("%q: got %v, encoding/json %v", b, err, failed)
	}
	if err != nil {
		return
	}
	data, _ := json.Marshal(got)
	var back map[string]any
	if err := json.Unmarshal(data, &back); err != nil || cmp.Diff(want, back) != "" {
		t.Fatalf("%q: %s", b, cmp.Diff(want, back))
	}
	if got := appendValue(nil, any(got)); !json.Valid(got) {
		t.Fatalf("%q: written as %q", b, got)
	}
}

var rows = []string{`{"a":"b","c":[1,2.5e3,-0,true,false,null,{"d":{}}]}`, `{"a":"\u00e9\n\"\\ é"}`, ` { } `, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`, `{"a" 1}`, `{"a":1,}`, `{"a":[1,]}`, `{"a":"\x"}`, `{"a":"\u12G4"}`, `{"a":tru}`, `{"a":1`, `{a:1}`, "{\"a\":\"\n\"}", `[]`, `1`, ``, `{"a":1e400}`, `{"a":1}{`, `{"a":"\u+123"}`, `{"a":9223372036854775807}`}

func TestMembers(t *testing.T) {
	for _, r := range rows {
		checkMembers(t, []byte(r))
	}
}

func FuzzMembers(f *testing.F) {
	for _, r := range rows {
		f.Add([]byte(r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.ContainsRune(b, '\ufffd') || !json.Valid(b) && len(b) > 1<<16 {
			return
		}
		if strings.ToValidUTF8(string(b), "") != string(b) {
			return // refused before
		}
		checkMembers(t, b)
	})
}

// A splitter yields the same rows whatever the reader returns at a time.
func TestSplitter(t *testing.T) {
	text := strings.Repeat("row<|>", 3) + strings.Repeat("x", 3*blockSize) + "<|><|>end"
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "halves": iotest.HalfReader(strings.NewReader(text)), "data and error": iotest.DataErrReader(strings.NewReader(text))} {
		s := &splitter{r: r, separator: []byte("<|>")}
		var all []byte
		last := int64(0)
		for {
			b, err := s.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || b.first != last+1 {
				t.Fatalf("%s: row %d after %d, %v", name, b.first, last, err)
			}
			all, last = append(all, b.data...), s.row
		}
		if string(all) != text || last != 6 {
			t.Errorf("%s: %d bytes of %d, %d rows", name, len(all), len(text), last)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte("version: 1\nname: m\nsources:\n  - {id: a, path: a.txt, sha256: 0000000000000000000000000000000000000000000000000000000000000000, license: MIT, where: 'a > 1'}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, list := Parse("m.data.yaml", b)
		if m == nil && !list.Failed() {
			t.Fatal("no manifest and no fault")
		}
		if m != nil && (m.Digest() == "" || m.License() == "") {
			t.Fatal("no digest or license")
		}
	})
}

func TestThrift(t *testing.T) {
	list := func(n int) []byte { // field 1: a list of n bytes
		b := binary.AppendUvarint([]byte{0x19, 0xf3}, uint64(n))
		return append(append(b, make([]byte, n)...), 0)
	}
	for name, c := range map[string]struct {
		b  []byte
		ok bool
	}{
		"empty": {[]byte{0}, true}, "end": {nil, false}, "items": {list(maxItems), true}, "too many items": {list(maxItems + 1), false},
		"long list": {binary.AppendUvarint([]byte{0x19, 0xf3}, 1<<30), false}, "long text": {binary.AppendUvarint([]byte{0x18}, 1<<30), false},
		"nested":     {append(bytes.Repeat([]byte{0x1c}, maxNesting-1), make([]byte, maxNesting)...), true},
		"too nested": {append(bytes.Repeat([]byte{0x1c}, maxNesting), make([]byte, maxNesting+1)...), false},
		"kind":       {[]byte{0x1d, 0}, false},
	} {
		err := (&thrift{b: c.b}).structure(1, 0)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Runs and pages on both sides of the limits.
func TestPageLimits(t *testing.T) {
	run := func(n uint64) []byte { return append(binary.AppendUvarint(nil, n<<1), 0) }
	for name, c := range map[string]struct {
		err error
		ok  bool
	}{
		"run":           {countRuns(run(100), 1, 100), true},
		"long run":      {countRuns(run(108), 1, 100), false},
		"limit":         {countRuns(run(maxPageValues), 1, maxPageValues), true},
		"bomb":          {countRuns(run(1<<31), 1, math.MaxInt32), false},
		"packed":        {countRuns(append(binary.AppendUvarint(nil, 13<<1|1), make([]byte, 13)...), 1, 100), true},
		"packed bomb":   {countRuns(binary.AppendUvarint(nil, maxPageValues<<4|1), 32, math.MaxInt32), false},
		"wide":          {countRuns(run(1), 33, 1), false},
		"page":          {pageOf(pageHeader{size: 4, stored: 4, values: maxPageValues}), true},
		"values":        {pageOf(pageHeader{size: 4, stored: 4, values: maxPageValues + 1}), false},
		"size":          {pageOf(pageHeader{size: maxPage + 1, stored: 4}), false},
		"stored":        {pageOf(pageHeader{size: 4, stored: 5}), false},
		"differs":       {pageOf(pageHeader{size: 3, stored: 4}), false},
		"encoding":      {pageOf(pageHeader{size: 4, stored: 4, encoding: int64(format.DeltaByteArray)}), false},
		"level lengths": {pageOf(pageHeader{kind: dataPageV2, size: 4, stored: 4, defLength: 5}), false},
		"negative":      {pageOf(pageHeader{size: -1, stored: 4}), false},
	} {
		if (c.err == nil) != c.ok {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

// pageOf checks a page of four bytes.
func pageOf(h pageHeader) error {
	c := &column{r: io.NewSectionReader(bytes.NewReader(make([]byte, 4)), 0, 4)}
	return c.page(h, 0)
}

// A page that claims less than it decompresses to is refused before it is
// expanded.
func TestPageBomb(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(make([]byte, 64<<20))
	w.Close()
	c := &column{r: io.NewSectionReader(bytes.NewReader(z.Bytes()), 0, int64(z.Len())), codec: format.Gzip}
	if err := c.page(pageHeader{size: 1000, stored: int64(z.Len())}, 0); err == nil {
		t.Error("bomb is accepted")
	}
	snappy := append(binary.AppendUvarint(nil, 1<<31), 0)
	c = &column{r: io.NewSectionReader(bytes.NewReader(snappy), 0, int64(len(snappy))), codec: format.Snappy}
	if err := c.page(pageHeader{size: 1000, stored: int64(len(snappy))}, 0); err == nil {
		t.Error("snappy bomb is accepted")
	}
}

func TestFooter(t *testing.T) {
	for name, b := range map[string][]byte{"short": []byte("PAR1"), "magic": make([]byte, 20), "length": append(append([]byte("PAR1"), make([]byte, 4)...), 0xff, 0xff, 0xff, 0x7f, 'P', 'A', 'R', '1')} {
		if err := checkFooter(bytes.NewReader(b), int64(len(b))); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestOpenLineage(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{"{": "MM1571", "{}": "missing digest", strings.Repeat(" ", maxLineage+1): "too large"} {
		if err := os.WriteFile(filepath.Join(dir, LineageFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenLineage(dir); err == nil || !contains(err.Error(), want) {
			t.Errorf("%.10s: got %v, want %s", text, err, want)
		}
	}
}

func TestCopies(t *testing.T) {
	hash := make([]byte, 32)
	n := 0
	for i := range 1000 {
		binary.LittleEndian.PutUint64(hash[24:], uint64(i)*0x9e3779b97f4a7c15)
		n += copies(2.5, hash, 1)
	}
	if n < 2400 || n > 2600 {
		t.Errorf("got %d copies of 1000 documents, want 2500", n)
	}
}
