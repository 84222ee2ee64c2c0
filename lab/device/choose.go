package device

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/device/protocol"
)

// Choose connects to the device with the serial number, or to the only device if serial is
// empty. It never replaces a device that is not ready by another one.
func Choose(ctx context.Context, c adb.Client, serial string) (*adb.Lane, error) {
	list, err := c.Devices(ctx)
	if err != nil {
		return nil, Fault("", err)
	}
	var l diag.List
	var names []string
	for _, d := range list {
		names = append(names, d.Serial+" ("+d.State+")")
	}
	if serial == "" {
		switch len(list) {
		case 0:
			l.Add(diag.DeviceNone, diag.Pos{}, "no device at the adb server "+c.Address(), diag.DeviceNone.Fix())
			return nil, l.Err()
		case 1:
			serial = list[0].Serial
		default:
			l.Add(diag.DeviceMany, diag.Pos{}, strings.Join(names, ", "), diag.DeviceMany.Fix())
			return nil, l.Err()
		}
	}
	for _, d := range list {
		if d.Serial != serial {
			continue
		}
		if err := state(d); err != nil {
			return nil, Fault(serial, err)
		}
		l, err := c.Lane(ctx, serial)
		return l, Fault(serial, err)
	}
	l.Add(diag.DeviceNone, diag.Pos{File: serial}, fmt.Sprintf("devices at the adb server %s: %s", c.Address(), cmp.Or(strings.Join(names, ", "), "none")), diag.DeviceNone.Fix())
	return nil, l.Err()
}

// state returns an error unless the device is ready.
func state(d adb.Device) error {
	switch d.State {
	case "device":
		return nil
	case "unauthorized", "authorizing", "no permissions":
		return fmt.Errorf("%w: %s", protocol.ErrUnauthorized, d.State)
	}
	return fmt.Errorf("%w: %s", protocol.ErrOffline, d.State)
}
