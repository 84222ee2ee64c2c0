package evidence

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/internal/fsx"
)

// Write writes a record as indented JSON; its digest is of the canonical form.
func Write(w io.Writer, r Record) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
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
