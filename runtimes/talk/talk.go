// Package talk stands between what people say and the ids that engines know:
// tokenizer, chat template and tool calls, written once for all engines.
//
// [Talk.Render] makes a conversation the pieces that a sequence is fed: ids,
// and holes where an image, a sound or a film comes as vectors.
// [Talk.Reader] goes the other way: ids become text whose characters are
// never cut, reasoning, and tool calls, which are found by the ids of their
// markers and never by their spelling.
//
// What comes from outside (words, names, arguments, results) is text and stays
// text, whatever it spells: no control token of the vocabulary and no marker
// of the dialect can be made by it, alone or together with its neighbours.
// Only the template writes them. A model without a template reads the words as
// they are.
package talk

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
)

// Role is who speaks.
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
	Reasoning string `json:"reasoning,omitempty"` // the thought before an assistant's answer
	Calls     []Call `json:"calls,omitempty"`     // what an assistant called
	Name      string `json:"name,omitempty"`      // of the tool whose result this is
	CallID    string `json:"call_id,omitempty"`   // of the call that it answers
}

// Text is a turn of nothing but words.
func Text(role Role, text string) Message {
	return Message{Role: role, Parts: []Part{{Type: abi.Text, Text: text}}}
}

// Part is text, or an image, a sound or a film: a file by its path, or a file's
// bytes.
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

// Piece is ids, or the hole that a part's vectors fill.
type Piece struct {
	Tokens []int32
	Part   *Part
}

// Prompt is a conversation as a sequence is fed it.
type Prompt struct {
	Pieces   []Piece
	Thinking bool // the template has begun the model's reasoning
	Begins   bool // nothing is said yet: the answer is the beginning of a text
}

// Options is how a model talks besides its tokenizer.
type Options struct {
	Template string  // Jinja; "": the model was trained on plain text
	Dialect  Dialect // the zero value is [MMABI]
}

// Talk is a tokenizer with its template and dialect. It is immutable and safe
// for concurrent use.
type Talk struct {
	tok      *tokenizer.Tokenizer
	source   string
	template *chat.Template // nil: none
	dialect  Dialect

	open, close       int32 // of a tool call; None: the vocabulary has no marker
	thinking, thought int32 // around reasoning
	ends              []int32
	guard             guard
}

// The markers of reasoning, where a vocabulary has them.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// New makes a Talk; the template is parsed here, once.
func New(tok *tokenizer.Tokenizer, opt Options) (*Talk, error) {
	if opt.Dialect == (Dialect{}) {
		opt.Dialect = MMABI()
	}
	t := &Talk{tok: tok, source: opt.Template, dialect: opt.Dialect}
	if opt.Template != "" {
		var err error
		if t.template, err = chat.Parse(opt.Template); err != nil {
			return nil, fmt.Errorf("reading the model's way to talk: %w", err)
		}
	}
	t.open, t.close = t.pair(opt.Dialect.Open, opt.Dialect.Close)
	t.thinking, t.thought = t.pair(thinkOpen, thinkClose)
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
	t.guard = newGuard(guarded)
	return t, nil
}

// pair is the ids of two markers; None for both when one is missing or can be
// written by merging text.
func (t *Talk) pair(open, closing string) (int32, int32) {
	a, b := t.tok.ID(open), t.tok.ID(closing)
	whole := func(id int32) bool {
		typ := t.tok.Type(id)
		return typ == tokenizer.Control || typ == tokenizer.UserDefined
	}
	if a == tokenizer.None || b == tokenizer.None || !whole(a) || !whole(b) {
		return tokenizer.None, tokenizer.None
	}
	return a, b
}

// Chats reports whether the model was trained on conversations.
func (t *Talk) Chats() bool { return t.template != nil }

// StopIDs are the tokens that end an answer: those that end a turn, and the
// one that closes a tool call.
func (t *Talk) StopIDs() []int32 {
	if t.close == tokenizer.None || slices.Contains(t.ends, t.close) {
		return slices.Clone(t.ends)
	}
	return append(slices.Clone(t.ends), t.close)
}

// Ends are the tokens that end a turn.
func (t *Talk) Ends() []int32 { return slices.Clone(t.ends) }

// Markers are the tokens around a call; false where the vocabulary has none.
func (t *Talk) Markers() (open, closing int32, ok bool) {
	return t.open, t.close, t.open != tokenizer.None
}

// Dialect is how the model writes a call.
func (t *Talk) Dialect() Dialect { return t.dialect }

// Tokenizer is the model's.
func (t *Talk) Tokenizer() *tokenizer.Tokenizer { return t.tok }

// Plain is text as a model without a template reads it: behind BOS, where the
// model wants one, and with no control token in it.
func (t *Talk) Plain(text string) Prompt {
	ids := t.begin(t.tok.Encode(text, tokenizer.Options{Literal: t.guard.literal(text)}))
	if len(ids) == 0 {
		return Prompt{Begins: true}
	}
	return Prompt{Pieces: []Piece{{Tokens: ids}}, Begins: text == ""}
}

// Render makes a conversation what the model reads before it answers. Without
// a template the turns follow each other as they are, a line for each but what
// the model said itself.
func (t *Talk) Render(messages []Message, tools []Definition) (Prompt, error) {
	if len(messages) == 0 {
		return Prompt{}, errors.New("a conversation of no turns")
	}
	if err := Check(messages); err != nil {
		return Prompt{}, err
	}
	d, err := t.newDraft(words(messages, tools))
	if err != nil {
		return Prompt{}, err
	}
	text := ""
	if t.template == nil {
		text = d.lines(messages)
	} else if text, err = d.templated(messages, tools); err != nil {
		return Prompt{}, err
	}
	p := Prompt{Pieces: d.pieces(text)}
	p.Thinking = t.thinking != tokenizer.None && strings.HasSuffix(strings.TrimRight(text, " \n"), thinkOpen)
	return p, nil
}

// Check reports turns that no template can be trusted with.
func Check(messages []Message) error {
	for i, m := range messages {
		switch m.Role {
		case System, User, Assistant, Tool:
		default:
			return fmt.Errorf("turn %d is of %.40q: roles are system, user, assistant and tool", i+1, m.Role)
		}
		for _, p := range m.Parts {
			if _, media := abi.DefaultCaps(p.Type); !media && p.Type != abi.Text && p.Type != "" {
				return fmt.Errorf("turn %d has a part of type %.40q", i+1, p.Type)
			}
		}
		for _, c := range m.Calls {
			if len(c.Arguments) > 0 && !json.Valid(c.Arguments) {
				return fmt.Errorf("turn %d calls %.40q with arguments that are no JSON", i+1, c.Name)
			}
		}
	}
	return nil
}
