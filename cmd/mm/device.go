package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// wayOptions returns the connection to a device.
func wayOptions(c *cli.Context) device.Way {
	return device.Way{Server: c.String("server"), Serial: c.String("serial"), SSH: c.String("ssh"), Key: homely(c.String("key")), KnownHosts: homely(c.String("known-hosts")),
		Folder: c.String("folder"), Chips: c.String("socs"), Tool: "mm " + built().Version}
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
func (p *program) onDevice(ctx context.Context, way device.Way, fn func(*device.Device) error) (err error) {
	if way.Home, err = workspace.DefaultHome(); err != nil {
		return err
	}
	return way.Connect(ctx, fn)
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
	return p.onDevice(c.Context, wayOptions(c), func(d *device.Device) error {
		plan, err := j.Plan(c.Context, d)
		if err != nil {
			return err
		}
		return p.printPlan(plan)
	})
}

func (p *program) devicePush(c *cli.Context) error {
	return p.onDevice(c.Context, wayOptions(c), func(d *device.Device) error {
		done, err := d.PushFiles(c.Context, c.Args().Slice())
		if err != nil {
			return err
		}
		return printRows(p, done, []string{"FILE", "SIZE", "DIGEST", "RESUMED", "SENT"}, func(x device.Pushed) []string {
			return []string{x.Name, size(x.Bytes), short(x.Digest), size(x.Resumed), size(x.Sent)}
		})
	})
}

func (p *program) deviceRun(c *cli.Context, w *workspace.Workspace) (err error) {
	j, ctx := deviceJobOptions(c), c.Context
	if c.IsSet("inputs") && c.IsSet("samples") {
		return diag.Usagef("--samples is for drawn inputs, not for --inputs")
	}
	if list := c.StringSlice("inputs"); len(list) > 0 {
		if j.Samples, err = device.ReadSamples(ctx, j, device.SampleOptions{Places: list, Module: c.String("module")}); err != nil {
			return err
		}
	}
	j.Time = time.Now().UTC().Format(time.RFC3339)
	if file := c.String("reference"); file != "" {
		m, err := device.OpenReference(ctx, file)
		if err != nil {
			return err
		}
		defer m.Close()
		j.Reference, j.Engine, j.Model = m, device.ReferenceEngine, m.Digest
	}
	var key *sign.PrivateKey
	if file := c.String("sign"); file != "" {
		s, err := w.Signer(file, p.password)
		if err != nil {
			return err
		}
		key = s.Key
	}
	folder := filepath.Join(w.Home(), "device", "evidence")
	if j.Before, err = evidence.ReadFolder(folder); err != nil {
		return err
	}
	return p.onDevice(ctx, wayOptions(c), func(d *device.Device) error {
		out, failed := d.Run(ctx, j)
		if out == nil {
			w.Record(ctx, audit.Entry{Action: "device", Ref: d.Source.Serial, Result: workspace.Outcome(failed)})
			return failed
		}
		if err := p.keepOutcome(out, key, folder, c.String("out")); err != nil {
			return errors.Join(failed, err)
		}
		w.Record(ctx, audit.Entry{Action: "device", Ref: d.Source.Serial + " " + out.Record.Device.SoC, Digest: out.Record.Digest, Result: workspace.Outcome(failed)})
		if dir := c.String("outputs"); dir != "" {
			if err := device.WriteOutputs(dir, out); err != nil {
				return errors.Join(failed, err)
			}
		}
		return p.printOutcome(out, failed)
	})
}

// keepOutcome signs the record of a run if there is a key, and writes it, even if its
// checks failed.
func (p *program) keepOutcome(out *device.Outcome, key *sign.PrivateKey, folder, path string) error {
	if key != nil {
		if err := out.Record.Sign(key, key.Public().KeyID()); err != nil {
			return err
		}
	}
	return evidence.Keep(folder, out.Record, path)
}

func (p *program) devicePull(c *cli.Context) error {
	name := filepath.ToSlash(c.Args().First())
	if !filepath.IsLocal(c.Args().First()) {
		return diag.Usagef("%s: path outside of the folder on the device", name)
	}
	return p.onDevice(c.Context, wayOptions(c), func(d *device.Device) error {
		v, err := d.Pull(c.Context, name, c.String("out"))
		return show(p, v, err, func(v device.File) error {
			return p.PrintTable([]string{"FILE", "SIZE", "DIGEST"}, [][]string{{v.Path, size(v.Bytes), short(v.Digest)}})
		})
	})
}

func (p *program) deviceRm(c *cli.Context) error {
	return p.onDevice(c.Context, wayOptions(c), func(d *device.Device) error {
		if err := d.Remove(c.Context); err != nil {
			return err
		}
		return p.PrintLine(map[string]string{"serial": d.Source.Serial}, "%s: removed everything that mm pushed", d.Source.Serial)
	})
}

func (p *program) deviceEvidence(c *cli.Context) error {
	path := c.Args().First()
	r, err := device.ReadRecord(path)
	if err != nil {
		return err
	}
	return p.printOutcome(device.JudgeRecord(path, r))
}
