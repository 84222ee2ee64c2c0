package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// results is stdout. It keeps the first write error, so that a truncated result
// does not exit with code 0.
type results struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (r *results) Write(b []byte) (int, error) {
	n, err := r.Writer.Write(b)
	if err != nil && r.err == nil {
		r.err = err
	}
	return n, err
}

// printJSON prints v as a JSON document.
func (p *program) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(p.stdout, escaped(b.String()))
	return err
}

// listed returns list, or an empty list if it is nil: JSON then shows [] instead of
// null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
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

// printOr prints v as JSON if --json is set; otherwise text prints it.
func (p *program) printOr(v any, text func() error) error {
	if p.json {
		return p.printJSON(v)
	}
	return text()
}

// show prints v as JSON if --json is set, otherwise as text, unless making it failed.
func show[T any](p *program, v T, err error, text func(T) error) error {
	if err != nil {
		return err
	}
	return p.printOr(v, func() error { return text(v) })
}

// written prints v as JSON if --json is set, otherwise as it writes itself, unless making it
// failed.
func written[T interface{ Write(io.Writer) error }](p *program, v T, err error) error {
	return show(p, v, err, func(v T) error { return v.Write(p.stdout) })
}

// printLine prints v as JSON if --json is set, otherwise lines of text.
func (p *program) printLine(v any, format string, args ...any) error {
	return p.printOr(v, func() error {
		for i, a := range args {
			if s, ok := a.(string); ok { // formats and joined lists contain tabs and line ends
				cells := strings.Split(s, "\n")
				for j := range cells {
					cells[j] = diag.Printable(cells[j])
				}
				args[i] = strings.Join(cells, "\n")
			}
		}
		_, err := fmt.Fprintf(p.stdout, format+"\n", args...)
		return err
	})
}

// line prints a line of text. Names of files and devices may contain anything.
func (p *program) line(format string, args ...any) error {
	_, err := fmt.Fprintln(p.stdout, diag.Printable(fmt.Sprintf(format, args...)))
	return err
}

// printLines prints texts, one a line.
func (p *program) printLines(texts []string) error {
	for _, text := range texts {
		if err := p.line("%s", text); err != nil {
			return err
		}
	}
	return nil
}

// sayLine prints v as JSON if --json is set, otherwise a message on stderr.
func (p *program) sayLine(v any, format string, args ...any) error {
	return p.printOr(v, func() error { p.say(format, args...); return nil })
}

// printRows prints list as JSON if --json is set, otherwise as a table with a row
// for each element.
func printRows[T any](p *program, list []T, heading []string, row func(T) []string) error {
	return p.printOr(listed(list), func() error { return p.printTable(heading, rowsOf(list, row)) })
}

// rowsOf returns a row for each element of list.
func rowsOf[T any](list []T, row func(T) []string) (rows [][]string) {
	for _, e := range list {
		rows = append(rows, row(e))
	}
	return rows
}

// printTable prints rows in columns under a heading.
func (p *program) printTable(heading []string, rows [][]string) error {
	return diag.Table(p.stdout, heading, rows)
}

// say prints a message on stderr; stdout holds only results.
func (p *program) say(format string, args ...any) {
	if !p.quiet {
		fmt.Fprintln(p.stderr, lines(fmt.Sprintf(format, args...)))
	}
}

// size formats a number of bytes.
func size(n int64) string { return fsx.FormatSize(n) }

// short abbreviates a digest.
func short(digest string) string { return diag.Short(digest) }
