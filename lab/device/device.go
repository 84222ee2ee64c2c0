// Package device runs compiled models on phones: it looks at a device, plans what
// a run needs, pushes files by their content, runs, pulls the outputs back and
// says what may be believed of them.
//
// The way of a run: [Device.Probe] asks the device what it is; [Job.Plan] holds
// the context against it, axis by axis, and lists what is to be pushed;
// [Device.Push] brings a file to its place, under its SHA-256, and goes on where an
// earlier push broke off; [Device.Run] pushes, runs the runner (lab/device/protocol) in
// a folder of that run alone, pulls, checks, compares with a reference and leaves
// an evidence.Record. What goes wrong is a diagnostic with a code of its own.
//
// The folder on the device, /data/local/tmp/mm unless another is named:
//
//	sha256/HEX    files by their content, whole and checked
//	part/HEX-HOST a file that is under way from a computer; ….seg the piece that
//	              comes
//	runs/NONCE    one run: links to files, inputs, outputs
//	.mm-folder    says that the folder is mm's
package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"mm-abi.org/mm/core/htp/fit"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/lane"
)

// Shell runs commands on a device.
type Shell interface {
	// Exec runs a command line of a POSIX shell. That it fails is no error.
	Exec(ctx context.Context, command string) (lane.Output, error)
}

// Files reads and writes files on a device.
type Files interface {
	Stat(ctx context.Context, path string) (lane.Info, error)
	// Put makes a file anew of the bytes of r.
	Put(ctx context.Context, path string, r io.Reader) error
	// Get reads a file of at most limit bytes.
	Get(ctx context.Context, path string, w io.Writer, limit int64) error
}

// Lane is a way to one device.
type Lane interface {
	Shell
	Files
}

// Folder is where files lie on a device that is reached by adb.
const Folder = "/data/local/tmp/mm"

// Device is a device and the way to it.
type Device struct {
	Lane   Lane
	Source evidence.Source // for the record
	Folder string          // on the device, from / on; "" is Folder
	Chips  fit.Chips
	// Segment is how many bytes of a file are sent in one piece; 0 is 16 MiB.
	Segment int64
	// Locks is a folder on this computer by whose locks pushes of one file wait for
	// each other; "" is one of the user's among the temporary files.
	Locks string
	// Patience is how long a step may take, and longer by what it moves; 0 is a
	// minute. A run has Job.Deadline.
	Patience time.Duration
	// Progress is told how much of a file is there; nil for nobody.
	Progress func(name string, done, total int64)
}

// at is a path below the folder.
func (d *Device) at(elem ...string) string {
	dir := d.Folder
	if dir == "" {
		dir = Folder
	}
	return path.Join(append([]string{dir}, elem...)...)
}

// fault makes a diagnostic about the device.
func (d *Device) fault(code diag.Code, detail string) error {
	var l diag.List
	l.Add(code, d.pos(), detail, code.Fix())
	return l.Err()
}

func (d *Device) pos() diag.Pos { return diag.Pos{File: d.Source.Serial} }

// Fault makes a diagnostic of why a lane could not do what was asked. Errors that
// are none of a lane's are given back as they are.
func Fault(serial string, err error) error {
	for _, r := range []struct {
		why  error
		code diag.Code
	}{
		{lane.ErrServer, diag.DeviceServer}, {lane.ErrNone, diag.DeviceNone}, {lane.ErrUnauthorized, diag.DeviceUnauthorized}, {lane.ErrOffline, diag.DeviceOffline},
		{lane.ErrLost, diag.DeviceLost}, {lane.ErrOld, diag.DeviceOld}, {lane.ErrUntrusted, diag.DeviceUntrusted}, {lane.ErrFile, ""},
	} {
		if !errors.Is(err, r.why) {
			continue
		}
		code := r.code
		if code == "" {
			code = wording(err.Error())
		}
		var l diag.List
		l.Add(code, diag.Pos{File: serial}, err.Error(), code.Fix())
		return l.Err()
	}
	return err
}

func (d *Device) lost(err error) error { return Fault(d.Source.Serial, err) }

// wording is the code of what a device's system says about its storage.
func wording(said string) diag.Code {
	for _, w := range []struct {
		words string
		code  diag.Code
	}{
		{"Required key not available", diag.DeviceLocked}, {"Read-only file system", diag.DeviceReadOnly}, {"Permission denied", diag.DeviceReadOnly}, {"No space left", diag.DeviceFull},
	} {
		if strings.Contains(said, w.words) {
			return w.code
		}
	}
	return diag.DeviceRefuses
}

// exec runs a command that must succeed.
func (d *Device) exec(ctx context.Context, command string) (string, error) {
	return d.succeed(ctx, 0, command)
}

// succeed is exec of a command that may take some seconds more.
func (d *Device) succeed(ctx context.Context, more int64, command string) (string, error) {
	out, err := d.long(ctx, more, command)
	if err != nil {
		return "", err
	}
	if out.Code != 0 {
		said := strings.TrimSpace(string(out.Stderr))
		return "", d.fault(wording(said), fmt.Sprintf("%.80s: exit code %d: %s", command, out.Code, said))
	}
	return string(out.Stdout), nil
}
