package part

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/runtimes"
)

// What a step does.
const (
	StepEncode   = "encode"   // an input becomes tokens of its encoder
	StepProject  = "project"  // those become vectors for the core
	StepRecall   = "recall"   // vectors that were known
	StepPool     = "pool"     // vectors of frames or windows become fewer
	StepPrompt   = "prompt"   // the core reads
	StepGenerate = "generate" // the core writes
	StepDecode   = "decode"   // the core's states become a picture or a sound
	StepCall     = "call"     // a tool is called
)

// What brought a position into the core's context.
const (
	FromPrompt  = "given"  // the prompt, as the template makes it
	FromInput   = "input"  // a vector of a picture, a sound or a film
	FromModel   = "drawn"  // chosen by the core
	FromGrammar = "forced" // what alone could follow: the core was not asked
	FromTool    = "told"   // the answer of a tool, as the template writes it
)

// Position is one place of the core's context.
type Position struct {
	ID      int32  `json:"id"`    // the token; of a vector its input's number, from 0
	Piece   string `json:"piece"` // what it spells, UTF-8; "" for a vector
	From    string `json:"from"`
	Allowed int    `json:"allowed,omitempty"` // tokens that the grammar let stand there; 0: any
}

// Step is one thing that was done.
type Step struct {
	What    string       `json:"what"`
	Part    string       `json:"part"`
	Backend string       `json:"backend"`
	Cached  string       `json:"cached,omitempty"` // where a recalled result lay: memory, disk
	Note    string       `json:"note,omitempty"`   // in words: the input, positions, tokens
	In      []TensorInfo `json:"in,omitempty"`
	Out     []TensorInfo `json:"out,omitempty"`
	After   []int        `json:"after,omitempty"` // the steps whose results it took

	Simulated bool              `json:"simulated,omitempty"` // the backend stands in for hardware
	Facts     map[string]string `json:"facts,omitempty"`     // what the backend says of what it ran: chip, SDK, digest

	Start   time.Duration `json:"-"` // since the request
	Load    time.Duration `json:"-"` // opening the part, where this step did
	Prepare time.Duration `json:"-"` // of the input: decoding, resizing
	Run     time.Duration `json:"-"`
}

// Tensor is the outside of one.
type TensorInfo struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
}

// String writes it as ports are written: image uint8 [64, 64, 3].
func (t TensorInfo) String() string {
	dims := make([]string, len(t.Shape))
	for i, d := range t.Shape {
		dims[i] = fmt.Sprint(d)
	}
	return strings.TrimSpace(t.Name + " " + t.DType + " [" + strings.Join(dims, ", ") + "]")
}

// Tensors are the outsides of named tensors, by name.
func TensorInfos(in map[string]runtimes.Tensor) []TensorInfo {
	var out []TensorInfo
	for _, name := range slices.Sorted(maps.Keys(in)) {
		t := in[name]
		out = append(out, TensorInfo{name, string(t.Type), append([]int64{}, t.Shape...)})
	}
	return out
}

// Join puts the steps of one piece of work behind others; what they say of each
// other goes on to hold. It gives the number of the last.
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
