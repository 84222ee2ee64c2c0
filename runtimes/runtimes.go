// Package runtimes defines the contract between a build and the engines that
// compute it.
//
// An [Engine] opens the files of one part ([Bundle]) as a [Model], which holds
// the weights once. A [Language] model has any number of sequences; a [Sequence]
// reads token ids or vectors and continues them with ids. A [Function] maps named
// tensors to named tensors. The interface is above tensor operations and below
// text: tokenizer, chat template and tool calls are written once for all engines,
// in runtimes/talk.
//
// All arguments of a Sequence and a Function are plain data, so that an engine
// may run in a child process: the pipe protocol is exactly these two interfaces.
// Optional abilities are small interfaces that a caller asserts ([Scorer],
// [Predictor], [Hidden], [Saver], [Sharer], [Embedder]).
//
// [Engine.Probe] reports whether an engine is available, or what is missing and
// how to get it; a run never falls back to another engine by itself.
// runtimes/runtimetest is the conformance suite of engines.
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

// ErrUnavailable reports that an engine, or a part of a build, cannot run here.
// The error that wraps it names the missing thing.
var ErrUnavailable = errors.New("not available")

// Unavailable describes a missing thing and how to get it. It is ErrUnavailable.
type Unavailable struct {
	What string // the requested thing: "backend onnx", "image input"
	Why  string // the missing thing
	Hint string // how to get it
}

// Error names the missing thing.
func (u *Unavailable) Error() string { return fmt.Sprintf("%s is not available: %s", u.What, u.Why) }

// Is makes errors.Is(err, ErrUnavailable) true.
func (u *Unavailable) Is(err error) bool { return err == ErrUnavailable }

// ErrFull reports that a sequence has no room for its input.
var ErrFull = errors.New("the sequence is full")

// ErrClosed reports the use of a model or a sequence after its Close.
var ErrClosed = errors.New("closed")

// ErrTime reports that a call took longer than Limits.Time.
var ErrTime = errors.New("the time limit is over")

// Info describes an engine.
type Info struct {
	Version string   // of the engine
	Devices []string // that it can compute on: "cpu", "cuda:0"
	Formats []string // that it opens: "gguf", "onnx"
	License string   // SPDX, of the engine
	// Simulated is set if the engine emulates hardware: its results do not
	// describe that hardware.
	Simulated bool `json:",omitempty"`
}

// Limits bounds the resources of a model. The zero value uses all that the machine
// has.
type Limits struct {
	Threads int           // 0: the available physical cores, which also bound larger values
	Memory  int64         // bytes of weights and sequences together; 0: no limit
	KV      int64         // bytes of keys and values of all sequences, which wait for room; 0: no limit; the engine core
	Time    time.Duration // of one Feed or Run, or until the next token of a Generate; 0: the engine's own, none in this process
	Device  string        // one of Info.Devices; "": the engine's choice
}

// Check reports invalid limits.
func (l Limits) Check() error {
	if l.Threads < 0 || l.Memory < 0 || l.KV < 0 || l.Time < 0 {
		return fmt.Errorf("%d threads, %d bytes of memory, %v: a limit must not be negative", l.Threads, l.Memory, l.Time)
	}
	return nil
}

// Bundle is one part of a build with everything that an engine needs to open it.
type Bundle struct {
	Part     builds.Part       // name, version, type and the paths of its files
	Manifest *modules.Manifest // ports, preprocessing, state; nil for a single file
	Files    builds.Files      // the verified files of the build

	Tokens abi.TokenContract // the contract of the build; if a figure is absent, the file's holds
	KV     abi.DType         // how keys and values are stored; "": the engine's choice

	Draft       *Bundle // a small model that proposes tokens; nil: none
	DraftTokens int     // proposed at a time; 0: the engine's choice
	NoDraft     bool    // the engine must not propose tokens by other means either
	Adapters    []Adapter
}

// Adapter is a low-rank change to the model's weights.
type Adapter struct {
	Bundle
	Scale float64 // its strength; at 0 it changes nothing
}

// Entry returns the path of the file that an engine for format opens first. If
// the part ships none, it returns an [Unavailable].
func (b *Bundle) Entry(format abi.Format) (string, error) {
	name := b.Part.Files.Entry(format)
	if name == "" {
		return "", &Unavailable{What: b.Part.ID(), Why: "the target ships no " + string(format) + " file of it", Hint: "assemble with --export " + string(format) + "=…"}
	}
	return b.Files.Path(name)
}

// Sealed reports that a store verifies the files against their digests, so that
// their other names on disk have no meaning.
func (b *Bundle) Sealed() bool {
	_, ok := b.Files.(interface{ Sealed() })
	return ok
}

// Engine opens models. It is safe for concurrent use.
type Engine interface {
	// Name is the name on the command line: core, llamacpp, onnxruntime.
	Name() string
	// Probe describes the engine, or returns an [Unavailable].
	Probe(ctx context.Context) (Info, error)
	// Can returns why the engine cannot open a part with these files (format →
	// paths), or nil if it can try.
	Can(part builds.Part) error
	// Open loads the weights. The model is a [Language] or a [Function].
	Open(ctx context.Context, b Bundle, l Limits) (Model, error)
}

// Aliased is an [Engine] with other names. They select it unless an engine has
// one of them as its name.
type Aliased interface {
	Aliases() []string
}

// Model holds loaded weights. It is safe for concurrent use.
type Model interface {
	// Close frees the weights; sequences of the model then return errors. It is
	// idempotent.
	Close() error
}

