package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/judge"
)

func (p *program) deviceProbe(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
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

// writeProbe writes what mm lab probe reads, a file of each answer. What the
// device did not say has none, nor one that an earlier probe left.
func writeProbe(ctx context.Context, path string, way wayOptions, d *device.Device, v device.Probe) error {
	said := map[string]string{judge.DevicesFile: "", judge.PropFile: v.Said.Properties, judge.MemoryFile: v.Said.Memory, judge.BatteryFile: v.Said.Battery, judge.DiskFile: v.Said.Disk, judge.ThermalFile: v.Said.Thermal}
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
	dir, err := fsx.Create(path, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	for name, text := range said {
		if text == "" {
			err = dir.Remove(name)
		} else {
			err = dir.WriteFile(name, []byte(text), 0o644)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
