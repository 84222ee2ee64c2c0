package console

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"mm-abi.org/mm/schemas"
)

// Turns reads turns: with editing and history on a terminal, plain lines otherwise.
type Turns struct {
	terminal *term.Terminal // nil: not a terminal
	fd       int
	plain    *bufio.Reader
}

// NewTurns returns the turns of in. The editing is shown at out.
func NewTurns(in io.Reader, out io.Writer) *Turns {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &Turns{plain: bufio.NewReader(in)}
	}
	screen := struct {
		io.Reader
		io.Writer
	}{in, out}
	return &Turns{terminal: term.NewTerminal(screen, ""), fd: int(f.Fd())}
}

// Edited reports whether turns are read from a terminal.
func (l *Turns) Edited() bool { return l.terminal != nil }

// The prompts on a terminal.
const (
	firstPrompt = "> "
	morePrompt  = ". "
)

// quotes enclose a turn of several lines.
const quotes = `"""`

// Next reads the next turn and removes its markers.
func (l *Turns) Next() (string, error) {
	line, err := l.line(firstPrompt)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	quoted := strings.HasPrefix(strings.TrimSpace(line), quotes)
	if quoted {
		line = strings.TrimPrefix(strings.TrimSpace(line), quotes)
	}
	for {
		if text.Len()+len(line) > schemas.MaxBytes {
			return "", fmt.Errorf("turn exceeds %d bytes", schemas.MaxBytes)
		}
		end, goesOn := strings.CutSuffix(line, `\`)
		if quoted {
			end, goesOn = strings.CutSuffix(strings.TrimRight(line, " \t"), quotes)
			if goesOn = !goesOn; goesOn {
				end = line
			}
		}
		text.WriteString(end)
		if !goesOn {
			return strings.Trim(text.String(), "\n"), nil
		}
		text.WriteByte('\n')
		if line, err = l.line(morePrompt); errors.Is(err, io.EOF) { // an unterminated turn counts
			return strings.Trim(text.String(), "\n"), nil
		} else if err != nil {
			return "", err
		}
	}
}

// line reads a line without its terminator.
func (l *Turns) line(prompt string) (string, error) {
	if l.terminal == nil {
		return boundedLine(l.plain, schemas.MaxBytes)
	}
	state, err := term.MakeRaw(l.fd)
	if err != nil {
		return "", err
	}
	defer term.Restore(l.fd, state)
	if width, height, err := term.GetSize(l.fd); err == nil && width > 0 {
		l.terminal.SetSize(width, height)
	}
	l.terminal.SetPrompt(prompt)
	line, err := l.terminal.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return line, err
}

// boundedLine reads a line of at most limit bytes. The last line need not be
// terminated.
func boundedLine(r *bufio.Reader, limit int) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > limit {
			return "", fmt.Errorf("line exceeds %d bytes", limit)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0, err != nil && !errors.Is(err, io.EOF):
			return "", err
		}
		return string(bytes.TrimRight(line, "\r\n")), nil
	}
}
