// Package device runs compiled models on phones: it probes a device, plans a run, pushes
// files by content, runs, pulls the outputs and judges them.
//
// A run has these steps: [Device.Probe] reads the properties of the device. [Job.Plan]
// compares the context with them, axis by axis, and lists the files to push. [Device.Push]
// stores a file under its SHA-256 and resumes an interrupted push. [Device.Run] pushes,
// runs the runner (lab/device/protocol) in a folder of that run, pulls the outputs, checks
// them, compares them with a reference and returns an evidence.Record. Faults are
// diagnostics with a code.
//
// The folder on the device, by default /data/local/tmp/mm, holds:
//
//	sha256/HEX    complete, verified files by content
//	part/HEX-HOST a file that a computer is pushing; HEX-HOST.seg its current piece
//	runs/NONCE    a run: links to files, inputs and outputs; removed after the run
//	.mm-folder    marks the folder as mm's
package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/onnx/htp"
)

// Shell runs commands on a device.
type Shell interface {
	// Exec runs a command line of a POSIX shell. A failing command is not an error.
	Exec(ctx context.Context, command string) (protocol.CommandOutput, error)
}

// Files reads and writes files on a device.
type Files interface {
	Stat(ctx context.Context, path string) (protocol.Info, error)
	// Put creates or replaces a file with the bytes of r.
	Put(ctx context.Context, path string, r io.Reader) error
	// Get reads a file of at most limit bytes.
	Get(ctx context.Context, path string, w io.Writer, limit int64) error
}

// Lane is a connection to a device.
type Lane interface {
	Shell
	Files
}

// Folder is the default folder on devices that adb connects to.
const Folder = "/data/local/tmp/mm"

// Device is a connected device.
type Device struct {
	Lane   Lane
	Source evidence.Source // recorded in the evidence
	Folder string          // absolute path on the device; if empty, Folder
	Chips  htp.Chips
	// Segment is the size of the pieces that a file is sent in; if zero, 16 MiB.
	Segment int64
	// Locks is a local folder with a lock per pushed file; if empty, one in the user's
	// temporary folder.
	Locks string
	// Patience is the time limit of a step, which grows with the bytes that it transfers;
	// if zero, one minute. A run is limited by Job.Deadline.
	Patience time.Duration
	// Progress, if not nil, is called as a file is sent.
	Progress func(name string, done, total int64)
}

// at returns a path below the folder.
func (d *Device) at(elem ...string) string {
	dir := d.Folder
	if dir == "" {
		dir = Folder
	}
	return path.Join(append([]string{dir}, elem...)...)
}

// fault returns a diagnostic about the device.
func (d *Device) fault(code diag.Code, detail string) error {
	var l diag.List
	l.Add(code, d.pos(), detail, code.Fix())
	return l.Err()
}

func (d *Device) pos() diag.Pos { return diag.Pos{File: d.Source.Serial} }

// Fault turns the error of a lane into a diagnostic, which names the cause once. It returns
// other errors unchanged.
func Fault(serial string, err error) error {
	for _, r := range []struct {
		sentinel error
		code     diag.Code
	}{
		{protocol.ErrServer, diag.DeviceServer}, {protocol.ErrNone, diag.DeviceNone}, {protocol.ErrUnauthorized, diag.DeviceUnauthorized}, {protocol.ErrOffline, diag.DeviceOffline},
		{protocol.ErrLost, diag.DeviceLost}, {protocol.ErrOld, diag.DeviceOld}, {protocol.ErrUntrusted, diag.DeviceUntrusted}, {protocol.ErrFile, ""},
	} {
		if !errors.Is(err, r.sentinel) {
			continue
		}
		code := r.code
		if code == "" {
			code = storageCode(err.Error())
		}
		var l diag.List
		l.Add(code, diag.Pos{File: serial}, detail(err, r.sentinel), code.Fix())
		return l.Err()
	}
	return err
}

// detail returns the text of err without that of the sentinel, which is the title of the diagnostic.
func detail(err, sentinel error) string {
	text := strings.Replace(err.Error(), sentinel.Error()+": ", "", 1)
	return strings.TrimSuffix(strings.TrimSuffix(text, sentinel.Error()), ": ")
}

func (d *Device) lost(err error) error { return Fault(d.Source.Serial, err) }

// storageCode returns the code for a message about storage from the device.
func storageCode(message string) diag.Code {
	for _, w := range []struct {
		words string
		code  diag.Code
	}{
		{"Required key not available", diag.DeviceLocked}, {"Read-only file system", diag.DeviceReadOnly}, {"Permission denied", diag.DeviceReadOnly}, {"No space left", diag.DeviceFull},
	} {
		if strings.Contains(message, w.words) {
			return w.code
		}
	}
	return diag.DeviceRefuses
}

// exec runs a command that must succeed.
func (d *Device) exec(ctx context.Context, command string) (string, error) {
	return d.succeed(ctx, 0, command)
}

// succeed is exec for a command that may take more seconds.
func (d *Device) succeed(ctx context.Context, more int64, command string) (string, error) {
	out, err := d.long(ctx, more, command)
	if err != nil {
		return "", err
	}
	if out.Code != 0 {
		message := strings.TrimSpace(string(out.Stderr))
		return "", d.fault(storageCode(message), fmt.Sprintf("%.80s: exit code %d: %s", command, out.Code, message))
	}
	return string(out.Stdout), nil
}
