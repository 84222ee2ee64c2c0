// Package runtimes runs an assembled build.
//
// A [Backend] opens one part of an assembly as a session. A [Generator] takes
// text, tokens or vectors and streams tokens. The seam lies there, not at tensor
// operations: an engine is free to do its work as it likes between the two. Probe
// says whether a backend is there, or exactly what is missing and how to get
// it; a run never falls back to another engine by itself.
//
// A [Runner] answers a [Request] with the assembly: it feeds the text and
// generates. Inputs that are no text, which an encoder and a projector would
// turn into vectors of d_model, are refused with what is missing. Files reach
// it as paths that the caller has verified.
package runtimes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
)

// ErrUnavailable says that a backend, or a part of a build, cannot run here.
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

// Weights is what a backend opens: the files of one part, by format, and what
// the assembly says of them. The files have been verified.
type Weights struct {
	Part   builds.Part
	Paths  map[string]string // format → path on disk
	Tokens abi.TokenContract
	KV     abi.DType // "": the backend's choice

	Draft    *Draft    // nil: no speculative decoding
	Adapters []Adapter // applied in this order
}

// Draft is a small model that proposes tokens, which the model then checks
// together. It does not change what is said.
type Draft struct {
	Part   builds.Part
	Paths  map[string]string // format → path on disk
	Tokens int               // proposed at a time; 0: the backend's choice
}

// Adapter is a low-rank change to the model's weights.
type Adapter struct {
	Part  builds.Part
	Paths map[string]string // format → path on disk
	Scale float64
}

// Settings hold for all sessions of a run.
type Settings struct {
	Threads int // 0: what the machine has to give
}

// Backend is an engine. It is safe for concurrent use.
type Backend interface {
	// Name is how the command line and graphs call it: core, gguf, onnx, qnn.
	Name() string
	// Probe returns nil when the backend can open sessions here, and an
	// [Unavailable] otherwise.
	Probe(ctx context.Context) error
	// OpenGenerator opens a language model as an empty sequence.
	OpenGenerator(ctx context.Context, w Weights, s Settings) (Generator, error)
}

// Generator is one sequence of a language model. It is not safe for
// concurrent use.
type Generator interface {
	// Feed appends a segment to the sequence and reports how many places it
	// took. A segment that does not fit into max_seq is an error and leaves
	// the sequence as it was.
	Feed(ctx context.Context, s Segment) (places int, err error)
	// Generate continues the sequence and calls emit for each token as it is
	// chosen; an error of emit stops it and is returned.
	Generate(ctx context.Context, opt Generation, emit func(Token) error) (Stop, error)
	// Close frees what the session holds.
	Close() error
}

// Conversant is a [Generator] whose model may have been trained on
// conversations.
type Conversant interface {
	// Conversation wraps what a user says as the model was trained to read it,
	// so that its answer follows. It is nil for a model of plain text. What
	// the user says stays text: special tokens in it do not count.
	Conversation(text string) ([]Segment, error)
}

// Segment is a piece of a sequence: exactly one of the fields is set.
type Segment struct {
	Text    string      // plain text: special tokens in it are text
	Marked  string      // text whose special tokens count, such as a chat prompt
	Tokens  []int32     // ids
	Vectors [][]float32 // n vectors of d_model, as a projector gives them
}

// Generation says how to continue a sequence. The zero value is greedy.
type Generation struct {
	MaxTokens         int     // 0: until the model ends or the sequence is full
	Temperature       float64 // 0: greedy
	TopK              int     // 0: all
	TopP              float64 // 0: all
	MinP              float64 // 0: none is cut
	RepetitionPenalty float64 // 0: 1, no penalty
	Seed              uint64  // of the sampler; the same seed gives the same text
	Stop              []string
}

// Token is one generated token.
type Token struct {
	ID   int32  // -1 for text that was held back until the end
	Text string // what it adds to the text; UTF-8 is never cut
}

// Stop says why generation ended.
type Stop string

// The reasons why generation ends.
const (
	StopEnd    Stop = "end"    // the model ended its text
	StopLength Stop = "length" // MaxTokens, or the sequence is full
	StopWord   Stop = "stop"   // one of the stop strings
	StopBudget Stop = "budget" // the request's time was over
)

// Request asks for one answer. It is the playbook's inference request (§13.2).
type Request struct {
	Inputs       []Input     `json:"inputs"`
	Preferences  Preferences `json:"preferences"`
	ToolsAllowed []string    `json:"tools_allowed,omitempty"`
	Outputs      []string    `json:"outputs,omitempty"` // modalities; none: text
}

// Input is one input of a request, in the order it is fed.
type Input struct {
	Type abi.Modality `json:"type"`
	Text string       `json:"text,omitempty"`
	Path string       `json:"path,omitempty"`
}

// Preferences say how to answer.
type Preferences struct {
	CoT               bool     `json:"cot,omitempty"` // a wish, for models that were trained to heed it
	MaxTokens         int      `json:"max_tokens,omitempty"`
	BudgetMS          int64    `json:"budget_ms,omitempty"`
	Temperature       float64  `json:"temperature,omitempty"`
	TopK              int      `json:"top_k,omitempty"`
	TopP              float64  `json:"top_p,omitempty"`
	MinP              float64  `json:"min_p,omitempty"`
	RepetitionPenalty float64  `json:"repetition_penalty,omitempty"`
	Seed              uint64   `json:"seed,omitempty"`
	Stop              []string `json:"stop,omitempty"`
}

// Timings of one answer.
type Timings struct {
	Load       time.Duration // opening the core's session
	FirstToken time.Duration // from the first Feed to the first token
	Prompt     int           // places the inputs took
	Generated  int           // tokens
	Generate   time.Duration // from the first token to the last
}

// PerSecond is the generation speed in tokens a second, counted after the
// first token.
func (t Timings) PerSecond() float64 {
	if t.Generated < 2 || t.Generate <= 0 {
		return 0
	}
	return float64(t.Generated-1) / t.Generate.Seconds()
}

// Answer is what a request came to.
type Answer struct {
	Text    string
	Tokens  []int32
	Stop    Stop
	Timings Timings
}

// Select returns the backend called name. With no name it is the first of the
// backends that Probe says is there; the order of the list is the preference.
func Select(ctx context.Context, backends []Backend, name string) (Backend, error) {
	if name == "" {
		var first error
		for _, b := range backends {
			err := b.Probe(ctx)
			if err == nil {
				return b, nil
			}
			if first == nil {
				first = err
			}
		}
		return nil, first
	}
	i := slices.IndexFunc(backends, func(b Backend) bool { return b.Name() == name })
	if i < 0 {
		return nil, &Unavailable{What: "backend " + name, Why: "this build of mm does not have it", Hint: "mm doctor lists the backends"}
	}
	return backends[i], backends[i].Probe(ctx)
}
