package runner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// Request asks for one answer: the playbook's inference request (§13.2), of inputs or of the
// turns of a conversation.
type Request struct {
	Inputs       []talk.Part       `json:"inputs,omitempty"`   // the user's inputs, in order
	Messages     []talk.Message    `json:"messages,omitempty"` // a conversation, instead of Inputs
	Tools        []talk.Definition `json:"tools,omitempty"`    // shown to the model if its template supports tools
	Preferences  Preferences       `json:"preferences"`
	ToolsAllowed []string          `json:"tools_allowed"`     // skills of the build that may be called; nil: all
	Assets       []Asset           `json:"assets,omitempty"`  // files for the tools, in addition to the inputs
	Outputs      []string          `json:"outputs,omitempty"` // modalities; none: text

	Thought talk.Thought `json:"-"` // how much the model reasons

	// GoesOn continues the last turn, if it is the model's, instead of starting another one.
	GoesOn bool `json:"-"`

	Context bool `json:"-"` // record [Answer].Context
	// Owner names who asks: a kept sequence is used only for the one whose text it is.
	Owner string `json:"-"`
	// Plain continues the texts of Inputs without the chat template; all that the model
	// writes is text.
	Plain bool `json:"-"`
	// Tokens are continued as they are, instead of Inputs; Plain must be set.
	Tokens []int32 `json:"-"`
	// Scored receives the log probability of each generated token that is text, and those
	// of the Alternatives most likely tokens at its place; may be nil. The engine must
	// support constraints.
	Scored       func(TokenScore) `json:"-"`
	Alternatives int              `json:"-"`
	// Prompted receives the positions of the prompt, and of them the cached ones, before the
	// first token; may be nil.
	Prompted func(prompt, reused int) `json:"-"`
	// Reasoned receives each piece of reasoning, as emit receives those of the text; may
	// be nil.
	Reasoned func(text string) error `json:"-"`

	// Seen receives the core's mean state at each input, for the fit of a confidence; the
	// answer has none. May be nil.
	Seen func(states [][]float64) `json:"-"`

	// Guess answers about inputs without a confidence, and withholds nothing.
	Guess bool `json:"-"`

	// Continue sets preferences for a core without a chat template, which continues a
	// text rather than answers it; may be nil.
	Continue func(*Preferences) `json:"-"`
}

// Preferences configures an answer.
type Preferences struct {
	sample.Options
	CoT       bool     `json:"cot,omitempty"` // for models trained to follow it
	MaxTokens int      `json:"max_tokens,omitempty"`
	BudgetMS  int64    `json:"budget_ms,omitempty"`
	Stop      []string `json:"stop,omitempty"`

	// EndLoops ends a text that repeats itself.
	EndLoops bool `json:"-"`

	// Allow restricts the tokens; if nil, any may follow.
	Allow *runtimes.Grammar `json:"allow,omitempty"`
	// Grammar restricts the whole answer; if nil, any text may follow.
	Grammar *grammar.Grammar `json:"-"`
	// OrCalls allows calls of the request's tools instead of a text of the grammar.
	OrCalls bool `json:"-"`
}

// Check reports invalid preferences.
func (p Preferences) Check() error {
	if p.MaxTokens < 0 {
		return fmt.Errorf("max tokens: got %d, want 0 or more", p.MaxTokens)
	}
	if p.BudgetMS < 0 {
		return fmt.Errorf("budget: got %d ms, want 0 or more", p.BudgetMS)
	}
	for _, s := range p.Stop {
		if s == "" {
			return fmt.Errorf("empty stop string")
		}
	}
	return p.Options.Check()
}

// messages returns the turns of a request.
func (r Request) messages() []talk.Message {
	if r.Messages != nil {
		return r.Messages
	}
	return []talk.Message{{Role: talk.User, Parts: r.Inputs}}
}

// parts returns all inputs of a request.
func (r Request) parts() []talk.Part {
	var out []talk.Part
	for _, m := range r.messages() {
		out = append(out, m.Parts...)
	}
	return out
}

// The reasons why an answer ends, in addition to those of an engine.
const (
	StopWord   runtimes.Stop = "stop"      // one of the stop strings
	StopCall   runtimes.Stop = "tool_call" // the model calls a tool
	StopBudget runtimes.Stop = "budget"    // the request's time budget is spent

	StopRepetition runtimes.Stop = "repetition" // the text repeats itself ([Preferences.EndLoops])
)

