// Package home locates the user's folder (MM_HOME), reads the settings of a project
// (mm.yaml), and refuses folders in which other users may write.
package home

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// maxRecords bounds the home's small JSON files, in bytes.
const maxRecords = 4 << 20

// ReadRecords reads a small JSON object of the home; a missing one is empty.
func ReadRecords[T any](home, name string) (map[string]T, error) {
	records := map[string]T{}
	data, err := fsx.ReadFile(filepath.Join(home, name), maxRecords)
	if errors.Is(err, fs.ErrNotExist) {
		return records, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &records)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(home, name), err)
	}
	if records == nil {
		records = map[string]T{}
	}
	return records, nil
}

// changeRecords changes a small JSON object of the home under a lock.
func ChangeRecords[T any](ctx context.Context, home, name string, change func(map[string]T) error) error {
	dir, err := fsx.Create(home, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	lock, err := dir.Lock(ctx, "."+name+".lock")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	records, err := ReadRecords[T](home, name)
	if err != nil {
		return err
	}
	if err := change(records); err != nil {
		return err
	}
	data, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return err
	}
	return dir.WriteFile(name, append(data, '\n'), 0o644)
}

// Abs returns path as an absolute path, or path itself if the working directory is
// unknown.
func Abs(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
