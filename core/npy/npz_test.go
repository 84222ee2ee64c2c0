package npy_test

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/npy"
)

// archive returns a ZIP of entries, given as names and contents in turn.
func archive(t testing.TB, entries ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(entries); i += 2 {
		w, err := z.Create(entries[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(entries[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encoded(t testing.TB, a *npy.Array) string {
	t.Helper()
	b, err := npy.Encode(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestArchive(t *testing.T) {
	a := &npy.Array{Type: "f4", Shape: []int{2}, Data: []byte{0, 0, 128, 63, 0, 0, 0, 64}}
	data := archive(t, "x.npy", encoded(t, a), "deep/y.npy", encoded(t, &npy.Array{Type: "i8", Data: make([]byte, 8)}))
	got, err := npy.ReadArchive(bytes.NewReader(data), int64(len(data)), 1<<20)
	if err != nil || len(got) != 2 || got["deep/y"] == nil {
		t.Fatalf("%v, %v", got, err)
	}
	if d := cmp.Diff(a, got["x"]); d != "" {
		t.Error(d)
	}
	one := encoded(t, a)
	for want, data := range map[string][]byte{
		"not an .npz":          []byte("PK"),
		"0 entries":            archive(t),
		`"readme" is not`:      archive(t, "readme", "text"),
		"duplicate entry":      archive(t, "x.npy", one, "x.npy", one),
		"remain within":        archive(t, "x.npy", one, "y.npy", strings.Repeat("\x00", 1<<20)),
		`"y.npy": not an .npy`: archive(t, "x.npy", one, "y.npy", "text"),
		"unexpected EOF|zip":   archive(t, "x.npy", one)[:20],
	} {
		_, err := npy.ReadArchive(bytes.NewReader(data), int64(len(data)), 1<<16)
		ok := false
		for _, w := range strings.Split(want, "|") {
			ok = ok || err != nil && strings.Contains(err.Error(), w)
		}
		if !ok {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// An encoded archive can be read again, and the encoding is deterministic.
func TestEncodeArchive(t *testing.T) {
	want := map[string]*npy.Array{"b": {Type: "f4", Shape: []int{1, 2}, Data: make([]byte, 8)}, "a": {Type: "u1", Shape: []int{3}, Data: []byte{1, 2, 3}}}
	b, err := npy.EncodeArchive(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := npy.ReadArchive(bytes.NewReader(b), int64(len(b)), 1<<10)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for range 8 { // map order must not matter
		if again, err := npy.EncodeArchive(want); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("output differs: %v", err)
		}
	}
	if _, err := npy.EncodeArchive(map[string]*npy.Array{"a": {Type: "f4", Shape: []int{2}, Data: []byte{1}}}); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("truncated array: %v", err)
	}
}

func FuzzArchive(f *testing.F) {
	f.Add(archive(f, "x.npy", encoded(f, &npy.Array{Type: "f4", Shape: []int{1}, Data: make([]byte, 4)})))
	f.Add(archive(f, "x", ""))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := npy.ReadArchive(bytes.NewReader(data), int64(len(data)), 1<<16)
		total := 0
		for _, a := range got {
			total += len(a.Data)
		}
		if err == nil && (len(got) == 0 || total > 1<<16) {
			t.Fatalf("%d arrays of %d bytes", len(got), total)
		}
	})
}
