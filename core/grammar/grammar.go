// Package grammar constrains the output of a model to a grammar: JSON that a
// schema
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
// Package schema compiles a schema to a grammar of bytes, package automaton runs
// it, and [Masks] maps it to the tokens of a vocabulary. No state is a dead end:
// every state of the automaton has a path to its end, byte by byte, and Over fails
// unless the vocabulary has a token for each byte that the grammar needs. Tokens
// that end a text are allowed only where the grammar may end; control tokens are
// never allowed.
//
// A mask is computed at the first visit of its state and cached, by a walk over the
// tokens as tries that stops where the grammar stops. Within strings nearly all
// tokens are allowed, and walking over them would take milliseconds: they are
// sorted by their number of characters in advance, and the walk covers the few with
// quotes, backslashes, control characters or parts of characters. Elsewhere a
// branch is accepted at once if any bytes of its kinds may follow. A walk begins at
// a blurred state, of which there are few (see [automaton.Machine.Blur]).
package grammar

import (
	"errors"
	"fmt"
	"strings"

	"mm-abi.org/mm/core/grammar/automaton"
	"mm-abi.org/mm/core/grammar/schema"
)

// Options select the texts of a schema in the grammar; the zero value is
// compact JSON.
type Options = schema.Options

// Grammar is a set of texts. It is immutable and safe for concurrent use.
type Grammar struct{ program *automaton.Program }

// New compiles a JSON Schema to the grammar of its values. For an unsupported
// schema the error is a [schema.Error] with all faults.
func New(data []byte, opt Options) (*Grammar, error) {
	return newGrammarOf(schema.Compile([]schema.Document{{Schema: data}}, opt))
}

func newGrammarOf(p *automaton.Program, err error) (*Grammar, error) {
	if err != nil {
		return nil, err
	}
	return &Grammar{p}, nil
}

// Tool is a tool that a model may call.
type Tool struct {
	Name      string
	Arguments []byte // JSON Schema of the arguments, an object
}

// Call is the format of a call: an object with two members, the tool's name and
// its arguments.
type Call struct {
	Name, Arguments string // the keys
	Before, After   string // text around the object
}

// Hermes is the format of Hermes, Qwen2.5 and Qwen3: {"name": …, "arguments":
// {…}} on a separate line.
func Hermes() Call { return Call{Name: "name", Arguments: "arguments", Before: "\n", After: "\n"} }

// NewCall returns the grammar of a call of one of the tools, with arguments
// that its schema accepts. The name comes first, to select the schema.
func NewCall(tools []Tool, call Call, opt Options) (*Grammar, error) {
	if len(tools) == 0 {
		return nil, errors.New("no tools")
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
	return newGrammarOf(schema.Compile(docs, opt))
}

// NewCalls returns the grammar of a list of 1 to most calls, or of one call without a
// list if most is 0. White space within them is that of the options.
func NewCalls(tools []Tool, call Call, most int, opt Options) (*Grammar, error) {
	if len(tools) == 0 {
		return nil, errors.New("no tools")
	}
	var items []string
	for _, t := range tools {
		items = append(items, fmt.Sprintf(`{"type":"object","properties":{%s:{"const":%s},%s:%s},"required":[%[1]s,%[3]s],"additionalProperties":false}`,
			schema.Quote(call.Name), schema.Quote(t.Name), schema.Quote(call.Arguments), t.Arguments))
	}
	list := fmt.Sprintf(`{"anyOf":[%s]}`, strings.Join(items, ","))
	if most > 0 {
		list = fmt.Sprintf(`{"type":"array","minItems":1,"maxItems":%d,"items":%s}`, most, list)
	}
	return newGrammarOf(schema.Compile([]schema.Document{{Schema: []byte(list), Before: call.Before, After: call.After}}, opt))
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

// Size returns the number of nodes of the automaton.
func (g *Grammar) Size() int { return g.program.Size() }