// Answer is the result of a request.
type Answer struct {
	Text     string
	Withheld string // the text of the model; Text is [CannotTell]
	// Confidence is the probability that the model's text about inputs is right; nil:
	// the projectors have none for this build.
	Confidence *float64
	Reasoning  string
	Called     []CallRecord // the performed calls, in order
	Calls      []talk.Call  // calls left for the caller to perform
	Tokens     []int32
	Stop       runtimes.Stop
	StopText   string // the stop string of [StopWord]
	Timings    Timings
	Backends   []Backend // of the parts used, the core first
	Made       []Made    // by decoders, in the order of the request
	Assumed    []string  // assumptions about encoders, absent in their manifests
	Trace      []part.Step
	Context    []part.Position // of the core, if requested
	Unheld     string          // why calls were not constrained by a grammar; "": they were, or there are none

	turns []talk.Message // before the final text: calls and their answers
	// Bytes of Text and of Reasoning that are in the turns.
	textUsed, thoughtUsed int
}

// Backend is a part and the engine that ran it.
type Backend struct {
	Part   string `json:"part"`
	Engine string `json:"backend"` // as results show it
	// Simulated is set if the engine emulates hardware.
	Simulated bool `json:"simulated,omitempty"`
	// Facts are reported by the core's backend: chip, SDK, digest.
	Facts map[string]string `json:"facts,omitempty"`
}

func backendOf(part string, e runtimes.Engine) Backend {
	return Backend{Part: part, Engine: runtimes.Shown(e), Simulated: runtimes.Simulates(e)}
}

// Messages returns the answer as turns: those of calls and their answers, then the final
// text.
func (a *Answer) Messages() []talk.Message { return append(slices.Clone(a.turns), a.Message()) }

// Append adds the turns of calls and their answers, which are before the final text.
func (a *Answer) Append(turns ...talk.Message) { a.turns = append(a.turns, turns...) }

// Used sets the bytes of Text and of Reasoning that are in the appended turns.
func (a *Answer) Used(text, reasoning int) { a.textUsed, a.thoughtUsed = text, reasoning }

// Message returns the last turn of the answer.
func (a *Answer) Message() talk.Message {
	m := talk.Message{Role: talk.Assistant, Reasoning: a.Reasoning[a.thoughtUsed:]}
	if text := a.Text[a.textUsed:]; text != "" {
		m.Parts = []talk.Part{{Type: abi.Text, Text: text}}
	}
	for _, c := range a.Calls {
		if c.Fault == "" {
			m.Calls = append(m.Calls, c)
		}
	}
	return m
}

// Timings are the times and counts of an answer.
type Timings struct {
	Load       time.Duration // opening the model, in the first answer only
	FirstToken time.Duration // from the first Feed to the first token
	Prompt     int           // positions of the prompt
	Reused     int           // those of the prompt that were cached in a sequence
	Generated  int           // tokens
	Reasoned   int           // those of reasoning
	Generate   time.Duration // from the first token to the last
}

// PerSecond returns the generation speed in tokens per second, without the first token.
func (t Timings) PerSecond() float64 {
	if t.Generated < 2 || t.Generate <= 0 {
		return 0
	}
	return float64(t.Generated-1) / t.Generate.Seconds()
}

// able reports what the request needs and this build or this mm lacks.
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
		return &runtimes.Unavailable{What: tool, Why: "the skills of the build do not run here", Hint: "leave tools_allowed out"}
	}
	return nil
}

// continuedTokens limits a continued text without a limit.
const continuedTokens = 256

// ContinueText sets the defaults for a base model, which seldom ends a text itself and
// repeats itself if it always takes the most probable token. The values of sampling are
// llama.cpp's. It describes the limit that it set.
func (p *Preferences) ContinueText(sampling bool) (limit string) {
	if p.EndLoops = true; p.MaxTokens == 0 {
		p.MaxTokens, limit = continuedTokens, fmt.Sprintf(" by at most %d tokens (--max-tokens)", continuedTokens)
	}
	if sampling {
		p.Temperature, p.TopK, p.TopP, p.MinP = 0.8, 40, 0.95, 0.05
	}
	return limit
}

// Explain converts an error of a runner to a diagnostic.
func Explain(err error) error {
	if !errors.Is(err, runtimes.ErrFull) {
		return err
	}
	var list diag.List
	list.Add(diag.PromptTooLong, diag.Pos{}, err.Error(), "shorten the prompt")
	return list.Err()
}

// CheckBudget reports that an answer stopped at its budget in milliseconds.
func (a *Answer) CheckBudget(ms int64) error {
	if a.Stop != StopBudget {
		return nil
	}
	var list diag.List
	list.Add(diag.BudgetMissed, diag.Pos{}, fmt.Sprintf("%d tokens in %d ms", a.Timings.Generated, ms), "raise budget_ms, or request fewer tokens")
	return list.Err()
}
