package records_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/records"
)

type row struct {
	N int `json:"n"`
}

// Rows are read in order. A line that a crash cut short is ignored and then overwritten.
func TestAppendAfterCrash(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "new", "rows.jsonl")
	if rows, err := records.Read[row](path); err != nil || rows != nil {
		t.Fatalf("no file: %v, %v", rows, err)
	}
	if err := records.Append(ctx, path, row{1}, row{2}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(`{"n":2}`) + 1 {
		if err := os.WriteFile(path, data[:len(data)-1-cut], 0o644); err != nil {
			t.Fatal(err)
		}
		if rows, err := records.Read[row](path); err != nil || len(rows) != 1 {
			t.Fatalf("cut by %d: %v, %v", cut+1, rows, err)
		}
		if err := records.Append(ctx, path, row{3}); err != nil {
			t.Fatal(err)
		}
		rows, err := records.Read[row](path)
		if diff := cmp.Diff([]row{{1}, {3}}, rows); diff != "" || err != nil {
			t.Fatalf("cut by %d: %s %v", cut+1, diff, err)
		}
	}
}

func TestTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 10 {
				if err := records.Append(context.Background(), path, row{i}, row{i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if rows, err := records.Read[row](path); err != nil || len(rows) != 80 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// Update adds the decided rows before another process reads the journal.
func TestUpdate(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "new", "rows.jsonl")
	next := func(rows []row) ([]row, error) { return []row{{len(rows) + 1}}, nil }
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if err := records.Update(ctx, path, next); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := errors.New("no")
	if err := records.Update(ctx, path, func([]row) ([]row, error) { return []row{{9}}, want }); !errors.Is(err, want) {
		t.Error(err)
	}
	rows, err := records.Read[row](path)
	if err != nil || len(rows) != 40 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, r := range rows {
		if r.N != i+1 {
			t.Fatalf("row %d was decided from %d", i+1, r.N-1)
		}
	}
}

func TestHostile(t *testing.T) {
	for text, want := range map[string]string{
		"{\"n\":1}\n{\"m\":2}\n":          `2: unknown key "m", want one of n`,
		"{\"n\":1} {\"n\":2}\n":           "1: data after the value",
		"{\"n\":\"x\"}\n":                 "1: json: cannot unmarshal",
		"\n":                              "1: EOF",
		strings.Repeat(" ", 1<<17) + "\n": "1: line too long: got 131072 bytes",
	} {
		if _, err := records.Parse[row]([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
	if err := records.Append(context.Background(), filepath.Join(t.TempDir(), "r"), strings.Repeat("x", 1<<17)); err == nil {
		t.Error("wrote a row over the limit")
	}
	if err := records.ReadJSON(t.TempDir(), new(row)); err == nil {
		t.Error("read a folder")
	}
}

// The folder of a new journal is synced once, after the file.
func TestSyncDir(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "rows.jsonl")
	var ops []fsx.Kind
	opt := fsx.Options{Hook: func(op *fsx.Op, do func() error) error {
		if op.Kind == fsx.OpSync || op.Kind == fsx.OpSyncDir {
			ops = append(ops, op.Kind)
		}
		return do()
	}}
	for range 2 {
		if err := records.AppendWith(ctx, path, opt, row{1}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]fsx.Kind{fsx.OpSync, fsx.OpSyncDir, fsx.OpSync}, ops); diff != "" {
		t.Error(diff)
	}
}

// Each limit is accepted, and one byte more is refused.
func TestLimits(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	file := func(name string, size int64, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil { // sparse
			t.Fatal(err)
		}
		return path
	}
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, try := range map[string]func(over int) error{
		"MaxLine appended": func(over int) error {
			return records.Append(ctx, filepath.Join(dir, "append"), text(records.MaxLine-2+over))
		},
		"MaxLine parsed": func(over int) error {
			_, err := records.Parse[string]([]byte(`"` + text(records.MaxLine-2+over) + "\"\n"))
			return err
		},
		"MaxFile": func(over int) error {
			if testing.Short() && over == 0 {
				return nil // reads 256 MiB
			}
			_, err := records.Read[row](file("journal", int64(records.MaxFile+over), ""))
			return err
		},
		"16*MaxLine": func(over int) error {
			var s string
			return records.ReadJSON(file("json", int64(16*records.MaxLine+over), `"`+text(16*records.MaxLine-2)+`"`+strings.Repeat(" ", over)), &s)
		},
		"MaxID": func(over int) error {
			return records.AddToGraph(ctx, filepath.Join(dir, "graph"), []records.Node{{ID: text(records.MaxID + over), Type: "Run"}}, nil)
		},
	} {
		if err := try(0); err != nil {
			t.Errorf("%s: at the limit: %.100v", name, err)
		}
		if try(1) == nil {
			t.Errorf("%s: accepted above the limit", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("{\"n\":1}\n{\"n\":2}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := records.Parse[row](data)
		if err == nil && len(rows) != strings.Count(string(data), "\n") {
			t.Fatal(fmt.Sprint(len(rows), " rows of ", string(data)))
		}
	})
}

// An unknown key is answered with the known ones, those of nested objects too.
func TestKnownKeys(t *testing.T) {
	var v struct {
		Name  string `json:"name"`
		Parts []struct {
			Size int `json:"size,omitempty"`
		} `json:"parts"`
		hidden int
	}
	v.hidden = 1
	for text, want := range map[string]string{
		`{"nam": "x"}`:              `unknown key "nam", want one of name, parts, size`,
		`{"parts": [{"bytes": 1}]}`: `unknown key "bytes", want one of name, parts, size`,
	} {
		if err := records.Strict([]byte(text), &v); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := records.Strict([]byte(`{"name": 1}`), &v); err == nil || strings.Contains(err.Error(), "want one of") {
		t.Errorf("a value of another type: %v", err)
	}
}
