package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/samples"
)

func (p *program) printProbe(v device.Probe) error {
	chip := v.Device.SoC
	if v.Chip != nil {
		chip = fmt.Sprintf("%s (%d, %s)", v.Chip.Name, v.Chip.Model, v.Chip.Arch)
	} else if chip != "" {
		chip += ", which the table of chips does not have"
	}
	rows := [][]string{
		{"device", strings.TrimSpace(v.Device.Manufacturer + " " + v.Device.Model)}, {"chip", chip}, {"system", "Android " + v.Device.Android + ", " + v.Device.ABI + ", " + v.Device.Machine},
		{"battery", fmt.Sprintf("%d %%, %.1f °C, charger %v", v.Battery.Level, v.Battery.Celsius, v.Battery.Powered)}, {"memory", size(v.Memory)}, {"storage", size(max(v.Free, 0))},
	}
	for _, z := range v.Zones {
		rows = append(rows, []string{"thermal", fmt.Sprintf("%s %.1f °C", z.Name, z.Celsius)})
	}
	for _, s := range v.Signs {
		rows = append(rows, []string{"emulated", s})
	}
	return p.printTable([]string{"WHAT", "SAYS"}, rows)
}

// printPlan prints a plan, and what speaks against it.
func (p *program) printPlan(plan *device.Plan) error {
	err := plan.Faults.Err()
	if p.json {
		if printed := p.printJSON(plan); printed != nil || err == nil {
			return printed
		}
		return reported{err}
	}
	var rows [][]string
	for _, f := range plan.Push {
		rows = append(rows, []string{f.Name, size(f.Bytes), short(f.Digest)})
	}
	if printed := p.printTable([]string{"PUSH", "SIZE", "DIGEST"}, rows); printed != nil {
		return printed
	}
	fmt.Fprintf(p.stdout, "\n%s of storage are needed, %s are free\nruns %s\n", size(plan.Need), size(max(plan.Probe.Free, 0)), diag.Printable(plan.Command))
	for _, o := range plan.Outputs {
		fmt.Fprintf(p.stdout, "gives %s %s%v, %d bytes a sample\n", diag.Printable(o.Name), o.DType, o.Shape, o.Bytes)
	}
	return err
}

// printOutcome prints a record's verdicts and what failed.
func (p *program) printOutcome(o *device.Outcome, failed error) error {
	if p.json {
		list, ok := diag.From(failed)
		if !ok && failed != nil {
			return failed
		}
		view := struct {
			*device.Outcome
			Faults diag.List `json:"diagnostics"`
		}{o, listed(list)}
		if err := p.printJSON(view); err != nil || failed == nil {
			return err
		}
		return reported{failed}
	}
	var rows [][]string
	for _, v := range o.Verdicts {
		rows = append(rows, []string{v.Name, string(v.Outcome), v.Reason})
	}
	if err := p.printTable([]string{"WHAT", "VERDICT", "WHY"}, rows); err != nil {
		return err
	}
	if len(o.Results) > 0 {
		fmt.Fprintln(p.stdout)
		if err := p.printTable([]string{"SAMPLE", "OUTPUT", "TYPE", "SIZE", "FROM", "TO", "FIRST"}, resultRows(o.Results)); err != nil {
			return err
		}
	}
	told := "this record confirms nothing"
	if o.Promotes {
		told = "this record confirms " + o.SoC
	}
	cosine := "nothing was compared"
	if c := o.Record.Cosine; c != nil {
		cosine = fmt.Sprintf("cosine %.6f", *c)
	}
	fmt.Fprintf(p.stdout, "\n%s: %s, simulated %v, %s\n", short(o.Record.Digest), cosine, o.Record.Simulated, diag.Printable(told))
	return failed
}

// resultRows are what came back, an output a row.
func resultRows(list []device.Result) [][]string {
	var rows [][]string
	for _, r := range list {
		row := []string{strconv.Itoa(r.Sample), diag.Printable(r.Name), fmt.Sprintf("%s%v", r.DType, r.Shape), size(r.Bytes), "", "", ""}
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

// writeRecord writes a record for people to read; its digest is of the canonical
// form.
func writeRecord(w io.Writer, r evidence.Record) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// maxRecords bounds how many earlier records are looked at.
const maxRecords = 4096

// records reads the records of earlier runs. One that was changed is none.
func records(folder string) ([]evidence.Record, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []evidence.Record
	for _, e := range slices.Backward(entries) {
		if filepath.Ext(e.Name()) != ".json" || len(out) == maxRecords {
			continue
		}
		f, err := fsx.OpenRegular(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		r, err := evidence.Read(f)
		f.Close()
		if err == nil {
			out = append(out, r)
		}
	}
	return out, nil
}

// writeDeviceOutputs writes what came back: as the runner laid it out, and its
// numbers as arrays.
func writeDeviceOutputs(folder string, o *device.Outcome) error {
	if folder == "" {
		return nil
	}
	for _, r := range o.Results {
		path := filepath.Join(folder, filepath.FromSlash(r.File))
		files := map[string][]byte{path: o.Outputs[r.Sample][r.Index]}
		if r.Values != nil {
			array := &npy.Array{Type: "f4", Shape: []int{}, Data: samples.Bytes(r.Values)}
			for _, d := range r.Shape {
				array.Shape = append(array.Shape, int(d))
			}
			data, err := npy.Encode(array)
			if err != nil {
				return err
			}
			files[strings.TrimSuffix(path, ".raw")+".npy"] = data
		}
		for path, data := range files {
			err := fsx.Replace(path, 0o644, func(w io.Writer) error {
				_, err := w.Write(data)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
