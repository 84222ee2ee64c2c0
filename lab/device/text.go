package device

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// WriteText writes the properties of a device as a table.
func (v Probe) WriteText(w io.Writer) error {
	chip := v.Device.SoC
	if v.Chip != nil {
		chip = fmt.Sprintf("%s (%d, %s)", v.Chip.Name, v.Chip.Model, v.Chip.Arch)
	} else if chip != "" {
		chip += " (unknown chip)"
	}
	rows := [][]string{
		{"device", strings.TrimSpace(v.Device.Manufacturer + " " + v.Device.Model)}, {"chip", chip}, {"system", "Android " + v.Device.Android + ", " + v.Device.ABI + ", " + v.Device.Machine},
		{"battery", fmt.Sprintf("%d %%, %.1f °C, charger %v", v.Battery.Level, v.Battery.Celsius, v.Battery.Powered)}, {"memory", fsx.FormatSize(v.Memory)}, {"storage", fsx.FormatSize(max(v.Free, 0))},
	}
	for _, z := range v.Zones {
		rows = append(rows, []string{"thermal", fmt.Sprintf("%s %.1f °C", z.Name, z.Celsius)})
	}
	for _, s := range v.Signs {
		rows = append(rows, []string{"emulated", s})
	}
	return diag.Table(w, []string{"WHAT", "SAYS"}, rows)
}

// WriteText writes the files, the storage and the outputs of a plan.
func (plan *Plan) WriteText(w io.Writer) error {
	var rows [][]string
	for _, f := range plan.Push {
		rows = append(rows, []string{f.Name, fsx.FormatSize(f.Bytes), diag.Short(f.Digest)})
	}
	if err := diag.Table(w, []string{"PUSH", "SIZE", "DIGEST"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nstorage: %s needed, %s free\ncommand: %s\n", fsx.FormatSize(plan.Need), fsx.FormatSize(max(plan.Probe.Free, 0)), diag.Printable(plan.Command))
	for _, o := range plan.Outputs {
		fmt.Fprintf(w, "output: %s %s%v, %d bytes a sample\n", diag.Printable(o.Name), o.DType, o.Shape, o.Bytes)
	}
	return nil
}

// WriteText writes the verdicts and the results of a run.
func (o *Outcome) WriteText(w io.Writer) error {
	var rows [][]string
	for _, v := range o.Verdicts {
		rows = append(rows, []string{v.Name, string(v.Outcome), v.Reason})
	}
	if err := diag.Table(w, []string{"WHAT", "VERDICT", "WHY"}, rows); err != nil {
		return err
	}
	if len(o.Results) > 0 {
		fmt.Fprintln(w)
		if err := diag.Table(w, []string{"SAMPLE", "OUTPUT", "TYPE", "SIZE", "FROM", "TO", "FIRST"}, resultRows(o.Results)); err != nil {
			return err
		}
	}
	verdict := "this record confirms nothing"
	if o.Promotes {
		verdict = "this record confirms " + o.SoC
	}
	cosine := "not compared"
	if c := o.Record.Cosine; c != nil {
		cosine = fmt.Sprintf("cosine %.6f", *c)
	}
	fmt.Fprintf(w, "\n%s: %s, simulated %v, %s\n", diag.Short(o.Record.Digest), cosine, o.Record.Simulated, diag.Printable(verdict))
	return nil
}

// resultRows returns a row for each output.
func resultRows(list []Result) [][]string {
	var rows [][]string
	for _, r := range list {
		row := []string{strconv.Itoa(r.Sample), diag.Printable(r.Name), fmt.Sprintf("%s%v", r.DType, r.Shape), fsx.FormatSize(r.Bytes), "", "", ""}
		if r.Least != nil {
			row[4], row[5] = fmt.Sprintf("%.4g", *r.Least), fmt.Sprintf("%.4g", *r.Most)
			for _, v := range r.First[:min(4, len(r.First))] {
				row[6] += fmt.Sprintf("%.4g ", v)
			}
		}
		rows = append(rows, row)
	}
	return rows
}
