// Package chain implements a crash-safe, tamper-evident log: each row holds the hash of the
// previous one, and a signed head holds the last row.
//
// A row's hash covers all its members: number, time, run, event, payload and previous hash.
// [Log.Append] first replaces the head, which contains the new row and its signature, and
// then appends the row to the log. If the process dies at any point, log and head are in
// one of two states: they agree, or the log lacks all or the end of the row in the head,
// and [Open] completes it. Any other difference is tampering and yields [ErrBroken]: a row
// changed, removed, moved, added or truncated.
//
// [Verify] takes no lock, and the log may grow meanwhile: it reads up to the row of the
// head that it read first. Data after that row is a fault unless a newer head has been
// signed since.
//
// An older log can be restored together with its older head. To detect that, note the hash
// of the last row elsewhere.
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

// The files of a log, relative to its folder.
const (
	File     = "rows.jsonl"
	HeadFile = "head.json"
	LockFile = "lock"
)

// HeadType is the DSSE payload type of a head's signature.
const HeadType = "application/vnd.mm-abi.chain-head.v1+json"

// MaxRow is the maximum length of a row in bytes.
const MaxRow = 64 << 10

// The errors of this package.
var (
	// ErrBroken reports that the log was tampered with.
	ErrBroken = errors.New("the chain is broken")
	// The kinds of tampering. Each wraps ErrBroken.
	ErrRows   = fmt.Errorf("%w: the rows were changed", ErrBroken)
	ErrCut    = fmt.Errorf("%w: the end was cut off", ErrBroken)
	ErrBeyond = fmt.Errorf("%w: rows were added", ErrBroken)
	ErrHead   = fmt.Errorf("%w: the head was changed", ErrBroken)
	ErrKey    = fmt.Errorf("%w: another key signed the head", ErrBroken)
	ErrNoted  = fmt.Errorf("%w: noted row not found", ErrBroken)
	// ErrNone reports that neither a row nor a head exists.
	ErrNone = errors.New("chain not found")
	// ErrUnfinished reports that the last row exists only in the head: the process died
	// before it appended the row, or the row was cut off. Open restores it.
	ErrUnfinished = errors.New("last row missing from the log, present in the signed head")
)

// Signer signs heads.
type Signer interface {
	SignPayload(typ string, payload []byte) ([]byte, error)
}

// Verifier verifies the signatures of heads.
type Verifier interface {
	KeyID() string
	VerifyPayload(typ string, payload, sig []byte) error
}

// Row is one event.
type Row struct {
	Seq     int             `json:"seq"`  // from 1
	Time    string          `json:"time"` // RFC 3339, set by the caller
	Run     string          `json:"run"`
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
	Prev    string          `json:"prev"`           // hex SHA-256, 64 zeros for the first
	Hash    string          `json:"hash,omitempty"` // hex SHA-256 of the row without it
}

// first is the Prev member of the first row.
var first = hex.EncodeToString(make([]byte, sha256.Size))

// line returns the row with its hash set, and its encoding.
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
		err = fmt.Errorf("row too long: got %d bytes, limit %d", len(text), MaxRow)
	}
	return r, text, err
}

// parse decodes row number seq and checks it against the hash of the previous row. The
// bytes must equal the row's own encoding, so that no byte escapes the hash.
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
		return r, fmt.Errorf("%w: row %d: hash mismatch: computed %.12s…, recorded %.12s…", ErrRows, seq, want.Hash, r.Hash)
	case !bytes.Equal(text, written):
		return r, fmt.Errorf("%w: row %d: not in canonical encoding", ErrRows, seq)
	case r.Seq != seq:
		return r, fmt.Errorf("%w: row out of order: got number %d, want %d", ErrRows, r.Seq, seq)
	case r.Prev != prev:
		return r, fmt.Errorf("%w: row %d: previous hash mismatch: recorded %.12s…, computed %.12s…", ErrRows, seq, r.Prev, prev)
	}
	return r, nil
}

// head is the content of the head file.
type head struct {
	Key       string `json:"key"` // ID of the signing key
	Row       string `json:"row"` // the last row, encoded as in the log
	Signature []byte `json:"signature"`
}

// signed is the signed payload of a head.
type signed struct {
	Seq  int    `json:"seq"`
	Hash string `json:"hash"` // hex SHA-256 of the last row's line
}

func covered(seq int, line []byte) ([]byte, error) {
	sum := sha256.Sum256(line)
	return json.Marshal(signed{seq, hex.EncodeToString(sum[:])})
}

// readHead reads the head in dir and its row, and verifies both except for the row's Prev.
// If the head file does not exist, ok is false.
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
		return h, last, false, fmt.Errorf("%w: signed by %.12s…, want %.12s…", ErrKey, h.Key, v.KeyID())
	}
	payload, err := covered(last.Seq, []byte(h.Row))
	if err == nil {
		err = v.VerifyPayload(HeadType, payload, h.Signature)
	}
	if err != nil {
		return h, last, false, fmt.Errorf("%w: signature: %v", ErrHead, err)
	}
	return h, last, true, nil
}

// scan calls fn for each complete row of the log in dir, up to row number until if that is
// above 0. It returns the offset after the last row, and the bytes that follow: all of them
// at the end of the file, or the first byte after row until.
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
			return end, nil, fmt.Errorf("%w: row %d: too long, limit %d bytes", ErrRows, seq, MaxRow)
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
