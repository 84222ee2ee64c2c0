package htp_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/htp/htptest"
)

func readDLC(b []byte) (*htp.DLC, error) {
	return htp.ReadDLC(bytes.NewReader(b), int64(len(b)))
}

func TestReadDLC(t *testing.T) {
	context := htptest.Context(htptest.Sample())
	b := htptest.DLC("net", context)
	got, err := readDLC(b)
	if err != nil {
		t.Fatal(err)
	}
	if got.Tool != "qairt-converter" || got.Converter != "2.47.0.260601114230" || got.Version != (htp.Version{Major: 2, Minor: 3}) || !cmp.Equal(got.Graphs, []string{"net"}) || len(got.Entries) != 5 {
		t.Errorf("%+v", got)
	}
	if len(got.Contexts) != 1 || !bytes.Equal(b[got.Contexts[0].Offset:][:got.Contexts[0].Size], context) || got.Contexts[0].Context.SoC != 69 {
		t.Errorf("%+v", got.Contexts)
	}
	if got, err = readDLC(htptest.DLC("net", nil)); err != nil || got.Contexts != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDLCRefuses(t *testing.T) {
	archive := func(names []string, method uint16) []byte {
		var out bytes.Buffer
		z := zip.NewWriter(&out)
		for _, n := range names {
			w, err := z.CreateHeader(&zip.FileHeader{Name: n, Method: method})
			if err == nil {
				_, err = w.Write([]byte(strings.Repeat("a model", 9)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var many []string
	for i := range 1100 {
		many = append(many, fmt.Sprint("e", i))
	}
	for _, tc := range []struct {
		name  string
		file  []byte
		want  string
		other bool
	}{
		{"empty", nil, "not a ZIP archive", true},
		{"a checkpoint", archive([]string{"data.pkl"}, zip.Store), "no entry \"model\"", true},
		{"compressed", archive([]string{"model"}, zip.Deflate), "compression method 8", false},
		{"twice", archive([]string{"model", "model"}, zip.Store), "duplicate entry", false},
		{"many", archive(many, zip.Store), "got 1100, limit 1024", false},
		{"notes without JSON", archive([]string{"model", "dlc.metadata"}, zip.Store), "invalid JSON in the notes", false},
		{"cut", htptest.DLC("net", nil)[:900], "zip", false},
	} {
		got, err := readDLC(tc.file)
		if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, htp.ErrOther) != tc.other {
			t.Errorf("%s: %+v, %v; want %s", tc.name, got, err, tc.want)
		}
	}
}

// A directory of many megabytes is not read.
func TestDirectoryIsBounded(t *testing.T) {
	for size, want := range map[int]string{htp.MaxDirectory: "no entry \"model\"", htp.MaxDirectory + 256<<10: "directory exceeds"} {
		directory(t, size, want)
	}
}

// directory reads an archive with a directory of about size bytes.
func directory(t *testing.T, size int, want string) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := range size / 4050 {
		if _, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%d%s", i, strings.Repeat("n", 4000)), Method: zip.Store}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := readDLC(out.Bytes()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a directory of %d bytes: %v", size, err)
	}
}

func FuzzReadDLC(f *testing.F) {
	c := htptest.Sample()
	c.BlobSize = 64
	f.Add(htptest.DLC("net", htptest.Context(c)))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := readDLC(b)
		if err != nil {
			return
		}
		for _, x := range c.Contexts {
			if x.Offset < 0 || x.Offset > c.Size-x.Size {
				t.Fatalf("a context beyond the file: %+v", x)
			}
		}
	})
}
