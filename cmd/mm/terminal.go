package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
)

// tell prints diagnostics: with the line each is about on a terminal, one line
// each elsewhere.
func (p *program) tell(w io.Writer, list diag.List) error {
	style, ok := styleOf(w)
	if !ok {
		return list.Text(w)
	}
	return list.Render(w, style)
}

// styleOf is how to print on w, if w is a terminal. NO_COLOR is honoured
// (no-color.org).
func styleOf(w io.Writer) (diag.Style, bool) {
	if r, ok := w.(*results); ok {
		w = r.Writer
	}
	f, ok := w.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return diag.Style{}, false
	}
	s := diag.Style{Read: readExcerpt, Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = width
	}
	return s, true
}

// readExcerpt reads a document for an excerpt; what is no document of ours is
// not read.
func readExcerpt(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > schemas.MaxBytes {
		return nil, fmt.Errorf("%s is no document", file)
	}
	return os.ReadFile(file)
}

// lines makes text printable line by line. Lines after the first are indented,
// so that none can look like a message of its own.
func lines(s string) string {
	all := strings.Split(s, "\n")
	for i := range all {
		all[i] = diag.Printable(all[i])
	}
	return strings.Join(all, "\n    ")
}

// count writes a number of things: 1 document, 2 documents.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
