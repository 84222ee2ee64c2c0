package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/judge"
)

// printPlan prints a plan and its faults.
func (p *program) printPlan(plan *device.Plan) error {
	err := plan.Faults.Err()
	if p.JSON {
		if printed := p.PrintJSON(plan); printed != nil || err == nil {
			return printed
		}
		return reported{err}
	}
	if printed := plan.WriteText(p.Stdout); printed != nil {
		return printed
	}
	return err
}

// printOutcome prints the verdicts of a record and the error of its run.
func (p *program) printOutcome(o *device.Outcome, failed error) error {
	if p.JSON {
		list, ok := diag.From(failed)
		if !ok && failed != nil {
			return failed
		}
		view := struct {
			*device.Outcome
			Faults diag.List `json:"diagnostics"`
		}{o, listed(list)}
		if err := p.PrintJSON(view); err != nil || failed == nil {
			return err
		}
		return reported{failed}
	}
	if err := o.WriteText(p.Stdout); err != nil {
		return err
	}
	return failed
}

func (p *program) deviceProbe(c *cli.Context) error {
	way, out := wayOptions(c), c.String("out")
	return p.onDevice(c.Context, way, func(d *device.Device) error {
		v, err := d.Probe(c.Context)
		if err == nil && out != "" {
			err = writeProbe(c.Context, out, way, d, v)
		}
		return show(p, v, err, func(v device.Probe) error { return v.WriteText(p.Stdout) })
	})
}

// writeProbe writes the raw properties of a device for mm lab probe.
func writeProbe(ctx context.Context, path string, way device.Way, d *device.Device, v device.Probe) error {
	line, err := way.Line(ctx, d)
	if err != nil {
		return err
	}
	return judge.WriteProbe(path, map[string]string{judge.DevicesFile: line, judge.PropFile: v.Raw.Properties, judge.MemoryFile: v.Raw.Memory, judge.BatteryFile: v.Raw.Battery, judge.DiskFile: v.Raw.Disk, judge.ThermalFile: v.Raw.Thermal})
}
