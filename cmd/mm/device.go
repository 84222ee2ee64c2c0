package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/ssh"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/workspace"
)

// wayOptions describes the connection to a device.
type wayOptions struct {
	server, serial, ssh, key, known, folder, socs string
}

func deviceWayOptions(c *cli.Context) wayOptions {
	return wayOptions{c.String("server"), c.String("serial"), c.String("ssh"), homely(c.String("key")), homely(c.String("known-hosts")), c.String("folder"), c.String("socs")}
}

// homely expands a leading ~/ in a path.
func homely(path string) string {
	if len(path) < 2 || path[:2] != "~/" {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(home, path[2:])
}

// onDevice connects to a device for fn.
func (p *program) onDevice(ctx context.Context, o wayOptions, fn func(*device.Device) error) error {
	chips, err := qnnfile.Chips(o.socs)
	if err != nil {
		return err
	}
	home, err := workspace.DefaultHome()
	if err != nil {
		return err
	}
	d := &device.Device{Folder: o.folder, Locks: filepath.Join(home, "device", "push"), Chips: chips, Source: evidence.Source{Tool: "mm " + built().Version}}
	if o.ssh != "" {
		l, err := ssh.Dial(ctx, ssh.Options{Host: o.ssh, Key: o.key, KnownHosts: o.known})
		if err != nil {
			return device.Fault(o.ssh, err)
		}
		defer l.Close()
		d.Lane, d.Source.Lane, d.Source.Address, d.Source.Serial = l, "ssh", o.ssh, o.ssh
		if d.Folder == "" {
			d.Folder = l.Home() + "/mm"
		}
		return fn(d)
	}
	client := adb.Client{Addr: o.server}
	l, err := device.Choose(ctx, client, o.serial)
	if err != nil {
		return err
	}
	d.Lane, d.Source.Lane, d.Source.Address, d.Source.Serial = l, "adb", client.Address(), l.Serial
	return fn(d)
}

func (p *program) deviceLs(c *cli.Context) error {
	list, err := adb.Client{Addr: c.String("server")}.Devices(c.Context)
	if err != nil {
		return device.Fault("", err)
	}
	return printRows(p, list, []string{"SERIAL", "STATE", "MODEL", "PRODUCT"}, func(d adb.Device) []string {
		return []string{d.Serial, d.State, d.Extra["model"], d.Extra["product"]}
	})
}

func deviceJobOptions(c *cli.Context) device.Job {
	return device.Job{Context: c.Args().First(), Runner: c.String("runner"), Libs: c.String("libs"), Graph: c.String("graph"), Count: c.Int("samples"), Repeat: c.Int("repeat"),
		Deadline: c.Duration("deadline"), Battery: c.Int("battery"), SameArch: c.Bool("same-arch"), Accept: c.StringSlice("accept"), Nonce: c.String("nonce"), Keep: c.Bool("keep")}
}

func (p *program) devicePlan(c *cli.Context) error {
	j := deviceJobOptions(c)
	return p.onDevice(c.Context, deviceWayOptions(c), func(d *device.Device) error {
		plan, err := j.Plan(c.Context, d)
		if err != nil {
			return err
		}
		return p.printPlan(plan)
	})
}

func (p *program) devicePush(c *cli.Context) error {
	return p.onDevice(c.Context, deviceWayOptions(c), func(d *device.Device) error {
		done := []device.Pushed{}
		for _, path := range c.Args().Slice() {
			f, err := device.NewFile(filepath.Base(path), path)
			if err != nil {
				return err
			}
			one, err := d.Push(c.Context, f)
			if err != nil {
				return err
			}
			done = append(done, one)
		}
		if p.json {
			return p.printJSON(done)
		}
		var rows [][]string
		for _, x := range done {
			rows = append(rows, []string{x.Name, size(x.Bytes), short(x.Digest), size(x.Resumed), size(x.Sent)})
		}
		return p.printTable([]string{"FILE", "SIZE", "DIGEST", "RESUMED", "SENT"}, rows)
	})
}

func (p *program) deviceRun(c *cli.Context) error {
	j := deviceJobOptions(c)
	if c.IsSet("inputs") && c.IsSet("samples") {
		return diag.Usagef("--samples is for drawn inputs, not for --inputs")
	}
	if list := c.StringSlice("inputs"); len(list) > 0 {
		var err error
		if j.Samples, err = device.ReadSamples(c.Context, j, device.SampleOptions{Places: list, Module: c.String("module")}); err != nil {
			return err
		}
	}
	o := deviceRunOptions{j, deviceWayOptions(c), c.String("reference"), c.String("out"), c.String("outputs"), c.String("sign")}
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error { return p.runOnDevice(c.Context, w, o) })
}

