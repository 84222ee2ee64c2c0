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
	"mm-abi.org/mm/lab/device/samples"
	"mm-abi.org/mm/lab/device/ssh"
	"mm-abi.org/mm/modules/qnnfile"
	"mm-abi.org/mm/workspace"
)

func (p *program) deviceCommand() *cli.Command {
	way := []cli.Flag{
		p.jsonFlag(),
		&cli.StringFlag{Name: "serial", Aliases: []string{"s"}, Usage: "`NUMBER` of the device, where there are several"},
		&cli.StringFlag{Name: "server", Usage: "`ADDRESS` of the adb server (default: 127.0.0.1:5037, or by ANDROID_ADB_SERVER_PORT)"},
		&cli.StringFlag{Name: "ssh", Usage: "`USER@HOST[:PORT]` of a device with an SSH server, in the place of adb; the port is 8022"},
		&cli.StringFlag{Name: "key", Usage: "`FILE` of the SSH key", Value: "~/.ssh/id_ed25519"},
		&cli.StringFlag{Name: "known-hosts", Usage: "`FILE` of known hosts", Value: "~/.ssh/known_hosts"},
		&cli.StringFlag{Name: "folder", Usage: "`FOLDER` on the device (default: /data/local/tmp/mm; by SSH, mm in the home)"},
		&cli.StringFlag{Name: "socs", Usage: "table of chips of your own, a CSV `FILE` whose rows come before ours"},
	}
	job := []cli.Flag{
		&cli.StringFlag{Name: "runner", Usage: "`FILE` of the runner, built for the device", Required: true},
		&cli.StringFlag{Name: "libs", Usage: "`FOLDER` of the QNN libraries for the device", Required: true},
		&cli.StringFlag{Name: "graph", Usage: "`NAME` of the context's graph, where it has several"},
		&cli.IntFlag{Name: "samples", Value: 3, Usage: "sets of inputs, drawn from the run's nonce"},
		&cli.IntFlag{Name: "repeat", Value: 10, Usage: "inferences of each, for timing"},
		&cli.DurationFlag{Name: "deadline", Value: 2 * time.Minute, Usage: "how long the runner may take"},
		&cli.IntFlag{Name: "battery", Value: device.MinBattery, Usage: "least percent of the battery without a charger"},
		&cli.BoolFlag{Name: "same-arch", Usage: "take a context for another chip of the same architecture"},
		&cli.StringSliceFlag{Name: "accept", Usage: "`AXIS` of mm qnn check that may be unknown (repeatable)"},
		&cli.StringFlag{Name: "nonce", Usage: "`HEX` that names the run (default: drawn); a record of one that was chosen confirms nothing"},
	}
	with := func(more ...cli.Flag) []cli.Flag { return append(append([]cli.Flag{}, way...), more...) }
	return &cli.Command{
		Name: "device", Usage: "run compiled models on phones, and keep what proves it",
		Description: "Devices are reached through the adb server of Android's tools, or by SSH. docs/DEVICES.md has the\nrunner, the records and what tells a device from an emulation.",
		Subcommands: []*cli.Command{
			{Name: "ls", Aliases: []string{"list"}, Usage: "list the devices that the adb server knows", Flags: []cli.Flag{p.jsonFlag(), way[2]}, Action: p.deviceLs},
			{Name: "probe", Usage: "show what a device says of itself", Flags: with(&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FOLDER` to write the answers to, as mm lab probe reads them"}), Action: p.deviceProbe},
			{Name: "plan", Usage: "say what a run would push and what speaks against it", ArgsUsage: "CONTEXT", Flags: with(job...), Action: p.devicePlan},
			{Name: "push", Usage: "bring files to a device, named by their SHA-256", ArgsUsage: "FILE…", Flags: with(), Action: p.devicePush,
				Description: "A push that broke off goes on where it stopped; the device hashes what came."},
			{
				Name: "run", Usage: "run a context on a device, check its outputs and leave a record", ArgsUsage: "CONTEXT",
				Flags: with(append(job,
					&cli.StringFlag{Name: "reference", Usage: "ONNX `FILE` that the context was compiled from, computed here and compared"},
					&cli.StringSliceFlag{Name: "inputs", Aliases: []string{"i"}, Usage: "one set of inputs (repeatable): `FILE` (.npy, .json, .raw, a picture or a sound), NAME=FILE,NAME=FILE, an .npz, or a folder of NAME.npy or of SSSS/I.raw"},
					&cli.StringFlag{Name: "module", Usage: "`FOLDER` of the module whose manifest prepares pictures and sounds"},
					&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FILE` to write the record to as well"},
					&cli.StringFlag{Name: "sign", Usage: "sign the record with a private key `FILE`; default is the one of mm keys generate"},
					&cli.StringFlag{Name: "outputs", Usage: "`FOLDER` to write the outputs to, SSSS/I.raw as the device has them and SSSS/I.npy"},
					&cli.BoolFlag{Name: "keep", Usage: "leave the run's folder on the device"})...),
				Action: p.deviceRun,
			},
			{Name: "pull", Usage: "bring a file from a device's folder", ArgsUsage: "NAME", Flags: with(&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FILE` to write", Required: true}), Action: p.devicePull},
			{Name: "rm", Usage: "take away all that mm has pushed to a device", Flags: with(), Action: p.deviceRm},
			{
				Name: "sign", Usage: "vouch for a record", ArgsUsage: "FILE",
				Flags:  []cli.Flag{p.jsonFlag(), &cli.StringFlag{Name: "key", Usage: "private key `FILE` (default: the one of mm keys generate)"}},
				Action: p.deviceSign,
			},
			{
				Name: "verify", Usage: "check who vouches for a record; exit code 4 unless a trusted key does", ArgsUsage: "FILE",
				Description: "Trusted is what the trust file lets sign " + evidenceName + ".",
				Flags:       []cli.Flag{p.jsonFlag(), &cli.StringSliceFlag{Name: "key", Usage: "public key `FILE` to trust instead of the trust file (repeatable)"}},
				Action:      p.deviceVerify,
			},
			{Name: "evidence", Usage: "judge a record; exit code 5 unless it shows a run on the chip", ArgsUsage: "FILE", Flags: []cli.Flag{p.jsonFlag()}, Action: p.deviceEvidence},
		},
	}
}

// wayOptions say how a device is reached.
type wayOptions struct {
	server, serial, ssh, key, known, folder, socs string
}

func deviceWayOptions(c *cli.Context) wayOptions {
	return wayOptions{c.String("server"), c.String("serial"), c.String("ssh"), homely(c.String("key")), homely(c.String("known-hosts")), c.String("folder"), c.String("socs")}
}

// homely spells out a ~ before a path.
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

// onDevice opens the way to a device for fn.
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
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	list, err := adb.Client{Addr: c.String("server")}.Devices(c.Context)
	if err != nil {
		return device.Fault("", err)
	}
	if p.json {
		return p.printJSON(listed(list))
	}
	var rows [][]string
	for _, d := range list {
		rows = append(rows, []string{d.Serial, d.State, d.Extra["model"], d.Extra["product"]})
	}
	return p.printTable([]string{"SERIAL", "STATE", "MODEL", "PRODUCT"}, rows)
}

func deviceJobOptions(c *cli.Context) (device.Job, error) {
	j := device.Job{Context: c.Args().First(), Runner: c.String("runner"), Libs: c.String("libs"), Graph: c.String("graph"), Count: c.Int("samples"), Repeat: c.Int("repeat"),
		Deadline: c.Duration("deadline"), Battery: c.Int("battery"), SameArch: c.Bool("same-arch"), Accept: c.StringSlice("accept"), Nonce: c.String("nonce"), Keep: c.Bool("keep")}
	if j.Count < 1 || j.Repeat < 1 || j.Deadline <= 0 {
		return j, usageError{errors.New("--samples, --repeat and --deadline are above 0")}
	}
	return j, nil
}

func (p *program) devicePlan(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	j, err := deviceJobOptions(c)
	if err != nil {
		return err
	}
	return p.onDevice(c.Context, deviceWayOptions(c), func(d *device.Device) error {
		plan, err := j.Plan(c.Context, d)
		if err != nil {
			return err
		}
		return p.printPlan(plan)
	})
}

func (p *program) devicePush(c *cli.Context) error {
	if err := wantArgs(c, 1, -1); err != nil {
		return err
	}
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
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	j, err := deviceJobOptions(c)
	if err != nil {
		return err
	}
	if c.IsSet("inputs") && c.IsSet("samples") {
		return usageError{errors.New("--samples counts what is drawn, and --inputs gives it")}
	}
	if list := c.StringSlice("inputs"); len(list) > 0 {
		if j.Samples, err = samples.Read(c.Context, j, samples.Options{Places: list, Module: c.String("module")}); err != nil {
			return err
		}
	}
	o := deviceRunOptions{j, deviceWayOptions(c), c.String("reference"), c.String("out"), c.String("outputs"), c.String("sign")}
	return p.inWorkspace(workspace.Options{}, func(w *workspace.Workspace) error { return p.runOnDevice(c.Context, w, o) })
}

// deviceRunOptions are those of mm device run.
type deviceRunOptions struct {
	job                     device.Job
	way                     wayOptions
	reference, out, outputs string
	sign                    string // private key; "": the record is not signed
}

// runOnDevice runs, and keeps the record whatever the checks say of the outputs.
func (p *program) runOnDevice(ctx context.Context, w *workspace.Workspace, o deviceRunOptions) error {
	o.job.Time = time.Now().UTC().Format(time.RFC3339)
	if o.reference != "" {
		m, err := samples.OpenReference(ctx, o.reference)
		if err != nil {
			return err
		}
		defer m.Close()
		o.job.Reference, o.job.Engine, o.job.Model = m, samples.ReferenceEngine, m.Digest
	}
	folder := filepath.Join(w.Home(), "device", "evidence")
	key, err := p.evidenceKey(w, o.sign)
	if err != nil {
		return err
	}
	if o.job.Before, err = records(folder); err != nil {
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
			if err := fsx.Replace(path, 0o644, func(f io.Writer) error { return writeRecord(f, out.Record) }); err != nil {
				return errors.Join(failed, fmt.Errorf("writing the record: %w", err))
			}
		}
		w.Record(ctx, audit.Entry{Action: "device", Ref: d.Source.Serial + " " + out.Record.Device.SoC, Digest: out.Record.Digest, Result: workspace.Outcome(failed)})
		if err := writeDeviceOutputs(o.outputs, out); err != nil {
			return errors.Join(failed, err)
		}
		return p.printOutcome(out, failed)
	})
}

func (p *program) devicePull(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	name := filepath.ToSlash(c.Args().First())
	if !filepath.IsLocal(c.Args().First()) {
		return usageError{fmt.Errorf("%s is no name below the device's folder", name)}
	}
	return p.onDevice(c.Context, deviceWayOptions(c), func(d *device.Device) error {
		v, err := d.Pull(c.Context, name, c.String("out"))
		if err != nil {
			return err
		}
		if p.json {
			return p.printJSON(v)
		}
		return p.printTable([]string{"FILE", "SIZE", "DIGEST"}, [][]string{{v.Path, size(v.Bytes), short(v.Digest)}})
	})
}

func (p *program) deviceRm(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	return p.onDevice(c.Context, deviceWayOptions(c), func(d *device.Device) error {
		if err := d.Remove(c.Context); err != nil {
			return err
		}
		if p.json {
			return p.printJSON(struct {
				Serial string `json:"serial"`
			}{d.Source.Serial})
		}
		_, err := fmt.Fprintf(p.stdout, "%s: all that mm pushed is gone\n", diag.Printable(d.Source.Serial))
		return err
	})
}

func (p *program) deviceEvidence(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	path := c.Args().First()
	r, err := readRecord(path)
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
