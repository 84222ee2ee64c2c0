package qnnfile

import (
	"fmt"
	"io"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/onnx/htp"
)

// WriteText writes a table of the axes for each context.
func (r Report) WriteText(w io.Writer) error {
	for _, c := range r.Contexts {
		var rows [][]string
		for _, a := range c.Axes {
			verdict := string(a.Verdict)
			if a.Accepted {
				verdict = string(htp.Unknown) + ", accepted"
			}
			rows = append(rows, []string{a.Name, verdict, a.File, a.Target})
		}
		if err := diag.Table(w, []string{c.Name, "VERDICT", "FILE", r.Target}, rows); err != nil {
			return err
		}
	}
	return nil
}

// WriteCompat writes the versions of the SDKs and of the tools as tables.
func WriteCompat(w io.Writer) error {
	shown := func(v htp.Version) string {
		if v == (htp.Version{}) {
			return "?"
		}
		return v.String()
	}
	var rows [][]string
	for _, s := range htp.SDKs() {
		rows = append(rows, []string{fmt.Sprintf("%d.%d", s.Version.Major, s.Version.Minor), shown(s.Core), shown(s.Backend), shown(s.System), shown(s.Blob), s.Source})
	}
	if err := diag.Table(w, []string{"SDK", "CORE API", "HTP API", "SYSTEM", "BLOB", "SOURCE"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	rows = nil
	for _, t := range htp.Tools() {
		rows = append(rows, []string{t.Name, t.Version, t.SDK.String(), t.With, t.Source})
	}
	return diag.Table(w, []string{"TOOL", "VERSION", "SDK", "WITH", "SOURCE"}, rows)
}
