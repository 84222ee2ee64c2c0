package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf16"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/cas"
	"mm-abi.org/mm/schemas"
)

// Printer prints the results and messages of a command.
type Printer struct {
	Stdout, Stderr io.Writer
	JSON, Quiet    bool
}

// Results is stdout. It keeps the first write error, so that a truncated result
// does not exit with code 0.
type Results struct {
	io.Writer
	Err error
}

// Write implements io.Writer.
func (r *Results) Write(b []byte) (int, error) {
	n, err := r.Writer.Write(b)
	if err != nil && r.Err == nil {
		r.Err = err
	}
	return n, err
}

// PrintJSON prints v as a JSON document.
func (p *Printer) PrintJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(p.Stdout, escaped(b.String()))
	return err
}

// escaped escapes characters that are valid in JSON but control a terminal.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && diag.Printable(string(r)) != string(r) {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, "\\u%04x", unit)
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// PrintOr prints v as JSON if --json is set; otherwise text prints it.
func (p *Printer) PrintOr(v any, text func() error) error {
	if p.JSON {
		return p.PrintJSON(v)
	}
	return text()
}

// PrintLine prints v as JSON if --json is set, otherwise lines of text.
func (p *Printer) PrintLine(v any, format string, args ...any) error {
	return p.PrintOr(v, func() error {
		for i, a := range args {
			if s, ok := a.(string); ok { // formats and joined lists contain tabs and line ends
				cells := strings.Split(s, "\n")
				for j := range cells {
					cells[j] = diag.Printable(cells[j])
				}
				args[i] = strings.Join(cells, "\n")
			}
		}
		_, err := fmt.Fprintf(p.Stdout, format+"\n", args...)
		return err
	})
}

// Line prints a line of text. Names of files and devices may contain anything.
func (p *Printer) Line(format string, args ...any) error {
	return diag.Line(p.Stdout, format, args...)
}

// PrintLines prints texts, one a line.
func (p *Printer) PrintLines(texts []string) error {
	for _, text := range texts {
		if err := p.Line("%s", text); err != nil {
			return err
		}
	}
	return nil
}

// SayLine prints v as JSON if --json is set, otherwise a message on stderr.
func (p *Printer) SayLine(v any, format string, args ...any) error {
	return p.PrintOr(v, func() error { p.Note(format, args...); return nil })
}

// PrintTable prints rows in columns under a heading.
func (p *Printer) PrintTable(heading []string, rows [][]string) error {
	return diag.Table(p.Stdout, heading, rows)
}

// Note prints a message on stderr; stdout holds only results.
func (p *Printer) Note(format string, args ...any) {
	if !p.Quiet {
		fmt.Fprintln(p.Stderr, lines(fmt.Sprintf(format, args...)))
	}
}

// Diagnose prints diagnostics: with source excerpts on a terminal, one line each
// otherwise.
func (p *Printer) Diagnose(w io.Writer, list diag.List) error {
	style, ok := StyleOf(w)
	if !ok {
		return list.Text(w)
	}
	return list.Render(w, style)
}

// StyleOf returns the style of a terminal; ok is false if w is not one. It honors
// NO_COLOR (no-color.org).
func StyleOf(w io.Writer) (diag.Style, bool) {
	if r, ok := w.(*Results); ok {
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
// looks like another message.
func lines(s string) string {
	all := strings.Split(s, "\n")
	for i := range all {
		all[i] = diag.Printable(all[i])
	}
	return strings.Join(all, "\n    ")
}

// PrintDiagnostics prints diagnostics as text on stderr, or with --json as JSON on
// stdout.
func (p *Printer) PrintDiagnostics(list diag.List) {
	if p.JSON {
		list.JSON(p.Stdout)
		return
	}
	p.Diagnose(p.Stderr, list)
}

// PrintError prints an error with its hint, as JSON if --json is set, on stderr.
func (p *Printer) PrintError(err error) {
	hint := ""
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		hint = h.Hint()
	} else if file := new(fs.PathError); cas.IsFull(err) && (!errors.As(err, &file) || file.Path != os.Stdout.Name()) {
		hint = "mm rm REF removes names, then mm gc --grace 0 frees the space of what has none"
	}
	if p.JSON {
		json.NewEncoder(p.Stderr).Encode(struct {
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
		}{err.Error(), hint})
		return
	}
	fmt.Fprintf(p.Stderr, "mm: error: %s\n", lines(err.Error()))
	if hint != "" {
		fmt.Fprintf(p.Stderr, "mm: hint: %s\n", lines(hint))
	}
}
