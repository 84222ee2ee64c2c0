package evidence

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A record of maxRecord bytes is read, a longer one is not; and at most maxRecords are read from a folder, the last first.
func TestLimits(t *testing.T) {
	var r Record
	if err := r.Seal(); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := Write(&text, r); err != nil {
		t.Fatal(err)
	}
	data := text.Bytes()
	padded := append(data[:len(data):len(data)], bytes.Repeat([]byte(" "), maxRecord-len(data))...)
	if _, err := Read(bytes.NewReader(padded)); err != nil {
		t.Errorf("maxRecord: %v", err)
	}
	if _, err := Read(bytes.NewReader(append(padded, ' '))); err == nil {
		t.Error("maxRecord: longer record accepted")
	}
	if testing.Short() {
		return
	}
	dir := t.TempDir()
	for i := range maxRecords + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.json", i)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if i < maxRecords-1 {
			continue
		}
		if list, err := ReadFolder(dir); err != nil || len(list) != maxRecords {
			t.Errorf("maxRecords: %d files: %d records, %v", i+1, len(list), err)
		}
	}
}
