package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

// Report is the result of [Verify].
type Report struct {
	Rows    int    `json:"rows"`
	Run     string `json:"run,omitempty"`
	Head    string `json:"head"` // hex SHA-256 of the last row, to note elsewhere
	Key     string `json:"key,omitempty"`
	Running bool   `json:"running,omitempty"` // a writer has it open and may have added rows
}

// Options for [Verify].
type Options struct {
	Noted string          // hash of a row that must exist; if empty, not checked
	Each  func(Row) error // if not nil, called for each row in order, before the log is verified to its end
}

// Verify verifies the log in dir from the first row to the head. Each kind of fault has its
// own error. It ignores a row that a writer is appending.
func Verify(dir string, v Verifier, opt Options) (Report, error) {
	r, last, _, rest, err := examine(dir, v, opt)
	if err != nil {
		return r, err
	}
	r.Running = r.Running || locked(dir)
	switch {
	case rest != nil && !r.Running:
		_, _, _, rest, err = examine(dir, v, Options{})
		if err == nil && rest != nil {
			err = fmt.Errorf("%w: row %d; mm lab run --resume restores it", ErrUnfinished, last.Seq)
		}
		r.Running = err == nil // the row was appended between the two reads
		return r, err
	case r.Rows == 0 && !r.Running:
		return r, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	return r, nil
}

// locked reports whether a process has the log open for writing.
func locked(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, LockFile)); err != nil {
		return false // RLock would create the file
	}
	d, err := fsx.Open(dir, fsx.Options{})
	if err != nil {
		return false
	}
	defer d.Close()
	once, cancel := context.WithCancel(context.Background())
	cancel() // try once, do not wait
	lock, err := d.RLock(once, LockFile)
	if err != nil {
		return errors.Is(err, context.Canceled)
	}
	lock.Unlock()
	return false
}

// examine is Verify, and also returns the line that Open must write at offset end, or a nil
// rest if log and head agree.
func examine(dir string, v Verifier, opt Options) (r Report, last Row, end int64, rest []byte, err error) {
	h, last, signed, err := readHead(dir, v)
	if err != nil {
		return r, last, 0, nil, err
	}
	r.Head, r.Key = first, h.Key
	found := opt.Noted == "" || signed && last.Hash == opt.Noted
	end, tail, err := scan(dir, last.Seq, func(row Row) error {
		if signed && row.Seq == last.Seq && row.Hash != last.Hash {
			return fmt.Errorf("%w: row %d differs from the signed row", ErrRows, row.Seq)
		}
		if row.Seq == 1 {
			r.Run = row.Run
		}
		r.Rows, r.Head = row.Seq, row.Hash
		found = found || row.Hash == opt.Noted
		if signed && opt.Each != nil {
			return opt.Each(row)
		}
		return nil
	})
	line := []byte(h.Row + "\n")
	var ahead bool
	if err == nil && (r.Rows > 0 || len(tail) > 0) && r.Rows >= last.Seq && (!signed || len(tail) > 0) {
		ahead, err = grown(dir, v, last)
	}
	switch {
	case err != nil:
	case !signed && ahead: // the first row was appended after the head was read
		return examine(dir, v, opt)
	case !signed && (r.Rows > 0 || len(tail) > 0):
		err = fmt.Errorf("%w: got %d rows and no head", ErrHead, r.Rows)
	case !found:
		err = fmt.Errorf("%w: no row with hash %.12s…", ErrNoted, opt.Noted)
	case !signed, r.Rows == last.Seq && (len(tail) == 0 || ahead):
		r.Running = ahead
	case r.Rows == last.Seq-1 && last.Prev == r.Head && bytes.HasPrefix(line, tail):
		return r, last, end, line, nil
	case r.Rows >= last.Seq:
		err = fmt.Errorf("%w: data after row %d, the last signed row", ErrBeyond, last.Seq)
	default:
		err = fmt.Errorf("%w: got %d rows, the signed head is row %d", ErrCut, r.Rows, last.Seq)
	}
	return r, last, end, nil, err
}

// grown reports whether a newer head than the one with row last has been signed.
func grown(dir string, v Verifier, last Row) (bool, error) {
	_, now, signed, err := readHead(dir, v)
	return signed && now.Seq > last.Seq && (now.Seq > last.Seq+1 || last.Seq == 0 || now.Prev == last.Hash), err
}

