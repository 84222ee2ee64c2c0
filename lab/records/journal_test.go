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

	"mm-abi.org/mm/lab/records"
)

type row struct {
	N int `json:"n"`
}

// Rows come back in their order; a line that a crash cut short is neither read
// nor kept.
func TestAppendAfterCrash(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "new", "rows.jsonl")
	if rows, err := records.Read[row](path); err != nil || rows != nil {
		t.Fatalf("no file: %v, %v", rows, err)
	}
	if err := records.Append(ctx, path, row{1}, row{2}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(`{"n":2}`) + 1 {
		if err := os.WriteFile(path, whole[:len(whole)-1-cut], 0o644); err != nil {
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

// What is decided of the rows is added before anybody else sees them.
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
			t.Fatalf("row %d was decided of %d", i+1, r.N-1)
		}
	}
}

func TestHostile(t *testing.T) {
	for text, want := range map[string]string{
		"{\"n\":1}\n{\"m\":2}\n":          `2: json: unknown field "m"`,
		"{\"n\":1} {\"n\":2}\n":           "1: something stands after the value",
		"{\"n\":\"x\"}\n":                 "1: json: cannot unmarshal",
		"\n":                              "1: EOF",
		strings.Repeat(" ", 1<<17) + "\n": "1: a line of 131072 bytes",
	} {
		if _, err := records.Parse[row]([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
	if err := records.Append(context.Background(), filepath.Join(t.TempDir(), "r"), strings.Repeat("x", 1<<17)); err == nil {
		t.Error("a row over the limit was written")
	}
	if err := records.ReadJSON(t.TempDir(), new(row)); err == nil {
		t.Error("a folder was read")
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
