// Package runtimes is the contract between a build and the engines that
// compute it.
//
// An [Engine] opens the files of one part ([Bundle]) as a [Model]: the weights,
// once. A [Language] model gives any number of sequences; a [Sequence] takes
// token ids or vectors and continues them with ids. A [Function] takes named
// tensors and gives named tensors. The seam lies there, not at tensor
// operations, and below text: tokenizer, chat template and tool calls are
// written once for all engines, in runtimes/talk.
//
// Every argument that goes through a Sequence or a Function is plain data, so
// that an engine may live in a child process: the pipe protocol is these two
// interfaces and nothing else. What only some engines can do is a small
// interface of its own ([Scorer], [Hidden], [Saver], [Embedder]) that a caller
// asks for.
//
// [Engine.Probe] says whether an engine is there, or exactly what is missing
// and how to get it; a run never falls back to another engine by itself.
// runtimes/runtimetest holds what every engine must keep.
package runtimes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/modules"
)

// ErrUnavailable says that an engine, or a part of a build, cannot run here.
// The error that wraps it names what is missing.
var ErrUnavailable = errors.New("not available")

// Unavailable says what is missing and how to get it. It is ErrUnavailable.
type Unavailable struct {
	What string // what was wanted: "backend onnx", "image input"
	Why  string // what is missing
	Hint string // how to get it
}

// Error names what is missing.
func (u *Unavailable) Error() string { return fmt.Sprintf("%s is not available: %s", u.What, u.Why) }

// Is makes errors.Is(err, ErrUnavailable) true.
func (u *Unavailable) Is(err error) bool { return err == ErrUnavailable }

// ErrFull says that a sequence has no room for what was to be fed.
var ErrFull = errors.New("the sequence is full")

// ErrClosed says that a model or a sequence was used after its Close.
var ErrClosed = errors.New("closed")

// ErrTime says that a call took longer than Limits.Time.
var ErrTime = errors.New("the time limit is over")

// Info is what an engine says of itself.
type Info struct {
	Version string   // of the engine
	Devices []string // what it can compute on: "cpu", "cuda:0"
	Formats []string // what it opens: "gguf", "onnx"
	License string   // SPDX, of the engine
	// Simulated is set where the engine stands in for hardware that is not
	// there: what it computes says nothing about that hardware.
	Simulated bool `json:",omitempty"`
}

// Limits bound what a model may take. The zero value takes what the machine
// has to give.
type Limits struct {
	Threads int           // 0: the physical cores at hand; more than the machine has are not used
	Memory  int64         // bytes of weights and sequences together; 0: no limit
	Time    time.Duration // of one Feed or Run, or until the next token of a Generate; 0: the engine's own, none in this process
	Device  string        // one of Info.Devices; "": the engine's choice
}

// Check reports limits that make no sense.
func (l Limits) Check() error {
	if l.Threads < 0 || l.Memory < 0 || l.Time < 0 {
		return fmt.Errorf("%d threads, %d bytes of memory, %v: a limit must not be negative", l.Threads, l.Memory, l.Time)
	}
	return nil
}

// Bundle is one part of a build with all that an engine needs to open it.
type Bundle struct {
	Part     builds.Part       // name, version, type and the paths of its files
	Manifest *modules.Manifest // ports, preprocessing, state; nil for a file on its own
	Files    builds.Files      // the verified files of the build

	Tokens abi.TokenContract // what the build counts on; an absent figure is the file's
	KV     abi.DType         // how keys and values are stored; "": the engine's choice

	Draft       *Bundle // a small model that proposes tokens; nil: none
	DraftTokens int     // proposed at a time; 0: the engine's choice
	NoDraft     bool    // nor may the engine propose tokens by means of its own
	Adapters    []Adapter
}

// Adapter is a low-rank change to the model's weights.
type Adapter struct {
	Bundle
	Scale float64 // its strength; at 0 it changes nothing
}

// Entry is the path on disk of the file that an engine for format opens first.
// A part that ships none is [Unavailable].
func (b *Bundle) Entry(format abi.Format) (string, error) {
	name := b.Part.Files.Entry(format)
	if name == "" {
		return "", &Unavailable{What: b.Part.ID(), Why: "the target ships no " + string(format) + " file of it", Hint: "assemble with --export " + string(format) + "=…"}
	}
	return b.Files.Path(name)
}

// Sealed reports that the files are held to their digests by a store, so that
// other names that they have on disk mean nothing.
func (b *Bundle) Sealed() bool {
	_, ok := b.Files.(interface{ Sealed() })
	return ok
}