// lockMoment is the time between Open's attempts to take the lock.
const lockMoment = 10 * time.Millisecond

// Log is an open log. It must be used by one goroutine and excludes other processes.
type Log struct {
	dir  *fsx.Dir
	lock *fsx.Lock
	key  Signer
	id   string
	last Row
	torn bool // a write failed: the log must be opened again
}

// Open opens the log in dir for writing and creates the folder if missing. No other files
// may be in it. Open verifies the log, calls each for every row, and restores a last row
// that a crash cut off. If another process has the log open, the error is [fsx.ErrLocked].
func Open(ctx context.Context, dir string, key Signer, v Verifier, opt fsx.Options, each func(Row) error) (*Log, error) {
	d, err := fsx.Create(dir, 0o755, opt)
	if err != nil {
		return nil, fmt.Errorf("opening the chain: %w", err)
	}
	lock, err := d.TryLock(ctx, LockFile)
	for try := 0; errors.Is(err, fsx.ErrLocked) && try < 3; try++ { // Verify holds it for a moment
		time.Sleep(lockMoment)
		lock, err = d.TryLock(ctx, LockFile)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the chain in %s: %w", dir, err), d.Close())
	}
	l := &Log{dir: d, lock: lock, key: key, id: v.KeyID(), last: Row{Hash: first}}
	err = l.sweep()
	if err == nil {
		err = l.recover(v, each)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// sweep removes temporary head files that a crash left. Only the log writes to its folder,
// and the lock is held.
func (l *Log) sweep() error {
	entries, err := fs.ReadDir(l.dir.Root().FS(), ".")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), fsx.TempPrefix) {
			err = errors.Join(err, l.dir.Remove(e.Name()))
		}
	}
	return err
}

// recover restores the last row from the head if the log lacks it.
func (l *Log) recover(v Verifier, each func(Row) error) error {
	_, last, end, rest, err := examine(l.dir.Path(), v, Options{Each: each})
	if err != nil {
		return err
	}
	if last.Seq > 0 {
		l.last = last
	}
	if rest == nil {
		return nil
	}
	if err := l.write(rest, end); err != nil {
		return fmt.Errorf("restoring the last row: %w", err)
	}
	if each != nil {
		return each(last)
	}
	return nil
}

// Last returns the last row. If the log is empty, its Seq is 0.
func (l *Log) Last() Row { return l.last }

// Append signs and durably writes a row. It sets Seq, Prev and Hash.
func (l *Log) Append(at, run, event string, payload any) (Row, error) {
	if l.torn {
		return Row{}, errors.New("writing the chain: the previous row was not written; open the log again")
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return Row{}, fmt.Errorf("writing the chain: %w", err)
	}
	row, line, err := Row{Seq: l.last.Seq + 1, Time: at, Run: run, Event: event, Payload: text, Prev: l.last.Hash}.line()
	if err != nil {
		return Row{}, fmt.Errorf("writing the chain: %w", err)
	}
	payloadOf, err := covered(row.Seq, line)
	if err != nil {
		return Row{}, err
	}
	h := head{Key: l.id, Row: string(line)}
	if h.Signature, err = l.key.SignPayload(HeadType, payloadOf); err != nil {
		return Row{}, fmt.Errorf("signing the chain: %w", err)
	}
	data, err := json.Marshal(h)
	if err != nil {
		return Row{}, err
	}
	l.torn = true
	if err := l.dir.WriteFile(HeadFile, append(data, '\n'), 0o644); err != nil {
		return Row{}, fmt.Errorf("writing the head of the chain: %w", err)
	}
	if err := l.write(append(line, '\n'), -1); err != nil {
		return Row{}, fmt.Errorf("writing the chain: %w", err)
	}
	l.last, l.torn = row, false
	return row, nil
}

// write appends a line, after truncating the log to end if end is not negative.
func (l *Log) write(line []byte, end int64) error {
	f, err := l.dir.Append(File, 0o644)
	if err != nil {
		return err
	}
	if end >= 0 {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Write(line)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && l.last.Seq == 0 {
		err = l.dir.SyncDir(".") // the file is new
	}
	return err
}

// Close releases the lock.
func (l *Log) Close() error { return errors.Join(l.lock.Unlock(), l.dir.Close()) }
