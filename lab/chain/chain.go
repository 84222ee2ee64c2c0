// Package chain is the log of a run that can be killed at any point: rows that
// each hold the hash of the one before, and a signed head.
//
// A row's hash covers every member of it: number, time, run, event, payload and
// the hash before. [Log.Append] first replaces the head, which holds the new row
// itself under a signature, and then adds the row to the log. Whatever moment the
// process dies at, log and head are therefore in one of two states: they agree,
// or the log lacks exactly the row, or the end of the row, that the head holds,
// and [Open] adds it. Every other difference was made by somebody, and is
// [ErrBroken]: a row changed, taken out, moved, added, or cut off the end.
//
// [Verify] needs no lock, and a log may grow under it: it reads to the row that
// the head signed when it began, and takes what stands behind it for a fault only
// where no head has been signed since.
//
// Whoever kept an older log together with its older head can put both back; note
// the hash of the last row elsewhere to notice that.
package chain

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// The files of a log in its folder.
const (
	File     = "rows.jsonl"
	HeadFile = "head.json"
	LockFile = "lock"
)

// HeadType is what a head's signature is over, as DSSE's payload type.
const HeadType = "application/vnd.mm-abi.chain-head.v1+json"

// MaxRow bounds a row in bytes.
const MaxRow = 64 << 10

// The errors that callers tell apart.
var (
	// ErrBroken says that the log is not what was written.
	ErrBroken = errors.New("the chain is broken")
	// The ways that it is: each of these is an ErrBroken, too.
	ErrRows   = fmt.Errorf("%w: the rows were changed", ErrBroken)
	ErrCut    = fmt.Errorf("%w: the end was cut off", ErrBroken)
	ErrBeyond = fmt.Errorf("%w: rows were added", ErrBroken)
	ErrHead   = fmt.Errorf("%w: the head was changed", ErrBroken)
	ErrKey    = fmt.Errorf("%w: another key signed the head", ErrBroken)
	ErrNoted  = fmt.Errorf("%w: the noted row is not there", ErrBroken)
	// ErrNone says that there is neither a row nor a head.
	ErrNone = errors.New("there is no chain")
	// ErrUnfinished says that the last row stands in the head alone: the
	// process died there, or somebody cut it off. Open puts it back.
	ErrUnfinished = errors.New("the last row is in the signed head alone")
)

// Signer signs heads.
type Signer interface {
	SignPayload(typ string, payload []byte) ([]byte, error)
}

// Verifier checks heads.
type Verifier interface {
	KeyID() string
	VerifyPayload(typ string, payload, sig []byte) error
}

// Row is one event.
type Row struct {
	Seq     int             `json:"seq"`  // from 1
	Time    string          `json:"time"` // RFC 3339, the caller's
	Run     string          `json:"run"`
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
	Prev    string          `json:"prev"`           // hex SHA-256, 64 zeros for the first
	Hash    string          `json:"hash,omitempty"` // hex SHA-256 of the row without it
}

// first is the Prev of the first row.
var first = hex.EncodeToString(make([]byte, sha256.Size))

// line is the row as it is written, with its hash.
func (r Row) line() (Row, []byte, error) {
	r.Hash = ""
	text, err := json.Marshal(r)
	if err != nil {
		return r, nil, err
	}
	sum := sha256.Sum256(text)
	r.Hash = hex.EncodeToString(sum[:])
	text, err = json.Marshal(r)
	if err == nil && len(text) > MaxRow {
		err = fmt.Errorf("a row of %d bytes is over the limit of %d", len(text), MaxRow)
	}
	return r, text, err
}

// parse reads a row and checks it against the one before it. Its bytes must be
// those that the row is written with, so that no byte is outside of the hash.
func parse(text []byte, seq int, prev string) (Row, error) {
	var r Row
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("%w: row %d: %v", ErrRows, seq, err)
	}
	want, written, err := r.line()
	switch {
	case err != nil:
		return r, fmt.Errorf("%w: row %d: %v", ErrRows, seq, err)
	case r.Hash != want.Hash:
		return r, fmt.Errorf("%w: row %d has the hash %.12s…, it says %.12s…", ErrRows, seq, want.Hash, r.Hash)
	case !bytes.Equal(text, written):
		return r, fmt.Errorf("%w: row %d is not written as it was", ErrRows, seq)
	case r.Seq != seq:
		return r, fmt.Errorf("%w: row %d stands where row %d belongs", ErrRows, r.Seq, seq)
	case r.Prev != prev:
		return r, fmt.Errorf("%w: row %d follows %.12s…, the row before it is %.12s…", ErrRows, seq, r.Prev, prev)
	}
	return r, nil
}

// head is the end of the log.
type head struct {
	Key       string `json:"key"` // id of the key that signed
	Row       string `json:"row"` // the last row, as it stands in the log
	Signature []byte `json:"signature"`
}

// signed is what the signature of a head covers beside its type.
type signed struct {
	Seq  int    `json:"seq"`
	Hash string `json:"hash"` // hex SHA-256 of the last row's line
}

func covered(seq int, line []byte) ([]byte, error) {
	sum := sha256.Sum256(line)
	return json.Marshal(signed{seq, hex.EncodeToString(sum[:])})
}

// readHead returns the head in dir and its row, checked but for what the row
// follows; ok is false where there is none.
func readHead(dir string, v Verifier) (h head, last Row, ok bool, err error) {
	data, err := fsx.ReadFile(filepath.Join(dir, HeadFile), 4*MaxRow)
	if errors.Is(err, fs.ErrNotExist) {
		return h, last, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	if err == nil {
		err = json.Unmarshal([]byte(h.Row), &last)
	}
	if err != nil {
		return h, last, false, fmt.Errorf("%w: %v", ErrHead, err)
	}
	if last, err = parse([]byte(h.Row), last.Seq, last.Prev); err != nil {
		return h, last, false, fmt.Errorf("%w: its row: %v", ErrHead, err)
	}
	if h.Key != v.KeyID() {
		return h, last, false, fmt.Errorf("%w: %.12s… signed its head, not %.12s…", ErrKey, h.Key, v.KeyID())
	}
	payload, err := covered(last.Seq, []byte(h.Row))
	if err == nil {
		err = v.VerifyPayload(HeadType, payload, h.Signature)
	}
	if err != nil {
		return h, last, false, fmt.Errorf("%w: its signature: %v", ErrHead, err)
	}
	return h, last, true, nil
}

// scan calls fn for the whole rows of dir's log, until the row of the number
// until where it is above 0, and returns where they end and what stands behind
// them; behind the row until no more than its first byte.
func scan(dir string, until int, fn func(Row) error) (end int64, rest []byte, err error) {
	f, err := fsx.OpenRegular(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	in, prev := bufio.NewReaderSize(f, MaxRow+1), first
	for seq := 1; ; seq++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return end, bytes.Clone(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
			return end, nil, fmt.Errorf("%w: row %d is over the limit of %d bytes", ErrRows, seq, MaxRow)
		case err != nil:
			return end, nil, err
		}
		r, err := parse(line[:len(line)-1], seq, prev)
		if err != nil {
			return end, nil, err
		}
		if err := fn(r); err != nil {
			return end, nil, err
		}
		prev, end = r.Hash, end+int64(len(line))
		if seq == until {
			next, _ := in.Peek(1) // nothing at the end
			return end, bytes.Clone(next), nil
		}
	}
}
