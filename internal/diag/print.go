package diag

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Text prints the list as text: a line each, with an indented hint.
func (l List) Text(w io.Writer) error {
	var b strings.Builder
	for _, d := range l {
		b.WriteString(Printable(d.String()) + "\n")
		if d.Hint != "" {
			b.WriteString("    hint: " + Printable(d.Hint) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// JSON prints the list as a JSON document: {"diagnostics": […], "errors": N,
// "warnings": N}.
func (l List) JSON(w io.Writer) error {
	if l == nil {
		l = List{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Diagnostics List `json:"diagnostics"`
		Errors      int  `json:"errors"`
		Warnings    int  `json:"warnings"`
	}{l, l.Count(Error), l.Count(Warning)})
}

// GitHub prints the list as workflow commands, which CI shows next to the line
// (docs.github.com, "Workflow commands for GitHub Actions").
func (l List) GitHub(w io.Writer) error {
	var b strings.Builder
	for _, d := range l {
		level := string(d.Severity)
		if d.Severity == Note {
			level = "notice"
		}
		message := d.Summary
		if d.Detail != "" {
			message += ": " + d.Detail
		}
		if d.Hint != "" {
			message += "\nhint: " + d.Hint
		}
		fmt.Fprintf(&b, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", level,
			property(d.Pos.File), max(d.Pos.Line, 1), max(d.Pos.Col, 1), property(string(d.Code)), data(message))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// data and property escape characters that would end a workflow command: the text
// may quote a hostile file.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}
