package runner

import (
	"fmt"
	"slices"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// Request asks for one answer. It is the playbook's inference request (§13.2),
// of inputs or of the turns of a conversation.
type Request struct {
	Inputs       []talk.Part       `json:"inputs,omitempty"`   // what a user says, in this order
	Messages     []talk.Message    `json:"messages,omitempty"` // in their place, a conversation
	Tools        []talk.Definition `json:"tools,omitempty"`    // told to the model, if its template has a way to
	Preferences  Preferences       `json:"preferences"`
	ToolsAllowed []string          `json:"tools_allowed"`     // skills of the build that may be called; nil: all
	Assets       []Asset           `json:"assets,omitempty"`  // files for the tools, beside the inputs
	Outputs      []string          `json:"outputs,omitempty"` // modalities; none: text

	Context bool `json:"-"` // tell what the core read and wrote, [Answer].Context
}

// Preferences say how to answer.
type Preferences struct {
	sample.Options
	CoT       bool     `json:"cot,omitempty"` // a wish, for models that were trained to heed it
	MaxTokens int      `json:"max_tokens,omitempty"`
	BudgetMS  int64    `json:"budget_ms,omitempty"`
	Stop      []string `json:"stop,omitempty"`

	// Allow says which tokens may follow; nil: any.
	Allow *runtimes.Grammar `json:"allow,omitempty"`
	// Grammar is what the whole answer is in; nil: any text.
	Grammar *grammar.Grammar `json:"-"`
}

// Check reports preferences that make no sense.
func (p Preferences) Check() error {
	if p.MaxTokens < 0 {
		return fmt.Errorf("max tokens is %d, not 0 or more", p.MaxTokens)
	}
	if p.BudgetMS < 0 {
		return fmt.Errorf("the budget is %d ms, not 0 or more", p.BudgetMS)
	}
	for _, s := range p.Stop {
		if s == "" {
			return fmt.Errorf("a stop text is empty")
		}
	}
	return p.Options.Check()
}

// messages are the turns of a request.
func (r Request) messages() []talk.Message {
	if r.Messages != nil {
		return r.Messages
	}
	return []talk.Message{{Role: talk.User, Parts: r.Inputs}}
}

// parts are all inputs of a request.
func (r Request) parts() []talk.Part {
	var out []talk.Part
	for _, m := range r.messages() {
		out = append(out, m.Parts...)
	}
	return out
}

// The reasons why an answer ends beside those of an engine.
const (
	StopWord   runtimes.Stop = "stop"      // one of the stop texts
	StopCall   runtimes.Stop = "tool_call" // the model calls a tool
	StopBudget runtimes.Stop = "budget"    // the request's time was over
)

// Answer is what a request came to.
type Answer struct {
	Text      string
	Reasoning string
	Called    []CallRecord // the tools that were called, in this order
	Calls     []talk.Call  // those that the model calls and nobody has, for the caller to run
	Tokens    []int32
	Stop      runtimes.Stop
	Timings   Timings
	Backends  []Backend // of the parts that it took, the core first
	Made      []Made    // by decoders, in the order of the request
	Assumed   []string  // what the manifests of encoders do not say and was taken for granted
	Trace     []part.Step
	Context   []part.Position // of the core, where the request asks for it
	Unheld    string          // why nothing held the model to the grammar of calls; "": it was, or there are none

	turns []talk.Message // before the last words: calls and what came of them
	// Bytes of Text and of Reasoning that are in them.
	told, thought int
}

// Backend is a part and the engine that ran it.
type Backend struct {
	Part   string `json:"part"`
	Engine string `json:"backend"` // as it is shown
	// Simulated is set where the engine stands in for hardware that is not there.
	Simulated bool `json:"simulated,omitempty"`
	// Facts are what the core's backend says of what it ran: chip, SDK, digest.
	Facts map[string]string `json:"facts,omitempty"`
}

func backendOf(part string, e runtimes.Engine) Backend {
	return Backend{Part: part, Engine: runtimes.Shown(e), Simulated: runtimes.Simulates(e)}
}

// Messages are the answer as turns of the conversation: those of calls and of
// their answers, and that of the last words.
func (a *Answer) Messages() []talk.Message { return append(slices.Clone(a.turns), a.Message()) }

// Message is the last turn of the answer.
func (a *Answer) Message() talk.Message {
	m := talk.Message{Role: talk.Assistant, Reasoning: a.Reasoning[a.thought:]}
	if text := a.Text[a.told:]; text != "" {
		m.Parts = []talk.Part{{Type: abi.Text, Text: text}}
	}
	for _, c := range a.Calls {
		if c.Fault == "" {
			m.Calls = append(m.Calls, c)
		}
	}
	return m
}

// Timings of one answer.
type Timings struct {
	Load       time.Duration // opening the model, by the first answer only
	FirstToken time.Duration // from the first Feed to the first token
	Prompt     int           // places the inputs took
	Reused     int           // of them, those that were in the sequence already
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

// able says what the request needs that this build or this mm cannot give.
func (r *Runner) able(req Request) error {
	a := r.build.Assembly
	for _, in := range req.parts() {
		if in.Type == abi.Text || in.Type == "" {
			continue
		}
		if err := media.Missing(a, in); err != nil {
			return err
		}
	}
	for _, out := range req.Outputs {
		if m := abi.Modality(out); m != abi.Text {
			if err := makes(a, m); err != nil {
				return err
			}
		}
	}
	if len(req.ToolsAllowed) == 0 {
		return nil
	}
	tool := "tool " + req.ToolsAllowed[0]
	if a.Router == nil {
		return &runtimes.Unavailable{What: tool, Why: a.Name + " has no router", Hint: "add runtime.router to the graph"}
	}
	if r.opt.Skills.Executors == nil {
		return &runtimes.Unavailable{What: tool, Why: "the skills of the build are not run here", Hint: "leave tools_allowed out"}
	}
	return nil
}
