package device

import (
	"context"
	"path/filepath"

	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/ssh"
	"mm-abi.org/mm/modules/qnnfile"
)

// Way describes the connection to a device: over adb, or to a host of SSH.
type Way struct {
	Server, Serial  string // of adb; a serial is required if several devices are connected
	SSH             string
	Key, KnownHosts string // files of SSH
	Folder          string // on the device; if empty, the usual one
	Chips           string // file of further chips
	Home            string // of mm on this machine
	Tool            string // that evidence names
}

// Connect connects to a device for fn.
func (w Way) Connect(ctx context.Context, fn func(*Device) error) error {
	chips, err := qnnfile.Chips(w.Chips)
	if err != nil {
		return err
	}
	d := &Device{Folder: w.Folder, Locks: filepath.Join(w.Home, "device", "push"), Chips: chips, Source: evidence.Source{Tool: w.Tool}}
	if w.SSH != "" {
		l, err := ssh.Dial(ctx, ssh.Options{Host: w.SSH, Key: w.Key, KnownHosts: w.KnownHosts})
		if err != nil {
			return Fault(w.SSH, err)
		}
		defer l.Close()
		d.Lane, d.Source.Lane, d.Source.Address, d.Source.Serial = l, "ssh", w.SSH, w.SSH
		if d.Folder == "" {
			d.Folder = l.Home() + "/mm"
		}
		return fn(d)
	}
	client := adb.Client{Addr: w.Server}
	l, err := Choose(ctx, client, w.Serial)
	if err != nil {
		return err
	}
	d.Lane, d.Source.Lane, d.Source.Address, d.Source.Serial = l, "adb", client.Address(), l.Serial
	return fn(d)
}

// Line returns the line of adb devices about d; empty over SSH.
func (w Way) Line(ctx context.Context, d *Device) (string, error) {
	if w.SSH != "" {
		return "", nil
	}
	list, err := adb.Client{Addr: w.Server}.Devices(ctx)
	if err != nil {
		return "", Fault("", err)
	}
	for _, one := range list {
		if one.Serial == d.Source.Serial {
			return "List of devices attached\n" + one.Line() + "\n", nil
		}
	}
	return "", nil
}
