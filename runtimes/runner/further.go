package runner

import (
	"errors"
	"strings"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/talk"
)

// errCalled ends a generation after its calls.
var errCalled = errors.New("tool call")

// maxSpace bounds the tokens of white space between two calls.
const maxSpace = 4

// further detects whether a call is followed by another of the same turn, which is so if
// the next token, apart from white space, opens one. Anything else the model generates
// after it has read the answers of its calls.
type further struct {
	open, close int32
	tok         *tokenizer.Tokenizer
	closed      bool    // the last token closed a call
	space       []int32 // white space after it, and tokens of an opening marker

	guided bool
	d      talk.Dialect
	text   string // after the call, of a guided dialect
}

// further returns the detector of one turn.
func (r *Runner) further() *further {
	open, closing, _ := r.talk.Markers()
	d := r.talk.Dialect()
	return &further{open: open, close: closing, tok: r.talk.Tokenizer(), guided: d.Guided, d: d}
}

// next takes a token and returns the tokens that belong to the answer. White space after a
// call is held back; errCalled reports that the token does not belong to the turn.
func (f *further) next(id int32) (spaces []int32, belongs bool, err error) {
	if f == nil {
		return nil, true, nil
	}
	if f.guided {
		return f.nextText(id)
	}
	switch {
	case !f.closed:
		f.closed = id == f.close
		return nil, true, nil
	case id == f.open:
		spaces, f.space, f.closed = f.space, nil, false
		return spaces, true, nil
	case f.tok.Type(id) == tokenizer.Normal && strings.TrimSpace(f.tok.Piece(id)) == "" && len(f.space) < maxSpace:
		f.space = append(f.space, id)
		return nil, false, nil
	}
	return nil, false, errCalled
}

// ended records that a block of calls of a guided dialect ended; pending is text after
// it that may begin another. It returns errCalled if none may follow.
func (f *further) ended(pending string) error {
	f.closed, f.text = true, pending
	if !f.d.Repeats() {
		return errCalled
	}
	return nil
}

// nextText is next for a guided dialect, whose opening marker may be several tokens.
func (f *further) nextText(id int32) (held []int32, belongs bool, err error) {
	if !f.closed {
		return nil, true, nil
	}
	opened := id == f.open && id != tokenizer.None
	if typ := f.tok.Type(id); !opened && (typ == tokenizer.Control || typ == tokenizer.Unknown) {
		return nil, false, errCalled
	}
	f.text += f.tok.Piece(id)
	rest := strings.TrimSpace(f.text)
	switch {
	case opened, f.open == tokenizer.None && strings.HasPrefix(rest, f.d.Open):
		held, f.space, f.closed = f.space, nil, false
		return held, true, nil
	case rest == "" && len(f.space) < maxSpace, f.open == tokenizer.None && rest != "" && strings.HasPrefix(f.d.Open, rest):
		f.space = append(f.space, id)
		return nil, false, nil
	}
	return nil, false, errCalled
}
