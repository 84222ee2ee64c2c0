package qnn

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
)

func TestMaxRecord(t *testing.T) {
	dir := t.TempDir()
	const text = `{"context":"x","language":{"model":"m"}}`
	for n, ok := range map[int]bool{maxRecord: true, maxRecord + 1: false} {
		if err := os.WriteFile(filepath.Join(dir, "core.json"), append([]byte(text), bytes.Repeat([]byte(" "), n-len(text))...), 0o600); err != nil {
			t.Fatal(err)
		}
		p := &pairing{b: &runtimes.Bundle{Part: builds.Part{Files: builds.Formats{"qnn": {"core.bin", "core.json"}}}, Files: files(dir)}}
		if _, err := p.record("core.bin"); (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// files are the files of a folder.
type files string

func (f files) Path(name string) (string, error)   { return filepath.Join(string(f), name), nil }
func (f files) Open(name string) (*os.File, error) { return os.Open(filepath.Join(string(f), name)) }
func (f files) Dir(context.Context, ...string) (string, error) {
	return string(f), nil
}
