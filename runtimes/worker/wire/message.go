package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes"
)

// Hello is what each side says first.
type Hello struct {
	Version int
	Info    runtimes.Info // of the engine; the child's
	Fault   *Fault        `json:",omitempty"` // the engine is not to be had
	Shared  int64         `json:",omitempty"` // bytes of memory that both see; mm's offer, and 0 or the same of the child
}

// SharedFile is the child's number of the file that is the shared memory.
const SharedFile = 3

// Op is what a request wants.
type Op string

// The operations: those of runtimes.Engine, Language, Sequence and Function.
const (
	OpOpen     Op = "open"
	OpSequence Op = "sequence"
	OpFeed     Op = "feed"
	OpTruncate Op = "truncate"
	OpGenerate Op = "generate"
	OpLogits   Op = "logits"
	OpHidden   Op = "hidden" // the states of positions From to N
	OpClose    Op = "close"  // a sequence
	OpRun      Op = "run"    // travels as a KindRun
	OpAsk      Op = "ask"    // what only one engine answers
)

// Request is the head of a KindRequest.
type Request struct {
	Op         Op
	Open       *Open                     `json:",omitempty"`
	Sequence   uint64                    `json:",omitempty"`
	Options    *runtimes.SequenceOptions `json:",omitempty"` // OpSequence
	Generation *runtimes.Generation      `json:",omitempty"` // OpGenerate
	N          int                       `json:",omitempty"` // OpTruncate, OpHidden
	From       int                       `json:",omitempty"` // OpHidden
	Feed       []Run                     `json:",omitempty"` // OpFeed: what the payload holds
	Call       Call                      `json:"-"`          // OpRun
	Ask        *Ask                      `json:",omitempty"` // OpAsk
}

// Ask is a question that an engine of its own kind understands: qnn's what a
// compilation comes to.
type Ask struct {
	Name string
	Args json.RawMessage
}

// Room is a piece of the shared memory, in bytes.
type Room struct{ At, Size int64 }

// Open says which files to open, and how. All paths are absolute.
type Open struct {
	Name, Version string
	Type          abi.ModuleType
	Format        abi.Format
	Path          string
	Tokens        abi.TokenContract
	KV            abi.DType `json:",omitempty"`
	Adapters      []Adapter `json:",omitempty"`
	Limits        runtimes.Limits
	// Own is what only one engine understands of how to open the file.
	Own json.RawMessage `json:",omitempty"`
}

// Adapter is a file that changes a model.
type Adapter struct {
	Path  string
	Scale float64
}

// Run is a run of positions in a payload: tokens, or numbers of vectors.
type Run struct {
	Tokens  int `json:",omitempty"`
	Numbers int `json:",omitempty"`
}

// Tensor describes one: in a payload, where they follow each other without
// gap, or in the request's room.
type Tensor struct {
	Name   string
	Type   runtimes.Elem
	Shape  []int64
	Bytes  int
	Shared bool  `json:",omitempty"`
	At     int64 `json:",omitempty"` // of the room, where it is shared
}

// Reply is the head of a KindReply.
type Reply struct {
	Fault    *Fault          `json:",omitempty"`
	Function bool            `json:",omitempty"` // OpOpen: it is no language model
	Shape    *runtimes.Shape `json:",omitempty"` // OpOpen
	Sequence uint64          `json:",omitempty"` // OpSequence
	Len      int             `json:",omitempty"` // of the sequence
	Stop     runtimes.Stop   `json:",omitempty"`
	Answer   json.RawMessage `json:",omitempty"` // OpAsk
	Tensors  []Tensor        `json:"-"`          // of a KindRan: what the payload and the room hold
}

// Fault is an error that travels: its text, and what a caller branches on.
type Fault struct {
	Text        string
	Unavailable *runtimes.Unavailable `json:",omitempty"`
	Is          string                `json:",omitempty"` // of sentinels
}

func sentinels() map[string]error {
	return map[string]error{
		"full": runtimes.ErrFull, "closed": runtimes.ErrClosed, "time": runtimes.ErrTime,
		"cancelled": context.Canceled, "deadline": context.DeadlineExceeded,
	}
}

// NewFault makes an error ready to travel; nil stays nil.
func NewFault(err error) *Fault {
	if err == nil {
		return nil
	}
	f := &Fault{Text: err.Error()}
	errors.As(err, &f.Unavailable)
	for name, s := range sentinels() {
		if errors.Is(err, s) {
			f.Is = name
		}
	}
	return f
}

// Err is the error that travelled.
func (f *Fault) Err() error {
	if f == nil {
		return nil
	}
	if f.Unavailable != nil {
		return f.Unavailable
	}
	return &told{f.Text, sentinels()[f.Is]}
}

// told is an error of the other side.
type told struct {
	text string
	is   error // a sentinel, or nil
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.is }

// Feed lays out positions as a payload.
func Feed(in []runtimes.Positions) (runs []Run, payload [][]byte) {
	for _, p := range in {
		runs = append(runs, Run{len(p.Tokens), len(p.Vectors)})
		payload = append(payload, Bytes(p.Tokens), Bytes(p.Vectors))
	}
	return runs, payload
}

// Fed is what Feed laid out.
func Fed(runs []Run, payload []byte) ([]runtimes.Positions, error) {
	var in []runtimes.Positions
	for _, r := range runs {
		if r.Tokens < 0 || r.Numbers < 0 || r.Tokens > len(payload)/4 || r.Numbers > len(payload)/4-r.Tokens {
			return nil, fmt.Errorf("%d tokens and %d numbers in %d bytes", r.Tokens, r.Numbers, len(payload))
		}
		in = append(in, runtimes.Positions{Tokens: Numbers[int32](payload[:4*r.Tokens]), Vectors: Numbers[float32](payload[4*r.Tokens : 4*(r.Tokens+r.Numbers)])})
		payload = payload[4*(r.Tokens+r.Numbers):]
	}
	if len(payload) != 0 {
		return nil, fmt.Errorf("%d bytes that belong to no position", len(payload))
	}
	return in, nil
}

// Number is what travels as 4 bytes.
type Number interface{ int32 | float32 }

// Bytes are the numbers, little endian.
func Bytes[T Number](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	b, err := binary.Append(make([]byte, 0, 4*len(v)), binary.LittleEndian, v)
	if err != nil {
		panic(err) // numbers have a size
	}
	return b
}

// Numbers are what Bytes wrote; the length must be a multiple of 4.
func Numbers[T Number](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	v := make([]T, len(b)/4)
	if _, err := binary.Decode(b, binary.LittleEndian, v); err != nil {
		panic(err) // it is as long as it says
	}
	return v
}
