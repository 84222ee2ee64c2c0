package part

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/runtimes"
)

// The kinds of steps.
const (
	StepEncode   = "encode"   // an encoder runs on an input
	StepProject  = "project"  // a projector turns them into vectors for the core
	StepRecall   = "recall"   // cached vectors are used
	StepPool     = "pool"     // vectors of frames or windows are pooled
	StepPrompt   = "prompt"   // the core reads the prompt
	StepGenerate = "generate" // the core generates tokens
	StepDecode   = "decode"   // a decoder turns the core's states into an image or a sound
	StepCall     = "call"     // a tool is called
)

// The sources of a position in the core's context.
const (
	FromPrompt  = "given"  // the rendered prompt
	FromInput   = "input"  // a vector of an image, a sound or a video
	FromModel   = "drawn"  // sampled from the core
	FromGrammar = "forced" // the only token that the grammar allows
	FromTool    = "told"   // the rendered answer of a tool
)

// Position is one position of the core's context.
type Position struct {
	ID      int32  `json:"id"`    // the token; for a vector the index of its input
	Piece   string `json:"piece"` // its text, UTF-8; "" for a vector
	From    string `json:"from"`
	Allowed int    `json:"allowed,omitempty"` // number of tokens that the grammar allowed; 0: any
}

// Step is one operation.
type Step struct {
	What    string       `json:"what"`
	Part    string       `json:"part"`
	Backend string       `json:"backend"`
	Cached  string       `json:"cached,omitempty"` // source of a cached result: memory, disk
	Note    string       `json:"note,omitempty"`   // the input, positions or tokens
	In      []TensorInfo `json:"in,omitempty"`
	Out     []TensorInfo `json:"out,omitempty"`
	After   []int        `json:"after,omitempty"` // the steps whose results it used

	Simulated bool              `json:"simulated,omitempty"` // the backend emulates hardware
	Facts     map[string]string `json:"facts,omitempty"`     // of the backend: chip, SDK, digest

	Start   time.Duration `json:"-"` // since the request
	Load    time.Duration `json:"-"` // opening the part, if this step did
	Prepare time.Duration `json:"-"` // of the input: decoding, resizing
	Run     time.Duration `json:"-"`
}

// TensorInfo describes a tensor.
type TensorInfo struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
}

// String formats the tensor as ports are written: image uint8 [64, 64, 3].
func (t TensorInfo) String() string {
	dims := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		dims[i] = fmt.Sprint(d)
	}
	return strings.TrimSpace(t.Name + " " + t.DType + " [" + strings.Join(dims, ", ") + "]")
}

// TensorInfos describes tensors in the order of their names.
func TensorInfos(in map[string]runtimes.Tensor) []TensorInfo {
	var out []TensorInfo
	for _, name := range slices.Sorted(maps.Keys(in)) {
		t := in[name]
		out = append(out, TensorInfo{name, string(t.Type), append([]int64{}, t.Shape...)})
	}
	return out
}

// JoinSteps appends steps to others, adjusts their references, and returns the
// index of the last.
func JoinSteps(all, more []Step) ([]Step, int) {
	base := len(all)
	for _, s := range more {
		after := make([]int, len(s.After))
		for i, n := range s.After {
			after[i] = base + n
		}
		if s.After = after; len(after) == 0 {
			s.After = nil
		}
		all = append(all, s)
	}
	return all, len(all) - 1
}
