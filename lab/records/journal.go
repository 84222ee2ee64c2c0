// Package journal keeps rows of records: one JSON object a line, added at the
// end and never changed. What needs to notice changes lies in package chain.
//
// [Append] adds rows durably, processes take turns; a line that a crash left
// unfinished is cut off by the next one. [Update] adds what follows from the rows
// that are there, and lets nobody in between. [Read] gives the whole lines back, of
// a file that another process may be writing.
package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// The bounds of a journal in bytes.
const (
	MaxLine = 64 << 10
	MaxFile = 256 << 20
)

// Append adds rows to the journal at path, all of them or, before a crash,
// those that come first.
func Append[T any](ctx context.Context, path string, rows ...T) error {
	return locked(ctx, path, func(dir *fsx.Dir) error { return add(dir, path, rows) })
}

// Update shows decide the rows of the journal at path and adds what it returns.
// Other processes wait meanwhile. Decide's error is returned as it is, and nothing
// is added.
func Update[T any](ctx context.Context, path string, decide func(rows []T) ([]T, error)) error {
	return locked(ctx, path, func(dir *fsx.Dir) error {
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

// locked calls do while nobody else writes to the journal at path.
func locked(ctx context.Context, path string, do func(dir *fsx.Dir) error) error {
	dir, err := fsx.Create(filepath.Dir(path), 0o755, fsx.Options{})
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

// add writes rows behind the last whole one.
func add[T any](dir *fsx.Dir, path string, rows []T) error {
	var lines []byte
	for _, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		if len(line) > MaxLine {
			return fmt.Errorf("writing %s: a row of %d bytes is over the limit of %d", path, len(line), MaxLine)
		}
		lines = append(append(lines, line...), '\n')
	}
	end, err := whole(path)
	if err != nil {
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
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// whole is where the last whole line ends.
func whole(path string) (int64, error) {
	f, err := fsx.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
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
		return 0, errors.New("a line is over the limit")
	}
	return from + int64(stop) + 1, nil
}

// Read returns the rows of the journal at path; none where there is no file. An
// unfinished last line is none. A row that is no T or has unknown
// members is an error that names its line.
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

// ReadExisting is Read of a file that must be there.
func ReadExisting[T any](path string) ([]T, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return Read[T](path)
}

// Parse reads the rows of a journal's bytes. An error begins with the line.
func Parse[T any](data []byte) ([]T, error) {
	var rows []T
	for n := 1; ; n++ {
		line, rest, ok := bytes.Cut(data, []byte{'\n'})
		if !ok {
			return rows, nil
		}
		data = rest
		if len(line) > MaxLine {
			return nil, fmt.Errorf("%d: a line of %d bytes, the limit is %d", n, len(line), MaxLine)
		}
		var row T
		if err := Strict(line, &row); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		rows = append(rows, row)
	}
}

// Strict decodes one JSON value without unknown members and with nothing after
// it.
func Strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something stands after the value")
	}
	return nil
}

// ReadJSON reads the file at path, of at most MaxLine*16 bytes, into v,
// strictly.
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
