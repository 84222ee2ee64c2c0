// Package talk converts between conversations and token ids: tokenizer, chat
// template and tool calls, written once for all engines.
//
// [Talk.Render] turns a conversation into the pieces that a sequence reads: ids, and
// placeholders for the vectors of images, sounds and videos. [Talk.Reader] turns ids
// into complete characters of text, reasoning, and tool calls. It recognizes calls
// by the ids of their markers, never by their spelling.
//
// Untrusted text (words, names, arguments, results) stays text whatever it spells:
// neither alone nor together with its neighbors can it produce a control token of
// the vocabulary or a marker of the dialect. Only the template can. A model without a
// template reads the words unchanged.
package talk

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
)

// Role is the author of a turn.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role      Role   `json:"role"`
	Parts     []Part `json:"parts,omitempty"`
	Reasoning string `json:"reasoning,omitempty"` // reasoning before an assistant's answer
	Calls     []Call `json:"calls,omitempty"`     // calls of an assistant
	Name      string `json:"name,omitempty"`      // of the tool whose result this is
	CallID    string `json:"call_id,omitempty"`   // of the call that it answers
}

// Text returns a turn of one text.
func Text(role Role, text string) Message {
	return Message{Role: role, Parts: []Part{{Type: abi.Text, Text: text}}}
}

// Part is text, or an image, a sound or a video, by path or by the bytes of a file.
type Part struct {
	Type abi.Modality `json:"type"`
	Text string       `json:"text,omitempty"`
	Path string       `json:"path,omitempty"`
	Data []byte       `json:"data,omitempty"` // base64 in JSON
}

// Definition describes a tool to the model.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema
}

// Piece is a span of ids, or a placeholder for the vectors of a part: for run Run
// of Runs equal runs, between which there may be text.
type Piece struct {
	Tokens    []int32
	Part      *Part
	Run, Runs int
}

// Prompt is the input of a sequence for a conversation.
type Prompt struct {
	Pieces   []Piece
	Thinking bool // the template has opened the model's reasoning
	Begins   bool // the prompt is empty: the answer starts a text
}

// Options configures a Talk.
type Options struct {
	Template string  // Jinja; "": the model was trained on plain text
	Dialect  Dialect // the zero value is [MMABI]

	// Marker is the text of the template for an image, a sound or a video; if
	// empty, the template is given their placeholders as text.
	Marker map[abi.Modality]string
	// Layout returns the texts before, between and after the runs of a part's
	// vectors: one more than runs, of which there is at least one. If nil, or for
	// nil texts, it is one run between the markers of the modality, if the
	// vocabulary has them.
	Layout func(p *Part) ([]string, error)
	// Now returns the time of strftime_now in the template; if nil, the function
	// is undefined.
	Now func() time.Time
	// Special reads the control tokens that a text spells, without a
	// template: the whole prompt is then trusted.
	Special bool
}

// Talk combines a tokenizer with a template and a dialect. It is immutable and safe
// for concurrent use.
type Talk struct {
	tok      *tokenizer.Tokenizer
	source   string
	template *chat.Template // nil: none
	dialect  Dialect
	marker   map[abi.Modality]string
	layout   func(p *Part) ([]string, error)
	now      func() time.Time
	special  bool

	open, close       int32 // of a tool call; None: the vocabulary has no marker
	thinking, thought int32 // around reasoning
	thinkMark         string
	tags              [2]string // around reasoning that is text: the vocabulary has no tokens for it
	reasoning         func() Reasoning
	heads             func() bool
	vars              map[string]any // of the template
	goesOn            bool           // the answer goes on with the last turn
	args, callID      int32          // within a call; None: text, or the form has none
	// Harmony's tokens: before a role, before the name of a channel, before its
	// content. None if the vocabulary lacks one.
	start, channel, content int32
	takes                   abilities
	ends                    []int32
	guard                   guard
}

// thinkMarks are the markers around reasoning in vocabularies that have them: of most
// families, and of Magistral and Ministral 3.
var thinkMarks = [][2]string{{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}}

