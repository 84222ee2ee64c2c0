package runner

import (
	"errors"
	"strings"

	"mm-abi.org/mm/core/tokenizer"
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
	space       []int32 // white space after it
}

// further returns the detector of one turn.
func (r *Runner) further() *further {
	open, closing, _ := r.talk.Markers()
	return &further{open: open, close: closing, tok: r.talk.Tokenizer()}
}

// next takes a token and returns the tokens that belong to the answer. White space after a
// call is held back; errCalled reports that the token does not belong to the turn.
func (f *further) next(id int32) (spaces []int32, belongs bool, err error) {
	if f == nil {
		return nil, true, nil
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
