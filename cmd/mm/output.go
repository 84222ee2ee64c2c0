package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf16"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
)

// results is stdout. It remembers that something could not be written: who
// asked for a result and got half of it shall not be told that all went well.
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

// printJSON prints a result as one JSON document.
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

// listed is a list that JSON shows as [] where it is empty, not as null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// escaped spells out what JSON may hold as it is and a terminal would obey.
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

// printTable prints rows under a heading, in columns.
func (p *program) printTable(heading []string, rows [][]string) error {
	w := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heading, "\t"))
	for _, r := range rows {
		for i := range r {
			r[i] = diag.Printable(r[i])
		}
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// say prints a line for people, on stderr so that stdout holds results alone.
func (p *program) say(format string, args ...any) {
	if !p.quiet {
		fmt.Fprintln(p.stderr, lines(fmt.Sprintf(format, args...)))
	}
}

// size prints bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// short cuts a digest for a table.
func short(digest string) string {
	algorithm, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) < 12 {
		return digest
	}
	return algorithm + ":" + hex[:12]
}

// wantArgs checks the number of arguments; most below 0 is no upper bound.
func wantArgs(c *cli.Context, least, most int) error {
	n := c.NArg()
	if n < least || most >= 0 && n > most {
		return usageError{fmt.Errorf("usage: %s %s", c.Command.HelpName, c.Command.ArgsUsage)}
	}
	return nil
}
