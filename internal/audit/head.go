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

// ErrBroken says that the log is not what was written: a line was changed,
// taken out or cut off.
var ErrBroken = errors.New("the audit log was changed")

// headSuffix is what the record of a log's end is called after the log.
const headSuffix = ".head"

// maxHead bounds the record in bytes.
const maxHead = 4 << 10

// head records how far a log went. It is written after each line, so that a
// crash may leave it one line behind, and never ahead.
type head struct {
	Entries int    `json:"entries"`
	Hash    string `json:"hash"` // hex SHA-256 of the last line
}

// readHead reads the record beside the log; ok is false where there is none.
func readHead(path string) (h head, ok bool, err error) {
	data, err := fsx.ReadFile(path+headSuffix, maxHead)
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	if err != nil || h.Entries < 0 {
		return h, false, fmt.Errorf("%w: reading the record of its end: %v", ErrBroken, err)
	}
	return h, true, nil
}

// advance moves the record from the line with the hash prev to the new last
// line. A record of another end is only replaced where the lines since then are
// all there; otherwise it stays and tells on the log.
func advance(dir *fsx.Dir, path, prev string, line []byte) error {
	h, ok, err := readHead(path)
	switch {
	case err != nil:
		return nil // Check tells
	case ok && h.Hash == prev, !ok && prev == first:
		h.Entries++
	default:
		r, err := Check(path, "")
		if err != nil {
			return nil // Check tells
		}
		h.Entries = r.Entries
	}
	h.Hash = hash(line)
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return dir.WriteFile(filepath.Base(path)+headSuffix, append(data, '\n'), 0o600)
}

// Report is what [Check] found.
type Report struct {
	Entries    int    `json:"entries"`
	Head       string `json:"head"`                 // hex SHA-256 of the last line, to be noted elsewhere
	Unfinished bool   `json:"unfinished,omitempty"` // a crash left half a line, which the next Append drops
}

// Check reads the log at path line by line and holds it against the chain, the
// record of its end and, if one is given, the hash of a line that was noted
// elsewhere. Whatever does not agree is [ErrBroken]. A log that is not there is
// one without entries.
func Check(path, noted string) (Report, error) {
	r := Report{Head: first}
	h, recorded, err := readHead(path)
	if err != nil {
		return r, err
	}
	met, known := !recorded || h.Entries == 0, noted == "" || noted == first
	err = eachLine(path, func(n int, line []byte) error {
		if _, err := entryAfter(n, line, r.Head); err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		r.Entries, r.Head = n, hash(line)
		known = known || r.Head == noted
		if recorded && n == h.Entries {
			if r.Head != h.Hash {
				return fmt.Errorf("%w: line %d is another than the recorded one", ErrBroken, n)
			}
			met = true
		}
		return nil
	}, &r.Unfinished)
	switch {
	case err != nil:
		return r, err
	case !met:
		return r, fmt.Errorf("%w: it has %d lines and had %d", ErrBroken, r.Entries, h.Entries)
	case !known:
		return r, fmt.Errorf("%w: no line has the hash %.12s…", ErrBroken, noted)
	}
	return r, nil
}

// eachLine calls fn for the whole lines of the log, counted from 1.
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
			return fmt.Errorf("%w: line %d is over the limit of %d bytes", ErrBroken, n, maxLine)
		case err != nil:
			return err
		}
		if err := fn(n, line[:len(line)-1]); err != nil {
			return err
		}
	}
}
