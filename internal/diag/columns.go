package diag

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes rows in columns under a heading. It makes the cells printable in place.
func Table(to io.Writer, heading []string, rows [][]string) error {
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heading, "\t"))
	for _, r := range rows {
		for i := range r {
			r[i] = Printable(r[i])
		}
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// Short abbreviates a digest.
func Short(digest string) string {
	algorithm, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) < 12 {
		return digest
	}
	return algorithm + ":" + hex[:12]
}

// Line writes a line of text, which it makes printable: names of files and devices may contain
// anything.
func Line(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintln(w, Printable(fmt.Sprintf(format, args...)))
	return err
}

// Count formats a number of things: 1 document, 2 documents.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
