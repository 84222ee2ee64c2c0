package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/talk"
)

// Report is an answer as mm run prints it.
type Report struct {
	Text       string       `json:"text"`
	Confidence *float64     `json:"confidence,omitempty"`
	Withheld   string       `json:"withheld,omitempty"`
	Reasoning  string       `json:"reasoning,omitempty"`
	Called     []CallReport `json:"called,omitempty"` // completed tool calls
	Calls      []talk.Call  `json:"calls,omitempty"`  // tool calls that were not executed
	Tokens     []int32      `json:"tokens"`
	Stop       string       `json:"stop"`
	Timings    struct {
		LoadMS       float64 `json:"load_ms"`
		FirstTokenMS float64 `json:"first_token_ms"`
		PromptTokens int     `json:"prompt_tokens"`
		CachedTokens int     `json:"cached_tokens"` // of them, not computed
		Generated    int     `json:"generated"`
		PerSecond    float64 `json:"tokens_per_second"`
	} `json:"timings"`
	Backend  string            `json:"backend"`  // of the core
	Backends []Backend         `json:"backends"` // of every part that was needed
	Made     []MadeFile        `json:"made,omitempty"`
	Assumed  []string          `json:"assumed,omitempty"`
	Trace    []part.StepReport `json:"trace,omitempty"`
	Context  []part.Position   `json:"context,omitempty"`
	Unheld   string            `json:"unheld,omitempty"` // why no grammar constrained the tool calls
}

// Report converts an answer of r. Made and Trace are left empty.
func (r *Runner) Report(a *Answer) Report {
	out := Report{
		Text: a.Text, Confidence: a.Confidence, Withheld: a.Withheld, Reasoning: a.Reasoning, Called: callReports(a.Called), Calls: a.Calls, Tokens: append([]int32{}, a.Tokens...), Stop: string(a.Stop),
		Backend: runtimes.Shown(r.Engine()), Backends: a.Backends, Assumed: a.Assumed, Context: a.Context, Unheld: a.Unheld,
	}
	t := a.Timings
	out.Timings.LoadMS, out.Timings.FirstTokenMS = milliseconds(t.Load), milliseconds(t.FirstToken)
	out.Timings.PromptTokens, out.Timings.CachedTokens = t.Prompt, t.Reused
	out.Timings.Generated, out.Timings.PerSecond = t.Generated, t.PerSecond()
	return out
}

// Summary describes the tokens, the times and the engines of an answer in a line.
func (a *Answer) Summary() string {
	t := a.Timings
	engines := make([]string, len(a.Backends))
	for i, b := range a.Backends {
		engines[i] = b.Part + " on " + b.Engine
	}
	times := fmt.Sprintf("load %.0f ms", milliseconds(t.Load))
	if t.FirstToken > 0 { // a drawing has no tokens
		times += fmt.Sprintf(", first token %.1f ms", milliseconds(t.FirstToken))
	}
	if speed := t.PerSecond(); speed > 0 {
		times += fmt.Sprintf(", %.1f tok/s", speed)
	}
	return fmt.Sprintf("%d prompt + %d generated tokens (%s); %s; %s", t.Prompt, t.Generated, a.Stop, times, strings.Join(engines, ", "))
}

// MadeFile is an image or a sound of a decoder that was written to a file.
type MadeFile struct {
	Type    string `json:"type"`
	Part    string `json:"part"`
	Backend string `json:"backend"`
	// Simulated is set if the backend emulates hardware.
	Simulated bool    `json:"simulated,omitempty"`
	Output    string  `json:"output"`
	DType     string  `json:"dtype"`
	Shape     []int64 `json:"shape"`
	Rate      int     `json:"sample_rate,omitempty"`
	Blank     bool    `json:"blank,omitempty"`
	File      string  `json:"file"`
	Bytes     int     `json:"bytes"`
	Digest    string  `json:"digest"`
}

// String describes the file in a line.
func (f MadeFile) String() string {
	return fmt.Sprintf("%s by %s in %s: %s %v, %d bytes, %s", f.Type, f.Part, f.File, f.DType, f.Shape, f.Bytes, diag.Short(f.Digest))
}

