// Package audit keeps the record of what was signed, pushed, pulled, verified,
// run and called, and of every verification that was skipped: one JSON object a
// line, each with the SHA-256 of the line before it.
//
// A line that is changed or taken out breaks the chain, which [Verify] finds.
// The chain alone does not show that lines were cut off the end: a record beside
// the log holds the number and the hash of the last line, and [Check] compares
// the two. Who may write to the folder can forge both; whoever needs to notice
// that notes the last hash elsewhere. A line that a crash left unfinished at the
// end is dropped by the next [Append].
package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// maxLine bounds one entry in bytes.
const maxLine = 64 << 10

// Entry is one event. Time is the caller's, so that this package reads no
// clock.
type Entry struct {
	Time   string   `json:"time,omitempty"` // RFC 3339
	Action string   `json:"action"`         // sign, push, pull, verify, run, call, skip-verify
	Ref    string   `json:"ref,omitempty"`
	Digest string   `json:"digest,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	Args   string   `json:"args,omitempty"`   // of a call: hex SHA-256 of its arguments, as canonical JSON
	Answer string   `json:"answer,omitempty"` // of a call: hex SHA-256 of the line it gave
	Limits string   `json:"limits,omitempty"` // of a call: within which it ran
	Result string   `json:"result"`           // ok, or why not; of a call the kind of its fault
	Prev   string   `json:"prev"`             // hex SHA-256 of the line before, 64 zeros for the first
}

// first is the Prev of the first entry.
var first = hex.EncodeToString(make([]byte, sha256.Size))

// Append adds an entry to the log at path, durably. Processes take turns.
func Append(ctx context.Context, path string, e Entry) error {
	dir, err := fsx.Create(filepath.Dir(path), 0o755, fsx.Options{})
	if err != nil {
		return fmt.Errorf("opening audit log: %w", err)
	}
	defer dir.Close()
	name := filepath.Base(path)
	lock, err := dir.Lock(ctx, name+".lock")
	if err != nil {
		return fmt.Errorf("locking audit log: %w", err)
	}
	defer lock.Unlock()
	prev, end, err := tail(path)
	if err != nil {
		return fmt.Errorf("reading audit log: %w", err)
	}
	e.Prev = prev
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("writing audit log: %w", err)
	}
	if len(line) > maxLine {
		return fmt.Errorf("writing audit log: entry of %d bytes is over the limit of %d", len(line), maxLine)
	}
	f, err := dir.Append(name, 0o600)
	if err != nil {
		return fmt.Errorf("writing audit log: %w", err)
	}
	if err := write(f, end, append(line, '\n')); err != nil {
		return errors.Join(fmt.Errorf("writing audit log: %w", err), f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := advance(dir, path, prev, line); err != nil {
		return fmt.Errorf("recording the end of the audit log: %w", err)
	}
	return nil
}

func write(f *fsx.File, end int64, line []byte) error {
	if err := f.Truncate(end); err != nil { // a crash's unfinished line goes
		return err
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	return f.Sync()
}

// tail returns the hash of the last whole line and where it ends.
func tail(path string) (prev string, end int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return first, 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	// Two lines are enough: the last whole one, and one that is unfinished.
	from := max(0, info.Size()-2*(maxLine+1))
	buf := make([]byte, info.Size()-from)
	if _, err := io.ReadFull(io.NewSectionReader(f, from, info.Size()-from), buf); err != nil {
		return "", 0, err
	}
	stop := bytes.LastIndexByte(buf, '\n')
	if stop < 0 {
		if from > 0 {
			return "", 0, errors.New("a line is over the limit")
		}
		return first, 0, nil
	}
	line := buf[bytes.LastIndexByte(buf[:stop], '\n')+1 : stop]
	return hash(line), from + int64(stop) + 1, nil
}

func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// Verify reads a log and returns its entries. The error names the first line
// that does not follow from the one before it.
func Verify(r io.Reader) ([]Entry, error) {
	var entries []Entry
	prev := first
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxLine+1)
	for n := 1; scan.Scan(); n++ {
		e, err := entryAfter(n, scan.Bytes(), prev)
		if err != nil {
			return entries, err
		}
		prev = hash(scan.Bytes())
		entries = append(entries, e)
	}
	if err := scan.Err(); err != nil {
		return entries, fmt.Errorf("audit log: %w", err)
	}
	return entries, nil
}

// entryAfter reads line n, which must follow from the line with the hash prev.
func entryAfter(n int, line []byte, prev string) (e Entry, err error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return e, fmt.Errorf("audit log, line %d: %w", n, err)
	}
	if e.Prev != prev {
		return e, fmt.Errorf("audit log, line %d: it follows %.12s…, the line before it is %.12s…", n, e.Prev, prev)
	}
	return e, nil
}