// Shape is the size of a language model and the kinds of [Positions] that it reads.
type Shape struct {
	Vocab   int // tokens
	Width   int // d_model
	Context int // positions of a sequence

	Deep   int  `json:",omitempty"` // first layers that read further vectors
	Grid   bool `json:",omitempty"` // places in frames, rows and columns
	Mutual bool `json:",omitempty"` // positions that see each other
}

// Rows returns the number of positions of p, or why the model cannot read them.
func (s Shape) Rows(p Positions) (int, error) {
	width := s.Width
	if p.Deep {
		width *= 1 + s.Deep
	}
	if len(p.Tokens) > 0 && len(p.Vectors) > 0 {
		return 0, errors.New("positions with both tokens and vectors")
	}
	if len(p.Vectors)%width != 0 {
		return 0, fmt.Errorf("%d numbers are not vectors of width %d", len(p.Vectors), width)
	}
	for what, missing := range map[string]bool{
		"vectors for further layers": p.Deep && s.Deep == 0, "positions in a grid": p.Grid != [3]int{} && !s.Grid, "positions that see each other": p.Mutual && !s.Mutual,
	} {
		if missing {
			return 0, &Unavailable{What: what, Why: "the engine or its model does not read them", Hint: "mm inspect MODEL names its architecture; --backend core reads them where the architecture has them"}
		}
	}
	return len(p.Tokens) + len(p.Vectors)/width, nil
}

// Language is a Model of tokens. It handles ids and vectors, not text.
type Language interface {
	Model
	Shape() Shape
	// NewSequence returns an empty sequence. Sequences are independent and may be
	// used concurrently.
	NewSequence(ctx context.Context, opt SequenceOptions) (Sequence, error)
}

// SequenceOptions configures a sequence.
type SequenceOptions struct {
	Context int  // maximum of positions; 0: Shape's
	Hidden  bool // keep the states for [Hidden]
}

// Sequence is a text that is being read and written. It is not safe for concurrent
// use.
type Sequence interface {
	// Feed appends positions: all of them, or none and an error. If they do not
	// fit, the error is [ErrFull].
	Feed(ctx context.Context, in ...Positions) error
	// Truncate drops the positions from n on, 0 ≤ n ≤ Len. A grid and positions
	// that see each other are dropped as a whole: Len may be smaller than n.
	Truncate(n int) error
	// Len returns the number of positions held.
	Len() int
	// Generate continues the sequence and calls emit for each chosen token,
	// including the one that stops it; an error of emit stops it and is returned.
	// The sequence then holds a prefix of the fed and emitted tokens that lacks at
	// most the last one; Len distinguishes the cases.
	Generate(ctx context.Context, opt Generation, emit func(id int32) error) (Stop, error)
	// Close frees the sequence. It is idempotent.
	Close() error
}

// Positions are tokens or vectors, exactly one of the two.
type Positions struct {
	Tokens  []int32   // ids
	Vectors []float32 // n × d_model, the output of a projector

	// Deep marks vectors of n × (1+K)·d_model numbers: the input of a position and
	// vectors added to the outputs of the first K layers, [Shape].Deep.
	Deep bool
	// Grid arranges vectors in frames, rows and columns. If zero, they are a line.
	Grid [3]int
	// Mutual positions see each other, also later ones. Adjacent ones in one Feed form one block.
	Mutual bool
}

// Generation configures how to continue a sequence. The zero value takes the most
// likely tokens until the sequence is full.
type Generation struct {
	sample.Options          // sampling
	MaxTokens      int      // 0: until the sequence is full
	StopIDs        []int32  // tokens that end the text
	Allow          *Grammar // tokens that may follow; nil: any
	// Follow restricts the tokens as code, for each text anew. An engine in
	// another process returns an [Unavailable] for it. If nil, any token may follow.
	Follow Constraint `json:"-"`
}

// Stop is the reason why a generation ended.
type Stop string

// The reasons why generation ends.
const (
	StopEnd     Stop = "end"     // one of StopIDs
	StopLength  Stop = "length"  // MaxTokens
	StopContext Stop = "context" // the sequence is full
)

// Scorer is a [Sequence] with access to its logits.
type Scorer interface {
	// Logits returns the unnormalized log probabilities of the next token, one
	// for each token of the vocabulary.
	Logits(ctx context.Context) ([]float32, error)
}

// Hidden is a [Sequence] with access to the states that decoders read.
type Hidden interface {
	// Hidden returns the states of the positions from ≤ i < to after the last
	// norm: (to-from) × d_model numbers. The sequence must have been created with
	// SequenceOptions.Hidden.
	Hidden(from, to int) ([]float32, error)
}

// Saver is a [Sequence] that can be saved. Restore of data of another engine, model or kind of
// sequence, or from an r that fails before [io.EOF], returns an error and changes nothing.
type Saver interface {
	Save(w io.Writer) error
	Restore(r io.Reader) error
}

// Sharer is a [Sequence] that takes positions from other sequences of the model, if
// their texts begin the same.
type Sharer interface {
	// Shared returns the number of positions of the last Feed that were not computed.
	Shared() int
	// Reusable returns how many first tokens a Feed into the empty sequence would not compute.
	Reusable(tokens []int32) int
}

// Embedder is a [Language] with access to its token embeddings.
type Embedder interface {
	// Embed returns n × d_model numbers for n tokens.
	Embed(tokens []int32) ([]float32, error)
}

// Function is a Model from named tensors to named tensors.
type Function interface {
	Model
	// Run computes. If an input is missing, unknown or has the wrong type or
	// shape, the error names it.
	Run(ctx context.Context, in map[string]Tensor) (map[string]Tensor, error)
}