// deviceRunOptions holds the options of mm device run.
type deviceRunOptions struct {
	job                     device.Job
	way                     wayOptions
	reference, out, outputs string
	sign                    string // private key; if empty, the record is not signed
}

// runOnDevice runs a job and writes the record even if its checks fail.
func (p *program) runOnDevice(ctx context.Context, w *workspace.Workspace, o deviceRunOptions) error {
	o.job.Time = time.Now().UTC().Format(time.RFC3339)
	if o.reference != "" {
		m, err := device.OpenReference(ctx, o.reference)
		if err != nil {
			return err
		}
		defer m.Close()
		o.job.Reference, o.job.Engine, o.job.Model = m, device.ReferenceEngine, m.Digest
	}
	folder := filepath.Join(w.Home(), "device", "evidence")
	key, err := p.evidenceKey(w, o.sign)
	if err != nil {
		return err
	}
	if o.job.Before, err = evidence.ReadFolder(folder); err != nil {
		return err
	}
	return p.onDevice(ctx, o.way, func(d *device.Device) error {
		out, failed := d.Run(ctx, o.job)
		if out == nil {
			w.Record(ctx, audit.Entry{Action: "device", Ref: d.Source.Serial, Result: workspace.Outcome(failed)})
			return failed
		}
		if key != nil {
			if err := out.Record.Sign(key, key.Public().KeyID()); err != nil {
				return errors.Join(failed, err)
			}
		}
		paths := []string{filepath.Join(folder, out.Record.Digest[len("sha256:"):]+".json")}
		if o.out != "" {
			paths = append(paths, o.out)
		}
		for _, path := range paths {
			if err := fsx.Replace(path, 0o644, func(f io.Writer) error { return evidence.Write(f, out.Record) }); err != nil {
				return errors.Join(failed, fmt.Errorf("writing the record: %w", err))
			}
		}
		w.Record(ctx, audit.Entry{Action: "device", Ref: d.Source.Serial + " " + out.Record.Device.SoC, Digest: out.Record.Digest, Result: workspace.Outcome(failed)})
		if o.outputs != "" {
			if err := device.WriteOutputs(o.outputs, out); err != nil {
				return errors.Join(failed, err)
			}
		}
		return p.printOutcome(out, failed)
	})
}

func (p *program) devicePull(c *cli.Context) error {
	name := filepath.ToSlash(c.Args().First())
	if !filepath.IsLocal(c.Args().First()) {
		return diag.Usagef("%s: path outside of the folder on the device", name)
	}
	return p.onDevice(c.Context, deviceWayOptions(c), func(d *device.Device) error {
		v, err := d.Pull(c.Context, name, c.String("out"))
		if err != nil {
			return err
		}
		return p.printOr(v, func() error {
			return p.printTable([]string{"FILE", "SIZE", "DIGEST"}, [][]string{{v.Path, size(v.Bytes), short(v.Digest)}})
		})
	})
}

func (p *program) deviceRm(c *cli.Context) error {
	return p.onDevice(c.Context, deviceWayOptions(c), func(d *device.Device) error {
		if err := d.Remove(c.Context); err != nil {
			return err
		}
		if p.json {
			return p.printJSON(struct {
				Serial string `json:"serial"`
			}{d.Source.Serial})
		}
		_, err := fmt.Fprintf(p.stdout, "%s: removed everything that mm pushed\n", diag.Printable(d.Source.Serial))
		return err
	})
}

func (p *program) deviceEvidence(c *cli.Context) error {
	path := c.Args().First()
	r, err := device.ReadRecord(path)
	if err != nil {
		return err
	}
	var l diag.List
	o := &device.Outcome{Record: r, Verdicts: evidence.Judge(r)}
	if o.SoC, o.Promotes = evidence.Promotes(r); !o.Promotes {
		for _, v := range o.Verdicts {
			if v.Outcome != evidence.Pass && v.Outcome != evidence.Exempt {
				l.Add(diag.EvidenceShort, diag.Pos{File: path}, fmt.Sprintf("%s: %s: %s", v.Name, v.Outcome, v.Reason), diag.EvidenceShort.Fix())
			}
		}
	}
	return p.printOutcome(o, l.Err())
}
