package native

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

func TestLimits(t *testing.T) {
	newStage := func() *fsx.Dir {
		stage, err := fsx.Create(t.TempDir(), 0o700, fsx.Options{})
		if err == nil {
			err = stage.MkdirAll("engine", 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stage.Close() })
		return stage
	}
	record := func(n int) error {
		dir := t.TempDir()
		data, _ := json.Marshal(Record{Name: LlamaCPP})
		if err := os.WriteFile(filepath.Join(dir, recordName), append(data, bytes.Repeat([]byte(" "), n-len(data))...), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := read(dir)
		return err
	}
	// A library of this size, which is truncated, so that only the checks run.
	extract := func(size, total int64) error {
		p, err := packageOf(LlamaCPP, "linux", "amd64")
		if err != nil {
			t.Fatal(err)
		}
		tk := &taking{p: p, stage: newStage(), files: map[string]string{}, total: total}
		if err := tk.entry("package/libllama.so", size, bytes.NewReader(nil)); !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		return nil
	}
	file := func(n int) error { return extract(int64(n), 0) }
	total := func(n int) error { return extract(1, int64(n)-1) }
	entries := func(n int) error {
		return (&taking{seen: n - 1}).entry("package/x.txt", 0, nil)
	}
	for _, c := range []struct {
		name  string
		check func(int) error
		limit int
	}{{"maxRecord", record, maxRecord}, {"maxFile", file, maxFile}, {"maxTotal", total, maxTotal}, {"maxEntries", entries, maxEntries}} {
		if err := c.check(c.limit); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.check(c.limit+1) == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
	// A legal text above its limit is skipped.
	for n, want := range map[int64]bool{maxLegal: true, maxLegal + 1: false} {
		p, err := packageOf(LlamaCPP, "linux", "amd64")
		if err != nil {
			t.Fatal(err)
		}
		tk := &taking{p: p, stage: newStage(), files: map[string]string{}}
		if err := tk.entry("package/LICENSE", n, io.LimitReader(zeros{}, n)); err != nil || (tk.files["LICENSE"] != "") != want {
			t.Errorf("license of %d bytes: %v, %v", n, tk.files, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
