package corpus

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// samples are files of PyArrow: 40 rows with text, n, ok, messages, u and dec.
var samples = []string{"snappy.parquet", "zstd2.parquet", "plain.parquet", "gzip.parquet"}

var sampleColumns = []string{"messages", "n", "ok", "text", "u"}

// readAll reads a file. It returns the rows read before an error.
func readAll(path string, columns []string) (rows []map[string]any, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	t, err := openParquet(f, info.Size(), columns)
	if err != nil {
		return nil, err
	}
	defer t.close()
	for {
		some, err := t.next()
		rows = append(rows, some...)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
	}
}

func TestParquet(t *testing.T) {
	for _, name := range samples {
		rows, err := readAll(filepath.Join("testdata", name), sampleColumns)
		if err != nil || len(rows) != 40 {
			t.Fatalf("%s: %d rows, %v", name, len(rows), err)
		}
		r := rows[17]
		m := r["messages"].([]any)[0].(map[string]any)
		if r["text"] != "document 17 of the table, text 3" || r["n"] != 17 || r["ok"] != false || m["content"] != "hi 17" || r["u"] != float64(1<<63) || rows[18]["text"] != nil {
			t.Errorf("%s: row 17: %v", name, r)
		}
		if _, ok := r["dec"]; ok {
			t.Errorf("%s: unnamed column was read", name)
		}
	}
	for columns, want := range map[string]string{"dec": "DECIMAL", "absent": `no column "absent"`} {
		if _, err := readAll("testdata/plain.parquet", []string{columns}); err == nil || !contains(err.Error(), want) {
			t.Errorf("column %s: got %v, want %s", columns, err, want)
		}
	}
}

// A damaged file is an error or has other rows; it does not panic, hang or take
// more memory than the limits allow.
func TestParquetMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	failed, n := 0, 0
	for _, name := range samples {
		good, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		for seed := range uint64(500) {
			r := rand.New(rand.NewPCG(seed, 7))
			if err := os.WriteFile(path, damage(r, good), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readAll(path, sampleColumns); err != nil {
				failed++
			}
			n++
		}
	}
	t.Logf("%d damaged files, %d errors", n, failed)
	if failed < n/3 {
		t.Errorf("%d of %d damaged files are errors", failed, n)
	}
}

// damage changes, cuts or repeats bytes.
func damage(r *rand.Rand, good []byte) []byte {
	b := append([]byte(nil), good...)
	for range 1 + r.IntN(4) {
		at := r.IntN(len(b))
		switch r.IntN(6) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = byte(r.IntN(256))
		case 2:
			b[at] = 0xff
		case 3: // in the footer
			at = len(b) - 1 - r.IntN(min(len(b), 1200))
			b[at] = byte(r.IntN(256))
		case 4:
			to := min(len(b), at+1+r.IntN(16))
			b = append(b[:at:at], b[to:]...)
		case 5:
			to := min(len(b), at+1+r.IntN(16))
			b = append(b[:to:to], b[at:]...)
		}
		if len(b) == 0 {
			return b
		}
	}
	return b
}

func FuzzParquet(f *testing.F) {
	for _, name := range samples {
		good, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(good)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "f.parquet")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		rows, err := readAll(path, sampleColumns)
		if err == nil && len(rows) > 1<<22 {
			t.Fatal(fmt.Sprint(len(rows), " rows"))
		}
	})
}