// analysis is the channel of harmony that holds reasoning.
const analysis = "analysis"

// New returns a Talk and parses the template.
func New(tok *tokenizer.Tokenizer, opt Options) (*Talk, error) {
	if opt.Dialect == (Dialect{}) {
		opt.Dialect = MMABI()
	}
	t := &Talk{tok: tok, source: opt.Template, dialect: opt.Dialect, marker: opt.Marker, layout: opt.Layout, now: opt.Now, special: opt.Special && opt.Template == ""}
	if opt.Template != "" {
		var err error
		if t.template, err = chat.Parse(opt.Template); err != nil {
			return nil, fmt.Errorf("parsing the chat template: %w", err)
		}
	}
	if opt.Dialect.Guided {
		t.open, t.close = t.single(opt.Dialect.Open), t.single(opt.Dialect.Close)
		t.takes = t.probe()
	} else {
		t.open, t.close = t.pair(opt.Dialect.Open, opt.Dialect.Close)
	}
	for _, m := range thinkMarks {
		if t.thinking, t.thought = t.pair(m[0], m[1]); t.thinking != tokenizer.None {
			t.thinkMark = m[0]
			break
		}
		if t.thinkMark == "" && strings.Contains(opt.Template, m[1]) {
			t.thinkMark, t.tags = m[0], m
		}
	}
	if t.thinking != tokenizer.None {
		t.tags = [2]string{}
	}
	t.args, t.callID = tokenizer.None, tokenizer.None
	if opt.Dialect.Form == chat.Named {
		t.args, t.callID = t.single(chat.Args), t.single(chat.CallID)
	}
	t.start, t.channel, t.content = t.harmony()
	var guarded []string
	for id := range int32(tok.Size()) {
		if tok.Ends(id) {
			t.ends = append(t.ends, id)
		}
		switch tok.Type(id) {
		case tokenizer.Control, tokenizer.Unknown:
			guarded = append(guarded, tok.Piece(id))
		case tokenizer.UserDefined:
			if id == t.open || id == t.close || id == t.thinking || id == t.thought || slices.Contains(opt.Dialect.Guarded(), tok.Piece(id)) {
				guarded = append(guarded, tok.Piece(id))
			}
		}
	}
	for _, m := range slices.Sorted(maps.Values(opt.Marker)) {
		if m != "" && !slices.Contains(guarded, m) {
			guarded = append(guarded, m)
		}
	}
	if t.tags[0] != "" {
		guarded = append(guarded, t.tags[0])
	}
	t.guard = newGuard(guarded)
	t.reasoning, t.heads = sync.OnceValue(t.probeReasoning), sync.OnceValue(t.probeHeads)
	return t, nil
}

// thinks reports whether a rendered conversation ends within reasoning.
func (t *Talk) thinks(text string) bool {
	return t.thinkMark != "" && strings.HasSuffix(strings.TrimRight(text, " \n"), t.thinkMark)
}

// pair returns the ids of two markers, or None for both if one is missing or can
// result from merging text.
func (t *Talk) pair(open, closing string) (int32, int32) {
	a, b := t.single(open), t.single(closing)
	if a == tokenizer.None || b == tokenizer.None {
		return tokenizer.None, tokenizer.None
	}
	return a, b
}

// harmony returns the tokens of messages with channels, or None for all.
func (t *Talk) harmony() (start, channel, content int32) {
	start, channel, content = t.single("<|start|>"), t.single("<|channel|>"), t.single("<|message|>")
	if start == tokenizer.None || channel == tokenizer.None || content == tokenizer.None {
		return tokenizer.None, tokenizer.None, tokenizer.None
	}
	return start, channel, content
}

// single returns the id of a marker, or None if the vocabulary lacks it, or if it can result
// from merging text.
func (t *Talk) single(marker string) int32 {
	if !t.tok.Marks(marker) {
		return tokenizer.None
	}
	return t.tok.ID(marker)
}

// Chats reports whether the model has a chat template.
func (t *Talk) Chats() bool { return t.template != nil }

