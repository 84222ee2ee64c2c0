package runner

import (
	"errors"
	"strings"

	"mm-abi.org/mm/core/tokenizer"
)

// errCalled ends a generation behind its calls.
var errCalled = errors.New("a call")

// maxSpace is how many tokens of white space may stand between two calls.
const maxSpace = 4

// further says whether a call is followed by another of the same turn: it is
// where the next token, white space aside, begins one. Whatever else the model
// would say there, it says when it has heard what came of its calls.
type further struct {
	open, close int32
	tok         *tokenizer.Tokenizer
	closed      bool    // a call ended last
	space       []int32 // behind it
}

// further watches the calls of one turn.
func (r *Runner) further() *further {
	open, closing, _ := r.talk.Markers()
	return &further{open: open, close: closing, tok: r.talk.Tokenizer()}
}

// next takes a token. Those that it gives belong to the answer; none do yet of
// white space behind a call, and errCalled says that this one does not.
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
