// Package grammar holds what a model writes to a grammar: JSON that a schema
// accepts, or a call of one of several tools.
//
//	g, err := grammar.New(schema, grammar.Options{}) // faults: *schema.Error
//	m, err := g.Over(grammar.Read(tokenizer), ends)
//	for s := m.Start(); !done; {
//		allowed := m.Mask(s)   // a bit for each token that may follow
//		…                      // choose one of them
//		s, ok = m.Next(s, token)
//	}
//
// Package schema makes a grammar of bytes of a schema, package automaton runs
// it, and [Masks] looks at it through the tokens of a vocabulary. No state is a
// dead end: every place of the automaton has a way to its end, byte by byte,
// and a vocabulary must have a token for each byte that the grammar needs, or
// Over is an error. Tokens that end a text are allowed where the grammar may
// end and nowhere else; control tokens are never allowed.
//
// A mask is made when its state is first met, by a walk over the tokens as tries
// that stops where the grammar stops, and kept. Within strings nearly all tokens
// are allowed, and walking over them would take milliseconds: they are sorted by
// their number of characters beforehand, and the walk is over the few that hold
// quotes, backslashes, control characters or parts of characters. In other places
// a branch is taken as a whole where any bytes of its kinds may follow. A walk
// begins at a blurred state, of which there are few (see [automaton.Machine.Blur]).
package grammar

import (
	"errors"

	"mm-abi.org/mm/core/grammar/automaton"
	"mm-abi.org/mm/core/grammar/schema"
)

// Options say which texts of a schema are in the grammar; the zero value is
// compact JSON.
type Options = schema.Options

// Grammar is a set of texts. It is immutable and safe for concurrent use.
type Grammar struct{ program *automaton.Program }

// New is the grammar of a JSON Schema's values. What the subset does not know
// is an error that tells all of it, a [schema.Error].
func New(data []byte, opt Options) (*Grammar, error) {
	return compiled(schema.Compile([]schema.Document{{Schema: data}}, opt))
}

func compiled(p *automaton.Program, err error) (*Grammar, error) {
	if err != nil {
		return nil, err
	}
	return &Grammar{p}, nil
}

// Tool is what a model may call.
type Tool struct {
	Name      string
	Arguments []byte // JSON Schema of the arguments, which are an object
}

// Call is how a call is written: an object of two members, the tool's name and
// its arguments.
type Call struct {
	Name, Arguments string // the keys
	Before, After   string // the text around the object
}

// MMABI is MM-ABI's: {"tool": …, "args": {…}}.
func MMABI() Call { return Call{Name: "tool", Arguments: "args"} }

// Hermes is that of Hermes, Qwen2.5 and Qwen3: {"name": …, "arguments": {…}}
// on a line of its own.
func Hermes() Call { return Call{Name: "name", Arguments: "arguments", Before: "\n", After: "\n"} }

// NewCall is the grammar of a call of one of the tools, with arguments that its
// schema accepts. The name comes first: with it the schema is chosen.
func NewCall(tools []Tool, call Call, opt Options) (*Grammar, error) {
	if len(tools) == 0 {
		return nil, errors.New("no tool may be called")
	}
	comma, colon := ",", ":"
	if opt.Space == schema.OneSpace {
		comma, colon = ", ", ": "
	}
	var docs []schema.Document
	for _, t := range tools {
		docs = append(docs, schema.Document{
			Name: t.Name, Schema: t.Arguments, Object: true, After: "}" + call.After,
			Before: call.Before + "{" + schema.Quote(call.Name) + colon + schema.Quote(t.Name) + comma + schema.Quote(call.Arguments) + colon,
		})
	}
	return compiled(schema.Compile(docs, opt))
}

// Holds reports whether a text is in the grammar.
func (g *Grammar) Holds(text string) bool {
	m := g.program.Run()
	s := m.Start()
	for i := range len(text) {
		if s = m.Step(s, text[i]); s == nil {
			return false
		}
	}
	return s.Accepts()
}

// Size is the number of nodes of the automaton.
func (g *Grammar) Size() int { return g.program.Size() }
