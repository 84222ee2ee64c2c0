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

// Hello is the first message of each side.
type Hello struct {
	Version int
	Info    runtimes.Info // of the engine; set by the child
	Fault   *Fault        `json:",omitempty"` // the engine is not available
	Shared  int64         `json:",omitempty"` // bytes of shared memory; offered by mm, and accepted (same value) or declined (0) by the child
}

// SharedFile is the child's file descriptor of the shared memory.
const SharedFile = 3

// Op is the operation of a request.
type Op string

// The operations: those of runtimes.Engine, Language, Sequence and Function.
const (
	OpOpen     Op = "open"
	OpSequence Op = "sequence"
	OpFeed     Op = "feed"
	OpTruncate Op = "truncate"
	OpGenerate Op = "generate"
	OpLogits   Op = "logits"
	OpHidden   Op = "hidden" // states of the positions From to N
	OpClose    Op = "close"  // a sequence
	OpRun      Op = "run"    // sent as a KindRun
	OpAsk      Op = "ask"    // engine-specific question
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
	Feed       []Run                     `json:",omitempty"` // OpFeed: layout of the payload
	Call       Call                      `json:"-"`          // OpRun
	Ask        *Ask                      `json:",omitempty"` // OpAsk
}

// Ask is an engine-specific question, such as a compilation by qnn.
type Ask struct {
	Name string
	Args json.RawMessage
}

// Room is a span of the shared memory, in bytes.
type Room struct{ At, Size int64 }

// Open selects and configures the files to open. All paths are absolute.
type Open struct {
	Name, Version string
	Type          abi.ModuleType
	Format        abi.Format
	Path          string
	Tokens        abi.TokenContract
	KV            abi.DType `json:",omitempty"`
	Adapters      []Adapter `json:",omitempty"`
	Limits        runtimes.Limits
	// Own are engine-specific options.
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

// Tensor describes a tensor in a payload, where tensors are adjacent, or in the
// request's room.
type Tensor struct {
	Name   string
	Type   runtimes.Elem
	Shape  []int64
	Bytes  int
	Shared bool  `json:",omitempty"`
	At     int64 `json:",omitempty"` // position in the room, if shared
}

// Reply is the head of a KindReply.
type Reply struct {
	Fault    *Fault          `json:",omitempty"`
	Function bool            `json:",omitempty"` // OpOpen: not a language model
	Shape    *runtimes.Shape `json:",omitempty"` // OpOpen
	Sequence uint64          `json:",omitempty"` // OpSequence
	Len      int             `json:",omitempty"` // of the sequence
	Stop     runtimes.Stop   `json:",omitempty"`
	Answer   json.RawMessage `json:",omitempty"` // OpAsk
	Tensors  []Tensor        `json:"-"`          // of a KindRan: layout of the payload and the room
}

// Fault is an encoded error: its text and the properties that callers check.
type Fault struct {
	Text        string
	Unavailable *runtimes.Unavailable `json:",omitempty"`
	Is          string                `json:",omitempty"` // name of a sentinel error
}

func sentinels() map[string]error {
	return map[string]error{
		"full": runtimes.ErrFull, "closed": runtimes.ErrClosed, "time": runtimes.ErrTime,
		"cancelled": context.Canceled, "deadline": context.DeadlineExceeded,
	}
}

// NewFault encodes an error; nil stays nil.
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

// Err decodes the error.
func (f *Fault) Err() error {
	if f == nil {
		return nil
	}
	if f.Unavailable != nil {
		return f.Unavailable
	}
	return &remote{f.Text, sentinels()[f.Is]}
}

// remote is an error of the other side.
type remote struct {
	text string
	is   error // a sentinel, or nil
}

func (t *remote) Error() string { return t.text }
func (t *remote) Unwrap() error { return t.is }

// Feed encodes positions as a payload.
func Feed(in []runtimes.Positions) (runs []Run, payload [][]byte) {
	for _, p := range in {
		runs = append(runs, Run{len(p.Tokens), len(p.Vectors)})
		payload = append(payload, Bytes(p.Tokens), Bytes(p.Vectors))
	}
	return runs, payload
}

// Fed decodes the output of Feed.
func Fed(runs []Run, payload []byte) ([]runtimes.Positions, error) {
	var in []runtimes.Positions
	for _, r := range runs {
		if r.Tokens < 0 || r.Numbers < 0 || r.Tokens > len(payload)/4 || r.Numbers > len(payload)/4-r.Tokens {
			return nil, fmt.Errorf("%d tokens and %d numbers exceed %d bytes", r.Tokens, r.Numbers, len(payload))
		}
		in = append(in, runtimes.Positions{Tokens: Numbers[int32](payload[:4*r.Tokens]), Vectors: Numbers[float32](payload[4*r.Tokens : 4*(r.Tokens+r.Numbers)])})
		payload = payload[4*(r.Tokens+r.Numbers):]
	}
	if len(payload) != 0 {
		return nil, fmt.Errorf("%d trailing bytes", len(payload))
	}
	return in, nil
}

// Number is a number of 4 bytes.
type Number interface{ int32 | float32 }

// Bytes encodes numbers as little endian.
func Bytes[T Number](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	b, err := binary.Append(make([]byte, 0, 4*len(v)), binary.LittleEndian, v)
	if err != nil {
		panic(err) // unreachable: the types have a fixed size
	}
	return b
}

// Numbers decodes the output of Bytes; the length must be a multiple of 4.
func Numbers[T Number](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	v := make([]T, len(b)/4)
	if _, err := binary.Decode(b, binary.LittleEndian, v); err != nil {
		panic(err) // unreachable: the lengths match
	}
	return v
}