// WriteMade writes the results of decoders to the files of their modalities.
func WriteMade(files map[abi.Modality]string, all []Made) ([]MadeFile, error) {
	var out []MadeFile
	for _, m := range all {
		path := files[m.Modality]
		if err := fsx.Replace(path, 0o644, func(to io.Writer) error { _, err := to.Write(m.Data); return err }); err != nil {
			return out, err
		}
		sum := sha256.Sum256(m.Data)
		out = append(out, MadeFile{
			Type: string(m.Modality), Part: m.Part.Name, Backend: m.Backend, Simulated: m.Simulated, Output: m.Output, DType: string(m.Tensor.Type), Shape: append([]int64{}, m.Tensor.Shape...),
			Rate: m.Rate, Blank: m.Blank, File: path, Bytes: len(m.Data), Digest: "sha256:" + hex.EncodeToString(sum[:]),
		})
	}
	return out, nil
}

// maxRef is the largest reference in an audit entry, in bytes: the name of an
// unknown tool is text of the model, and lines of the log are bounded.
const maxRef = 128

// AuditEntry returns the call as an entry of the audit log: the skill, its limits
// and permissions, and hashes of the arguments and the result instead of their text.
func (c CallRecord) AuditEntry() audit.Entry {
	e := audit.Entry{
		Action: "call", Ref: strings.ToValidUTF8(c.Call.Name[:min(len(c.Call.Name), maxRef)], ""), Digest: c.Skill.Digest, Result: c.Answer.Kind(),
		Args: c.Answer.Args, Answer: c.Answer.Result,
	}
	if c.Skill.Name != "" {
		e.Ref = c.Skill.Name + "@" + c.Skill.Version
		e.Limits, e.Allow = c.Skill.Limits.String(), c.Skill.Allow.String()
	}
	return e
}

// CallReport is a tool call as mm run prints it.
type CallReport struct {
	CallRecord
	Version  string  `json:"version,omitempty"`
	Digest   string  `json:"digest,omitempty"`
	Engine   string  `json:"engine,omitempty"`
	By       string  `json:"by,omitempty"` // the substitute for the engine, and why
	Limits   string  `json:"limits,omitempty"`
	Outcome  string  `json:"outcome"`
	Args     string  `json:"args_sha256"`
	Result   string  `json:"result_sha256"`
	Log      string  `json:"log,omitempty"` // written by the guest
	TookMS   float64 `json:"took_ms"`
	GuestMS  float64 `json:"guest_ms"`
	PeakByte int64   `json:"memory_bytes,omitempty"`
}

func callReports(list []CallRecord) (out []CallReport) {
	for _, c := range list {
		r := CallReport{
			CallRecord: c, Version: c.Skill.Version, Digest: c.Skill.Digest, Engine: c.Skill.Engine, Outcome: c.Answer.Kind(),
			Args: c.Answer.Args, Result: c.Answer.Result, Log: strings.ToValidUTF8(string(c.Answer.Log), "\uFFFD"),
			TookMS: milliseconds(c.Took), GuestMS: milliseconds(c.Answer.Usage.Time), PeakByte: c.Answer.Usage.Memory, By: c.Answer.Usage.By,
		}
		if c.Skill.Name != "" {
			r.Limits = c.Skill.Limits.String()
		}
		out = append(out, r)
	}
	return out
}

// CallLines describes the tool calls of an answer, one a line: those that were
// executed, why the model stopped, and those that were not executed.
func (a *Answer) CallLines() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, c := range a.Called {
		name, args := c.Call.Name, string(c.Call.Arguments)
		if c.Call.Fault != "" {
			name, args = "no tool", c.Call.Block
		}
		add("%s %s → %s (%.1f ms)", name, args, c.Line, milliseconds(c.Took))
		if by := c.Answer.Usage.By; by != "" {
			add("%s was run by %s", name, by)
		}
	}
	if a.Unheld != "" {
		add("tool calls were checked only after generation: %s", a.Unheld)
	}
	switch a.Stop {
	case StopRounds:
		add("stopped: the model exceeded the limit of %d tool calls", len(a.Called))
	case StopLoop:
		add("stopped: the model repeats the same tool call")
	}
	for _, c := range a.Calls {
		if c.Fault != "" {
			add("malformed tool call: %s: %q", c.Fault, c.Block)
			continue
		}
		add("the model calls %s %s", c.Name, c.Arguments)
	}
	return lines
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
