package demo

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// WriteText writes the steps and the questions as tables.
func (r *Result) WriteText(w io.Writer) error {
	var rows [][]string
	for _, s := range r.Steps {
		bytes := ""
		if s.Bytes > 0 {
			bytes = fsx.FormatSize(s.Bytes)
		}
		rows = append(rows, []string{s.Step, fmt.Sprintf("%.0f ms", s.MS), bytes, diag.Short(s.Digest), s.Note})
	}
	fmt.Fprintln(w)
	if err := diag.Table(w, []string{"STEP", "TIME", "SIZE", "DIGEST", ""}, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s%s\n\n", r.Prompt, r.Text)
	rows = nil
	var untrained []string
	right, judged := 0, 0
	for _, i := range r.Shown {
		reply, file := i.Said, ""
		if reply != "" {
			reply = fmt.Sprintf("%q", reply)
		}
		if i.File != "" {
			file = filepath.Base(i.File)
		}
		rows = append(rows, []string{i.What, file, i.Ask, reply, i.Verdict()})
		if i.Right != nil {
			if judged++; *i.Right {
				right++
			}
		}
		untrained = append(untrained, i.Untrained...)
	}
	if err := diag.Table(w, []string{"SHOWN", "FILE", "ASKED", "SAID", ""}, rows); err != nil {
		return err
	}
	if judged > 0 {
		fmt.Fprintf(w, "\n%d of %d right; images, sounds and trace.svg are in %s\n", right, judged, r.Folder)
	}
	slices.Sort(untrained)
	if untrained = slices.Compact(untrained); len(untrained) > 0 {
		fmt.Fprintf(w, "%s: placeholders with random weights; results that involve them mean nothing.\n", strings.Join(untrained, ", "))
	}
	return nil
}
