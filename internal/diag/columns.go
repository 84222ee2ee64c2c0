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
