package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// ErrBroken reports a log with changed, removed or truncated lines.
var ErrBroken = errors.New("the audit log was changed")

// headSuffix is the suffix of the head file's name.
const headSuffix = ".head"

// maxHead is the maximum size of the head file in bytes.
const maxHead = 4 << 10

// head records the end of a log. It is written before the first line and after each line,
// so that a crash may leave it one line behind, but not ahead; a log without a head was
// changed.
type head struct {
	Entries int    `json:"entries"`
	Hash    string `json:"hash"` // hex SHA-256 of the last line
}

// readHead reads the head file; ok is false if there is none.
func readHead(path string) (h head, ok bool, err error) {
	data, err := fsx.ReadFile(path+headSuffix, maxHead)
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	if err != nil || h.Entries < 0 {
		return h, false, fmt.Errorf("%w: reading its head: %v", ErrBroken, err)
	}
	return h, true, nil
}

// begin writes the head of an empty log, unless there is one.
func begin(dir *fsx.Dir, path string) error {
	if _, ok, err := readHead(path); ok || err != nil {
		return nil // Check reports the error
	}
	return writeHead(dir, path, head{Hash: first})
}

func writeHead(dir *fsx.Dir, path string, h head) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return dir.WriteFile(filepath.Base(path)+headSuffix, append(data, '\n'), 0o600)
}

// advance moves the head from the line with the hash prev to the new last line. If the head
// does not match prev, it is replaced only if all lines since are present; otherwise it
// stays, so that Check fails.
func advance(dir *fsx.Dir, path, prev string, line []byte) error {
	h, ok, err := readHead(path)
	switch {
	case err != nil:
		return nil // Check reports it
	case ok && h.Hash == prev:
		h.Entries++
	default:
		r, err := Check(path, "")
		if err != nil {
			return nil // Check reports it
		}
		h.Entries = r.Entries
	}
	h.Hash = hash(line)
	return writeHead(dir, path, h)
}

// Report is the result of [Check].
type Report struct {
	Entries    int    `json:"entries"`
	Head       string `json:"head"`                 // hex SHA-256 of the last line, to note elsewhere
	Unfinished bool   `json:"unfinished,omitempty"` // a crash left an incomplete line, which the next Append removes
}

// Check verifies the log at path: the chain, the head and, if noted is not empty, that it
// contains a line with the hash noted. Any fault is [ErrBroken]. A missing log has no
// entries.
func Check(path, noted string) (Report, error) {
	r := Report{Head: first}
	h, recorded, err := readHead(path)
	if err != nil {
		return r, err
	}
	matched, found := !recorded || h.Entries == 0, noted == "" || noted == first
	err = eachLine(path, func(n int, line []byte) error {
		if _, err := entryAfter(n, line, r.Head); err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		r.Entries, r.Head = n, hash(line)
		found = found || r.Head == noted
		if recorded && n == h.Entries {
			if r.Head != h.Hash {
				return fmt.Errorf("%w: line %d differs from the recorded one", ErrBroken, n)
			}
			matched = true
		}
		return nil
	}, &r.Unfinished)
	switch {
	case err != nil:
		return r, err
	case !recorded && r.Entries > 0:
		return r, fmt.Errorf("%w: missing %s, the record of its end (older versions wrote none: move the log away to begin a new one)", ErrBroken, path+headSuffix)
	case !matched:
		return r, fmt.Errorf("%w: got %d lines, recorded %d", ErrBroken, r.Entries, h.Entries)
	case !found:
		return r, fmt.Errorf("%w: no line with hash %.12s…", ErrBroken, noted)
	}
	return r, nil
}

// Each calls fn for the complete entries of the log at path, unchecked.
func Each(path string, fn func(Entry) error) error {
	return eachLine(path, func(_ int, line []byte) error {
		var e Entry
		if json.Unmarshal(line, &e) != nil {
			return nil
		}
		return fn(e)
	}, new(bool))
}

// eachLine calls fn for the complete lines of the log, counted from 1.
func eachLine(path string, fn func(n int, line []byte) error, unfinished *bool) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxLine+1)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			*unfinished = len(line) > 0
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%w: line %d too long, limit %d bytes", ErrBroken, n, maxLine)
		case err != nil:
			return err
		}
		if err := fn(n, line[:len(line)-1]); err != nil {
			return err
		}
	}
}