// StopIDs returns the tokens that end an answer: those that end a turn, and the one
// that closes a tool call.
func (t *Talk) StopIDs() []int32 {
	if t.close == tokenizer.None || slices.Contains(t.ends, t.close) {
		return slices.Clone(t.ends)
	}
	return append(slices.Clone(t.ends), t.close)
}

// Ends returns the tokens that end a turn.
func (t *Talk) Ends() []int32 { return slices.Clone(t.ends) }

// Markers returns the tokens around a call, None for those that the vocabulary
// lacks, and whether both are tokens.
func (t *Talk) Markers() (open, closing int32, ok bool) {
	return t.open, t.close, t.open != tokenizer.None && t.close != tokenizer.None
}

// Within returns the tokens before the arguments of a call and before its id, in the
// dialect of names, None for those that the vocabulary lacks.
func (t *Talk) Within() (args, callID int32) { return t.args, t.callID }

// Calls reports whether the model can call tools: its vocabulary has the markers, or
// its calls are text.
func (t *Talk) Calls() bool { return t.open != tokenizer.None || t.dialect.Guided }

// Reasoning returns the tokens around reasoning, or None for both.
func (t *Talk) Reasoning() (open, closing int32) { return t.thinking, t.thought }

// Dialect returns the dialect of the model's calls.
func (t *Talk) Dialect() Dialect { return t.dialect }

// Tokenizer returns the model's tokenizer.
func (t *Talk) Tokenizer() *tokenizer.Tokenizer { return t.tok }

// Plain returns text for a model without a template: after BOS, if the model needs
// it, and without control tokens unless they are allowed.
func (t *Talk) Plain(text string) Prompt {
	opt := tokenizer.Options{Special: t.special}
	if !t.special {
		opt.Literal = t.guard.literal(text)
	}
	ids := t.begin(t.tok.Encode(text, opt))
	if len(ids) == 0 {
		return Prompt{Begins: true}
	}
	return Prompt{Pieces: []Piece{{Tokens: ids}}, Begins: text == ""}
}

// Render returns the prompt of a conversation. Without a template the turns follow
// each other unchanged, each on a line except those of the model.
func (t *Talk) Render(messages []Message, tools []Definition) (Prompt, error) {
	if len(messages) == 0 {
		return Prompt{}, errors.New("empty conversation")
	}
	if err := Check(messages); err != nil {
		return Prompt{}, err
	}
	d, err := t.newDraft(words(messages, tools))
	if err != nil {
		return Prompt{}, err
	}
	text, err := d.text(messages, tools)
	if err != nil {
		return Prompt{}, err
	}
	p := Prompt{Pieces: d.pieces(text)}
	p.Thinking = t.thinks(text)
	return p, nil
}

// text renders a conversation, with marks.
func (d *draft) text(messages []Message, tools []Definition) (string, error) {
	switch {
	case d.dialect.Guided:
		messages = d.guide(messages, tools)
	case d.dialect.Form == chat.Channel:
		messages = splitCalls(messages)
	}
	if d.template == nil {
		return d.lines(messages)
	}
	return d.templated(messages, tools)
}

// Check reports turns that are not safe to pass to a template.
func Check(messages []Message) error {
	for i, m := range messages {
		switch m.Role {
		case System, User, Assistant, Tool:
		default:
			return fmt.Errorf("turn %d: unknown role %.40q: want system, user, assistant or tool", i+1, m.Role)
		}
		for _, p := range m.Parts {
			if _, media := abi.DefaultCaps(p.Type); !media && p.Type != abi.Text && p.Type != "" {
				return fmt.Errorf("turn %d: unknown part type %.40q", i+1, p.Type)
			}
		}
		for _, c := range m.Calls {
			if len(c.Arguments) > 0 && !json.Valid(c.Arguments) {
				return fmt.Errorf("turn %d: arguments of %.40q are not JSON", i+1, c.Name)
			}
		}
	}
	return nil
}

// HasText reports whether there is a text among the parts.
func HasText(parts []Part) bool {
	return slices.ContainsFunc(parts, func(p Part) bool { return p.Type == abi.Text || p.Type == "" })
}
