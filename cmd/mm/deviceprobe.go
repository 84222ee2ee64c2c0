package main

import (
	"context"

	"github.com/urfave/cli/v2"

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
