package main

import (
	"context"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/judge"
	"mm-abi.org/mm/workspace"
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

// evidenceName is the repository of device records in a trust file.
const evidenceName = "device/evidence"

// vouching returns the keys that may sign device records.
func vouching(w *workspace.Workspace, files []string) ([]evidence.Verifier, error) {
	keys, err := w.Vouching(evidenceName, files, time.Now())
	var out []evidence.Verifier
	for _, k := range keys {
		out = append(out, k)
	}
	return out, err
}

// recordSigned is the output of mm device sign and verify.
type recordSigned struct {
	File   string `json:"file"`
	Digest string `json:"digest"`
	Key    string `json:"key"`
}

func (p *program) deviceSign(c *cli.Context, w *workspace.Workspace) error {
	path := c.Args().First()
	r, err := device.ReadRecord(path)
	if err != nil {
		return err
	}
	s, err := w.Signer(c.String("key"), p.password)
	if err != nil {
		return err
	}
	if err := r.Sign(s.Key, s.Key.Public().KeyID()); err != nil {
		return err
	}
	err = fsx.Replace(path, 0o644, func(f io.Writer) error { return evidence.Write(f, r) })
	w.Record(c.Context, audit.Entry{Action: "device sign", Ref: path, Digest: r.Digest, Result: workspace.Outcome(err)})
	return p.printSigned("signed", recordSigned{path, r.Digest, r.Signature.Key}, err)
}

func (p *program) deviceVerify(c *cli.Context, w *workspace.Workspace) error {
	path := c.Args().First()
	r, err := device.ReadRecord(path)
	if err != nil {
		return err
	}
	trusted, err := vouching(w, c.StringSlice("key"))
	if err != nil {
		return err
	}
	id, err := r.SignedBy(trusted)
	if err != nil {
		err = device.RecordFault(path, err)
	}
	return p.printSigned("verified", recordSigned{path, r.Digest, id}, err)
}

func (p *program) printSigned(what string, s recordSigned, err error) error {
	return show(p, s, err, func(s recordSigned) error { return p.Line("%s %s: signed by key %s", what, s.Digest, s.Key) })
}
