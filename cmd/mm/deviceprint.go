package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/judge"
)

func (p *program) printProbe(v device.Probe) error {
	chip := v.Device.SoC
	if v.Chip != nil {
		chip = fmt.Sprintf("%s (%d, %s)", v.Chip.Name, v.Chip.Model, v.Chip.Arch)
	} else if chip != "" {
		chip += " (unknown chip)"
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

// printPlan prints a plan and its faults.
func (p *program) printPlan(plan *device.Plan) error {
	err := plan.Faults.Err()
	if p.json {
		if printed := p.printJSON(plan); printed != nil || err == nil {
			return printed
		}
		return reported{err}
	}
	rows := rowsOf(plan.Push, func(f device.File) []string {
		return []string{f.Name, size(f.Bytes), short(f.Digest)}
	})
	if printed := p.printTable([]string{"PUSH", "SIZE", "DIGEST"}, rows); printed != nil {
		return printed
	}
	fmt.Fprintf(p.stdout, "\nstorage: %s needed, %s free\ncommand: %s\n", size(plan.Need), size(max(plan.Probe.Free, 0)), diag.Printable(plan.Command))
	for _, o := range plan.Outputs {
		fmt.Fprintf(p.stdout, "output: %s %s%v, %d bytes a sample\n", diag.Printable(o.Name), o.DType, o.Shape, o.Bytes)
	}
	return err
}

// printOutcome prints the verdicts of a record and the error of its run.
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
	rows := rowsOf(o.Verdicts, func(v evidence.Verdict) []string {
		return []string{v.Name, string(v.Outcome), v.Reason}
	})
	if err := p.printTable([]string{"WHAT", "VERDICT", "WHY"}, rows); err != nil {
		return err
	}
	if len(o.Results) > 0 {
		fmt.Fprintln(p.stdout)
		if err := p.printTable([]string{"SAMPLE", "OUTPUT", "TYPE", "SIZE", "FROM", "TO", "FIRST"}, resultRows(o.Results)); err != nil {
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
	fmt.Fprintf(p.stdout, "\n%s: %s, simulated %v, %s\n", short(o.Record.Digest), cosine, o.Record.Simulated, diag.Printable(verdict))
	return failed
}

// resultRows returns a row for each output.
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

func (p *program) deviceProbe(c *cli.Context) error {
	way, out := deviceWayOptions(c), c.String("out")
	return p.onDevice(c.Context, way, func(d *device.Device) error {
		v, err := d.Probe(c.Context)
		if err != nil {
			return err
		}
		if out != "" {
			if err := writeProbe(c.Context, out, way, d, v); err != nil {
				return err
			}
		}
		if p.json {
			return p.printJSON(v)
		}
		return p.printProbe(v)
	})
}

// writeProbe writes the raw properties of a device for mm lab probe.
func writeProbe(ctx context.Context, path string, way wayOptions, d *device.Device, v device.Probe) error {
	said := map[string]string{judge.DevicesFile: "", judge.PropFile: v.Raw.Properties, judge.MemoryFile: v.Raw.Memory, judge.BatteryFile: v.Raw.Battery, judge.DiskFile: v.Raw.Disk, judge.ThermalFile: v.Raw.Thermal}
	if way.ssh == "" {
		list, err := adb.Client{Addr: way.server}.Devices(ctx)
		if err != nil {
			return device.Fault("", err)
		}
		for _, one := range list {
			if one.Serial == d.Source.Serial {
				said[judge.DevicesFile] = "List of devices attached\n" + one.Line() + "\n"
			}
		}
	}
	return judge.WriteProbe(path, said)
}
