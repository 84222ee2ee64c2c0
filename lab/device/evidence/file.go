package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// Write writes a record as indented JSON; its digest is of the canonical form.
func Write(w io.Writer, r Record) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// Keep writes a record to a folder under its digest, and to a file unless its path is empty.
func Keep(folder string, r Record, path string) error {
	for _, to := range []string{filepath.Join(folder, strings.TrimPrefix(r.Digest, "sha256:")+".json"), path} {
		if to == "" {
			continue
		}
		if err := fsx.Replace(to, 0o644, func(f io.Writer) error { return Write(f, r) }); err != nil {
			return fmt.Errorf("writing the record: %w", err)
		}
	}
	return nil
}

// maxRecords is the largest number of records that [ReadFolder] returns.
const maxRecords = 4096

// ReadFolder reads the records in a folder, the last name first. Files that are
// not intact records are ignored. If the folder does not exist, there are none.
func ReadFolder(folder string) ([]Record, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, e := range slices.Backward(entries) {
		if filepath.Ext(e.Name()) != ".json" || full(out) {
			continue
		}
		f, err := fsx.OpenRegular(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		r, err := Read(f)
		f.Close()
		if err == nil {
			out = append(out, r)
		}
	}
	return out, nil
}

func full(list []Record) bool { return len(list) >= maxRecords }
