package device

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/device/lane"
)

// Choose opens the way to the device with a serial number, or to the only one
// there is where none is given. A device that is not ready is never passed over
// for another.
func Choose(ctx context.Context, c adb.Client, serial string) (*adb.Lane, error) {
	list, err := c.Devices(ctx)
	if err != nil {
		return nil, Fault("", err)
	}
	var l diag.List
	var there []string
	for _, d := range list {
		there = append(there, d.Serial+" ("+d.State+")")
	}
	if serial == "" {
		switch len(list) {
		case 0:
			l.Add(diag.DeviceNone, diag.Pos{}, "the adb server at "+c.Address()+" knows none", diag.DeviceNone.Fix())
			return nil, l.Err()
		case 1:
			serial = list[0].Serial
		default:
			l.Add(diag.DeviceMany, diag.Pos{}, strings.Join(there, ", "), diag.DeviceMany.Fix())
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
		way, err := c.Lane(ctx, serial)
		return way, Fault(serial, err)
	}
	l.Add(diag.DeviceNone, diag.Pos{File: serial}, fmt.Sprintf("the adb server at %s knows %s", c.Address(), cmp.Or(strings.Join(there, ", "), "none")), diag.DeviceNone.Fix())
	return nil, l.Err()
}

// state says why a device is not ready.
func state(d adb.Device) error {
	switch d.State {
	case "device":
		return nil
	case "unauthorized", "authorizing", "no permissions":
		return fmt.Errorf("%w: %s", lane.ErrUnauthorized, d.State)
	}
	return fmt.Errorf("%w: %s", lane.ErrOffline, d.State)
}
