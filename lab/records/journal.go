// Package records reads and writes the record files of a laboratory: journals, a graph of
// provenance, and a list of pending uploads.
//
// A journal holds one JSON object per line and is only appended to. [Append] writes rows
// durably under a lock; the next append cuts off a line that a crash left incomplete.
// [Update] appends rows that depend on the present ones. [Read] returns the complete lines,
// also while another process writes. Package chain detects tampering; journals do not.
//
// [AddToGraph] and [ReadGraph] keep nodes and edges in two journals; the target of an edge
// that is not a recorded node becomes a placeholder. [AddUpload] and [Uploads] keep the files
// that wait to be uploaded, with the digests that they had when they were listed.
//
// [Registry] lists an experiment's backends: their capabilities, and the chips that they are
// confirmed for. A backend that requires confirmation runs on a chip only if a stored device
// record (lab/device/evidence) proves it. [Registry.Promote] copies the record next to the
// registry under its SHA-256 and adds a row; [Open] verifies each record again. A confirmation
// counts only if its record exists, is unchanged, not simulated in any part, and signed by a
// trusted key.
package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// The limits of a journal in bytes.
const (
	MaxLine = 64 << 10
	MaxFile = 256 << 20
)

// Append adds rows to the journal at path. A crash may keep only the first of them.
func Append[T any](ctx context.Context, path string, rows ...T) error {
	return AppendWith(ctx, path, fsx.Options{}, rows...)
}

// AppendWith is Append with file system options.
func AppendWith[T any](ctx context.Context, path string, opt fsx.Options, rows ...T) error {
	return locked(ctx, path, opt, func(dir *fsx.Dir) error { return add(dir, path, rows) })
}

// Update calls decide with the rows of the journal at path and appends the rows that it
// returns. Other processes wait. If decide fails, Update returns its error and adds
// nothing.
func Update[T any](ctx context.Context, path string, decide func(rows []T) ([]T, error)) error {
	return locked(ctx, path, fsx.Options{}, func(dir *fsx.Dir) error {
		rows, err := Read[T](path)
		if err != nil {
			return err
		}
		more, err := decide(rows)
		if err != nil || len(more) == 0 {
			return err
		}
		return add(dir, path, more)
	})
}

// locked calls do while it holds the lock of the journal at path.
func locked(ctx context.Context, path string, opt fsx.Options, do func(dir *fsx.Dir) error) error {
	dir, err := fsx.Create(filepath.Dir(path), 0o755, opt)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer dir.Close()
	lock, err := dir.Lock(ctx, filepath.Base(path)+".lock")
	if err != nil {
		return fmt.Errorf("locking %s: %w", path, err)
	}
	defer lock.Unlock()
	return do(dir)
}

// add writes rows after the last complete one.
func add[T any](dir *fsx.Dir, path string, rows []T) error {
	var lines []byte
	for _, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		if len(line) > MaxLine {
			return fmt.Errorf("writing %s: row too long: got %d bytes, limit %d", path, len(line), MaxLine)
		}
		lines = append(append(lines, line...), '\n')
	}
	end, err := lastLineEnd(path)
	created := errors.Is(err, fs.ErrNotExist)
	if err != nil && !created {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	f, err := dir.Append(filepath.Base(path), 0o644)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	err = f.Truncate(end)
	if err == nil {
		_, err = f.Write(lines)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && created {
		err = dir.SyncDir(".") // otherwise a power failure may lose the file
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// lastLineEnd returns the offset after the last complete line.
func lastLineEnd(path string) (int64, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	from := max(0, info.Size()-MaxLine-1)
	buf := make([]byte, info.Size()-from)
	if _, err := io.ReadFull(io.NewSectionReader(f, from, int64(len(buf))), buf); err != nil {
		return 0, err
	}
	stop := bytes.LastIndexByte(buf, '\n')
	if stop < 0 && from > 0 {
		return 0, errors.New("line too long")
	}
	return from + int64(stop) + 1, nil
}

// Read returns the rows of the journal at path, or none if the file does not exist. It
// ignores an incomplete last line. A row that does not decode strictly into a T is an error
// that names its line.
func Read[T any](path string) ([]T, error) {
	data, err := fsx.ReadFile(path, MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rows, err := Parse[T](data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return rows, nil
}

// ReadExisting is Read, except that a missing file is an error.
func ReadExisting[T any](path string) ([]T, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return Read[T](path)
}

// Parse decodes the rows of a journal. Errors begin with the line number.
func Parse[T any](data []byte) ([]T, error) {
	var rows []T
	for n := 1; ; n++ {
		line, rest, ok := bytes.Cut(data, []byte{'\n'})
		if !ok {
			return rows, nil
		}
		data = rest
		if len(line) > MaxLine {
			return nil, fmt.Errorf("%d: line too long: got %d bytes, limit %d", n, len(line), MaxLine)
		}
		var row T
		if err := Strict(line, &row); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		rows = append(rows, row)
	}
}

// Strict decodes exactly one JSON value and rejects unknown members.
func Strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return withKeys(err, v)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the value")
	}
	return nil
}

// withKeys adds the keys that v has to the error for an unknown one, wherever in v
// they are.
func withKeys(err error, v any) error {
	if !strings.HasPrefix(err.Error(), "json: unknown field ") {
		return err
	}
	keys := map[string]bool{}
	collect(reflect.TypeOf(v), keys, map[reflect.Type]bool{})
	return fmt.Errorf("unknown key %s, want one of %s", strings.TrimPrefix(err.Error(), "json: unknown field "), strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
}

// collect adds the JSON keys of a type and of the types in it.
func collect(t reflect.Type, keys map[string]bool, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		collect(t.Elem(), keys, seen)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			if !f.Anonymous {
				if name == "" {
					name = f.Name
				}
				keys[name] = true
			}
			collect(f.Type, keys, seen)
		}
	}
}

// ReadJSON reads the file at path, of at most 16*MaxLine bytes, strictly into v.
func ReadJSON(path string, v any) error {
	data, err := fsx.ReadFile(path, 16*MaxLine)
	if err != nil {
		return err
	}
	if err := Strict(data, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
