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

// tell prints diagnostics: with source excerpts on a terminal, one line each
// otherwise.
func (p *program) tell(w io.Writer, list diag.List) error {
	style, ok := styleOf(w)
	if !ok {
		return list.Text(w)
	}
	return list.Render(w, style)
}

// styleOf returns the style of a terminal; ok is false if w is not one. It honors
// NO_COLOR (no-color.org).
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

// readExcerpt reads a file for an excerpt; it must be a regular file of a
// document's size.
func readExcerpt(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > schemas.MaxBytes {
		return nil, fmt.Errorf("%s: not a document", file)
	}
	return os.ReadFile(file)
}

// lines makes text printable. Lines after the first are indented, so that none
// looks like a message of its own.
func lines(s string) string {
	all := strings.Split(s, "\n")
	for i := range all {
		all[i] = diag.Printable(all[i])
	}
	return strings.Join(all, "\n    ")
}

// count formats a number of things: 1 document, 2 documents.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
