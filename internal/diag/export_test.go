package diag

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Codes returns the table of codes in ascending order.
func Codes() []Entry { return slices.Clone(table) }

// groups holds the headings of the document by the first digits of a code.
var groups = map[string]string{
	"MM00": "Reading a document", "MM01": "Schema", "MM02": "One module", "MM03": "Between modules of a build",
	"MM04": "Resolution and lock", "MM05": "Assembling", "MM06": "Trust", "MM07": "Store and registry",
	"MM08": "Running", "MM09": "Settings", "MM10": "An ONNX model", "MM11": "A file for an NPU",
	"MM12": "A device", "MM13": "Serving, text and sound", "MM14": "Evaluation", "MM15": "Data, studies and object stores",
}

// Document writes the table of codes as Markdown, for docs/DIAGNOSTICS.md.
func Document(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Diagnostics\n\nWritten from the table in `diag/table.go` by `go test ./internal/diag -update`; do not edit.\n\n" +
		"Every message about a file has the form `file:line:col: error MM0305: summary: detail`, with a hint below. " +
		"`--json` prints the same as JSON, `mm validate --format github` as annotations. The meaning of a code never changes.\n")
	last := ""
	for _, e := range table {
		if g := string(e.Code)[:4]; g != last {
			fmt.Fprintf(&b, "\n## %s\n", groups[g])
			last = g
		}
		fmt.Fprintf(&b, "\n### %s %s\n\n%s\n\n%s\n", e.Code, e.Summary, e.Cause, e.Fix)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
