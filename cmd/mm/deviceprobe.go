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

// writeProbe writes the raw properties of a device for mm lab probe, a file each. A
// property that the device did not report has no file; an older one is removed.
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
