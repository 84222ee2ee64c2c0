// Package audit keeps the log of what was signed, pushed, pulled, verified, run and called,
// and of every skipped verification: one JSON object per line, each with the SHA-256 of the
// previous line.
//
// A changed or removed line breaks the chain, which [Check] detects. Truncation leaves the
// chain valid; a head file next to the log therefore holds the number and hash of the last
// line, and [Check] compares them. A writer of the folder can forge both; to detect that,
// note the last hash elsewhere. The next [Append] removes a line that a crash left
// incomplete.
package audit

import (
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

// maxLine is the maximum length of an entry in bytes.
const maxLine = 64 << 10

// Entry is an event. The caller sets Time.
type Entry struct {
	Time   string   `json:"time,omitempty"` // RFC 3339
	Action string   `json:"action"`         // sign, push, pull, verify, run, call, skip-verify
	Ref    string   `json:"ref,omitempty"`
	Digest string   `json:"digest,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	Args   string   `json:"args,omitempty"`   // call: hex SHA-256 of its arguments as canonical JSON
	Answer string   `json:"answer,omitempty"` // call: hex SHA-256 of its answer line
	Limits string   `json:"limits,omitempty"` // call: its limits
	Allow  string   `json:"allow,omitempty"`  // call: its permissions, none or such as read:/x env:A
	Result string   `json:"result"`           // ok or the failure; for a call, the kind of its fault
	Prev   string   `json:"prev"`             // hex SHA-256 of the previous line, 64 zeros for the first
}

// first is the Prev member of the first entry.
var first = hex.EncodeToString(make([]byte, sha256.Size))

// Append durably appends an entry to the log at path, under a lock.
func Append(ctx context.Context, path string, e Entry) error {
	dir, unlock, err := lock(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
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
		return fmt.Errorf("writing audit log: entry too long: got %d bytes, limit %d", len(line), maxLine)
	}
	if prev == first {
		if err := begin(dir, path); err != nil {
			return fmt.Errorf("writing the head of the audit log: %w", err)
		}
	}
	f, err := dir.Append(filepath.Base(path), 0o600)
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
		return fmt.Errorf("writing the head of the audit log: %w", err)
	}
	return nil
}

// lock opens the folder of the log at path and locks the log, until unlock.
func lock(ctx context.Context, path string) (dir *fsx.Dir, unlock func(), err error) {
	if dir, err = fsx.Create(filepath.Dir(path), 0o755, fsx.Options{}); err != nil {
		return nil, nil, fmt.Errorf("opening audit log: %w", err)
	}
	held, err := dir.Lock(ctx, filepath.Base(path)+".lock")
	if err != nil {
		dir.Close()
		return nil, nil, fmt.Errorf("locking audit log: %w", err)
	}
	return dir, func() {
		held.Unlock()
		dir.Close()
	}, nil
}

// Ready reports whether [Append] will succeed, as far as can be known: the log can be
// read, and the disk has room for a line. It leaves the log unchanged.
func Ready(ctx context.Context, path string) error {
	dir, unlock, err := lock(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	_, end, err := tail(path)
	if err != nil {
		return fmt.Errorf("reading audit log: %w", err)
	}
	f, err := dir.Append(filepath.Base(path), 0o600)
	if err != nil {
		return fmt.Errorf("writing audit log: %w", err)
	}
	err = write(f, end, make([]byte, 8<<10)) // an incomplete line
	if err := errors.Join(err, f.Truncate(end), f.Close()); err != nil {
		return fmt.Errorf("writing audit log: %w", err)
	}
	return nil
}

func write(f *fsx.File, end int64, line []byte) error {
	if err := f.Truncate(end); err != nil { // remove a line that a crash left incomplete
		return err
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	return f.Sync()
}

// tail returns the hash of the last complete line and its end.
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
	// Two lines are enough: the last complete one and an incomplete one.
	from := max(0, info.Size()-2*(maxLine+1))
	buf := make([]byte, info.Size()-from)
	if _, err := io.ReadFull(io.NewSectionReader(f, from, info.Size()-from), buf); err != nil {
		return "", 0, err
	}
	stop := bytes.LastIndexByte(buf, '\n')
	if stop < 0 {
		if from > 0 {
			return "", 0, errors.New("line too long")
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

// entryAfter parses line n, which must follow the line with the hash prev.
func entryAfter(n int, line []byte, prev string) (e Entry, err error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return e, fmt.Errorf("audit log, line %d: %w", n, err)
	}
	if e.Prev != prev {
		return e, fmt.Errorf("audit log, line %d: previous hash mismatch: recorded %.12s…, computed %.12s…", n, e.Prev, prev)
	}
	return e, nil
}
