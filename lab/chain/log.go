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

// Report is what [Verify] found.
type Report struct {
	Rows    int    `json:"rows"`
	Run     string `json:"run,omitempty"`
	Head    string `json:"head"` // hex SHA-256 of the last row, to be noted elsewhere
	Key     string `json:"key,omitempty"`
	Running bool   `json:"running,omitempty"` // somebody writes it: there may be more rows by now
}

// Options for [Verify].
type Options struct {
	Noted string          // hash of a row that must be there; empty: none
	Each  func(Row) error // is called for every row, in order, before the end is known; nil: none
}

// Verify reads the log in dir from its first row to its head. Every way in which
// it is not what was written has an error of its own. A row that its writer is
// just writing is none yet.
func Verify(dir string, v Verifier, opt Options) (Report, error) {
	r, last, _, rest, err := examine(dir, v, opt)
	if err != nil {
		return r, err
	}
	r.Running = r.Running || written(dir)
	switch {
	case rest != nil && !r.Running:
		_, _, _, rest, err = examine(dir, v, Options{})
		if err == nil && rest != nil {
			err = fmt.Errorf("%w: row %d; mm lab run --resume puts it back", ErrUnfinished, last.Seq)
		}
		r.Running = err == nil // it was written between the two looks
		return r, err
	case r.Rows == 0 && !r.Running:
		return r, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	return r, nil
}

// written reports whether somebody has the log open for writing.
func written(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, LockFile)); err != nil {
		return false // to ask would make it
	}
	d, err := fsx.Open(dir, fsx.Options{})
	if err != nil {
		return false
	}
	defer d.Close()
	once, cancel := context.WithCancel(context.Background())
	cancel() // it is asked for once, and not waited for
	lock, err := d.RLock(once, LockFile)
	if err != nil {
		return errors.Is(err, context.Canceled)
	}
	lock.Unlock()
	return false
}

// examine is Verify, and returns what the log lacks: rest is the line that Open
// must write at end, nil where log and head agree.
func examine(dir string, v Verifier, opt Options) (r Report, last Row, end int64, rest []byte, err error) {
	h, last, signed, err := readHead(dir, v)
	if err != nil {
		return r, last, 0, nil, err
	}
	r.Head, r.Key = first, h.Key
	known := opt.Noted == "" || signed && last.Hash == opt.Noted
	end, tail, err := scan(dir, last.Seq, func(row Row) error {
		if signed && row.Seq == last.Seq && row.Hash != last.Hash {
			return fmt.Errorf("%w: row %d is another than the signed one", ErrRows, row.Seq)
		}
		if row.Seq == 1 {
			r.Run = row.Run
		}
		r.Rows, r.Head = row.Seq, row.Hash
		known = known || row.Hash == opt.Noted
		if signed && opt.Each != nil {
			return opt.Each(row)
		}
		return nil
	})
	line := []byte(h.Row + "\n")
	var moved bool
	if err == nil && (r.Rows > 0 || len(tail) > 0) && r.Rows >= last.Seq && (!signed || len(tail) > 0) {
		moved, err = grown(dir, v, last)
	}
	switch {
	case err != nil:
	case !signed && moved: // its first row came after the look at the head
		return examine(dir, v, opt)
	case !signed && (r.Rows > 0 || len(tail) > 0):
		err = fmt.Errorf("%w: there are %d rows and no head", ErrHead, r.Rows)
	case !known:
		err = fmt.Errorf("%w: no row has the hash %.12s…", ErrNoted, opt.Noted)
	case !signed, r.Rows == last.Seq && (len(tail) == 0 || moved):
		r.Running = moved
	case r.Rows == last.Seq-1 && last.Prev == r.Head && bytes.HasPrefix(line, tail):
		return r, last, end, line, nil
	case r.Rows >= last.Seq:
		err = fmt.Errorf("%w: something stands behind row %d, which is the last that was signed", ErrBeyond, last.Seq)
	default:
		err = fmt.Errorf("%w: it has %d rows, its signed head is row %d", ErrCut, r.Rows, last.Seq)
	}
	return r, last, end, nil, err
}

// grown reports whether a head has been signed since the one of last.
func grown(dir string, v Verifier, last Row) (bool, error) {
	_, now, signed, err := readHead(dir, v)
	return signed && now.Seq > last.Seq && (now.Seq > last.Seq+1 || last.Seq == 0 || now.Prev == last.Hash), err
}

// lockMoment is how long Open waits before it asks for the lock again.
const lockMoment = 10 * time.Millisecond

// Log is an open log. It is for one goroutine; other processes are kept out.
type Log struct {
	dir  *fsx.Dir
	lock *fsx.Lock
	key  Signer
	id   string
	last Row
	torn bool // a row was not written whole: Open alone knows how to go on
}

// Open opens the log in dir, a folder of its own that is made where missing, for
// writing: it is verified, each row is shown to each, and a last row that a
// crash kept from being written is written now. [fsx.ErrLocked] says that another process has it
// open.
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

// sweep removes the heads that crashes kept from getting their name. The folder
// is the log's own, and so is the lock.
func (l *Log) sweep() error {
	entries, err := fs.ReadDir(l.dir.Root().FS(), ".")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), fsx.TempPrefix) {
			err = errors.Join(err, l.dir.Remove(e.Name()))
		}
	}
	return err
}

// recover brings log and head together.
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

// Last is the last row; its Seq is 0 where there is none.
func (l *Log) Last() Row { return l.last }

// Append signs and writes a row, durably. Seq, Prev and Hash are set here.
func (l *Log) Append(at, run, event string, payload any) (Row, error) {
	if l.torn {
		return Row{}, errors.New("writing the chain: the row before was not written; open it again")
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

// write adds a line, at end where it is not below 0.
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

// Close lets other processes write.
func (l *Log) Close() error { return errors.Join(l.lock.Unlock(), l.dir.Close()) }