// Engine is a way to compute. It is safe for concurrent use.
type Engine interface {
	// Name is how the command line calls it: core, llamacpp, onnxruntime.
	Name() string
	// Probe describes the engine, or returns an [Unavailable].
	Probe(ctx context.Context) (Info, error)
	// Can says why the engine cannot open a part with these files (format →
	// paths); nil when it can try.
	Can(part builds.Part) error
	// Open loads the weights. The model is a [Language] or a [Function].
	Open(ctx context.Context, b Bundle, l Limits) (Model, error)
}

// Aliased is an [Engine] that goes by other names as well, where no engine has
// them for its own.
type Aliased interface {
	Aliases() []string
}

// Model is loaded weights. It is safe for concurrent use.
type Model interface {
	// Close frees the weights; sequences of the model then give errors. A
	// second Close does nothing.
	Close() error
}

// Shape is the size of a language model.
type Shape struct {
	Vocab   int // tokens
	Width   int // numbers of a vector, d_model
	Context int // positions of a sequence
}

// Language is a Model of tokens. It knows ids and vectors, no text.
type Language interface {
	Model
	Shape() Shape
	// NewSequence begins an empty sequence. Sequences are independent and may
	// be used at the same time.
	NewSequence(ctx context.Context, opt SequenceOptions) (Sequence, error)
}

// SequenceOptions is how a sequence is held.
type SequenceOptions struct {
	Context int  // most positions; 0: Shape's
	Hidden  bool // keep the states that [Hidden] gives
}

// Sequence is one text in the course of being read and written. It is not
// safe for concurrent use.
type Sequence interface {
	// Feed appends positions: all of them, or none and an error. What does
	// not fit is [ErrFull].
	Feed(ctx context.Context, in ...Positions) error
	// Truncate forgets the positions from n on, 0 ≤ n ≤ Len.
	Truncate(n int) error
	// Len is the number of positions held.
	Len() int
	// Generate continues the sequence and calls emit for each token as it is
	// chosen, the one that stops it included; an error of emit ends it and is
	// returned. The sequence then holds a beginning of what was fed and
	// emitted that lacks the last token at most; Len says which.
	Generate(ctx context.Context, opt Generation, emit func(id int32) error) (Stop, error)
	// Close frees the sequence. A second Close does nothing.
	Close() error
}

// Positions are tokens or vectors, exactly one of the two.
type Positions struct {
	Tokens  []int32   // ids
	Vectors []float32 // n × d_model, as a projector gives them
}

// Generation says how to continue a sequence. The zero value takes the
// likeliest tokens until the sequence is full.
type Generation struct {
	sample.Options          // how tokens are chosen
	MaxTokens      int      // 0: as many as there is room for
	StopIDs        []int32  // tokens that end the text
	Allow          *Grammar // which tokens may follow; nil: any
	// Follow says it as well, of each text anew. It is code: an engine in
	// another process is [Unavailable] for it. nil: any token.
	Follow Constraint `json:"-"`
}

// Stop says why generation ended.
type Stop string

// The reasons why generation ends.
const (
	StopEnd     Stop = "end"     // one of StopIDs
	StopLength  Stop = "length"  // MaxTokens
	StopContext Stop = "context" // the sequence is full
)

// Scorer is a [Sequence] that tells what it expects next.
type Scorer interface {
	// Logits are the unnormalised log probabilities, one a token of the
	// vocabulary, of what follows the last position.
	Logits(ctx context.Context) ([]float32, error)
}

// Hidden is a [Sequence] that shows what a decoder takes.
type Hidden interface {
	// Hidden gives the states of the positions from ≤ i < to behind the last
	// norm: (to-from) × d_model numbers. The sequence must have been made
	// with SequenceOptions.Hidden.
	Hidden(from, to int) ([]float32, error)
}

// Saver is a [Sequence] that can be put on disk. What it writes is for the
// same engine, model and kind of sequence; Restore of anything else is an
// error and changes nothing.
type Saver interface {
	Save(w io.Writer) error
	Restore(r io.Reader) error
}

// Embedder is a [Language] that gives the vectors it reads tokens as.
type Embedder interface {
	// Embed gives n × d_model numbers for n tokens.
	Embed(tokens []int32) ([]float32, error)
}

// Function is a Model of named tensors in and named tensors out.
type Function interface {
	Model
	// Run computes. An input that is missing, unknown or of another type or
	// shape is an error that names it.
	Run(ctx context.Context, in map[string]Tensor) (map[string]Tensor, error)
}
