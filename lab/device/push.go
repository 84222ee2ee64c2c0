package device

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/lane"
)

// segment is how much of a file is sent in one piece unless Device.Segment says
// otherwise. adbd removes what it has of a piece when the connection breaks off,
// so that this much is lost at most.
const segment = 16 << 20

// File is a file that is pushed.
type File struct {
	Name   string `json:"name"` // that the run knows it by
	Path   string `json:"path"` // here
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"` // sha256:…
	// Program is set where it is executed on the device.
	Program bool `json:"program,omitempty"`
	data    []byte
}

// NewFile hashes the file at path.
func NewFile(name, path string) (File, error) {
	n, digest, err := fsx.Digest(path)
	if err != nil {
		return File{}, err
	}
	return File{Name: name, Path: path, Bytes: n, Digest: digest}, nil
}

// fileOf is a file that lies in memory.
func fileOf(name string, data []byte) File {
	return File{Name: name, Bytes: int64(len(data)), Digest: digestOf(data), data: data}
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// source reads a file that is sent.
type source interface {
	io.ReaderAt
	io.Closer
}

type memory struct{ *strings.Reader }

// Close implements io.Closer.
func (memory) Close() error { return nil }

func (f File) open() (source, error) {
	if f.data != nil || f.Path == "" {
		return memory{strings.NewReader(string(f.data))}, nil
	}
	return fsx.OpenRegular(f.Path)
}

func (f File) hex() string { return strings.TrimPrefix(f.Digest, "sha256:") }

// Pushed is what a push did.
type Pushed struct {
	Name    string `json:"name"`
	Digest  string `json:"digest"`
	Bytes   int64  `json:"bytes"`
	There   bool   `json:"there"`         // it was on the device already
	Resumed int64  `json:"resumed_bytes"` // that an earlier push had brought
	Sent    int64  `json:"sent_bytes"`
}

// Push brings a file to its place on the device, named by its SHA-256. It is
// whole and checked there, or not there at all: it grows under another name,
// the device hashes it, and only then it gets its own. What an earlier push left
// is gone on with, if the device finds the same bytes in it. Another push of the
// file from here is waited for; those of other computers have parts of their own.
func (d *Device) Push(ctx context.Context, f File) (done Pushed, err error) {
	done = Pushed{Name: f.Name, Digest: f.Digest, Bytes: f.Bytes}
	if err := d.folder(); err != nil {
		return done, err
	}
	part, release, err := d.hold(ctx, f)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, release()) }()
	blob := d.at("sha256", f.hex())
	info, err := d.stat(ctx, blob)
	if err != nil {
		return done, err
	}
	if info.Exists && info.Size == f.Bytes {
		if sum, err := d.sum(ctx, blob, f.Bytes); err != nil || sum == f.hex() {
			done.There = err == nil
			return done, err
		}
	}
	if _, err := d.exec(ctx, d.claim()+" && "+lane.Command("mkdir", "-p", d.at("sha256"), d.at("part"))); err != nil {
		return done, err
	}
	src, err := f.open()
	if err != nil {
		return done, err
	}
	defer src.Close()
	if done.Resumed, err = d.resume(ctx, f, src, part); err != nil {
		return done, err
	}
	for at := done.Resumed; at < f.Bytes; {
		n, err := d.piece(ctx, f, src, part, at)
		if err != nil {
			return done, err
		}
		at += n
		done.Sent += n
		d.tell(f.Name, at, f.Bytes)
	}
	if f.Bytes == 0 {
		if err := d.put(ctx, part, strings.NewReader(""), 0); err != nil {
			return done, err
		}
	}
	return done, d.settle(ctx, f, part, blob)
}

func (d *Device) tell(name string, at, all int64) {
	if d.Progress != nil {
		d.Progress(name, at, all)
	}
}

// sum is the SHA-256 of a file of so many bytes, by the device.
func (d *Device) sum(ctx context.Context, name string, size int64) (string, error) {
	out, err := d.succeed(ctx, size/hashing, lane.Command("sha256sum", name))
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(out, " ")
	if b, err := hex.DecodeString(sum); err != nil || len(b) != sha256.Size {
		return "", d.fault(diag.DeviceRefuses, fmt.Sprintf("sha256sum answers %.80q", out))
	}
	return sum, nil
}

// resume gives how many bytes of the part may stay: all of it where they are the
// file's first ones, none otherwise.
func (d *Device) resume(ctx context.Context, f File, src io.ReaderAt, part string) (int64, error) {
	info, err := d.stat(ctx, part)
	if err != nil {
		return 0, err
	}
	if !info.Exists {
		return 0, nil
	}
	if info.Size > 0 && info.Size <= f.Bytes {
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(src, 0, info.Size)); err != nil {
			return 0, err
		}
		sum, err := d.sum(ctx, part, info.Size)
		if err != nil {
			return 0, err
		}
		if sum == hex.EncodeToString(h.Sum(nil)) {
			return info.Size, nil
		}
	}
	_, err = d.exec(ctx, lane.Command("rm", "-f", part))
	return 0, err
}

// piece sends the next piece and puts it behind what is there.
func (d *Device) piece(ctx context.Context, f File, src io.ReaderAt, part string, at int64) (int64, error) {
	size := d.Segment
	if size <= 0 {
		size = segment
	}
	n := min(size, f.Bytes-at)
	seg := part + ".seg"
	if err := d.put(ctx, seg, io.NewSectionReader(src, at, n), n); err != nil {
		return 0, err
	}
	info, err := d.stat(ctx, seg)
	if err != nil {
		return 0, err
	}
	if info.Size != n {
		return 0, d.fault(diag.PushDiffers, fmt.Sprintf("%s: a piece of %d bytes has %d there", f.Name, n, info.Size))
	}
	_, err = d.exec(ctx, lane.Command("cat", seg)+" >> "+lane.Quote(part)+" && "+lane.Command("rm", "-f", seg))
	return n, err
}

// settle checks what has grown and gives it its name.
func (d *Device) settle(ctx context.Context, f File, part, blob string) error {
	info, err := d.stat(ctx, part)
	if err != nil {
		return err
	}
	sum := ""
	if info.Size == f.Bytes {
		if sum, err = d.sum(ctx, part, info.Size); err != nil {
			return err
		}
	}
	if sum != f.hex() {
		_, err := d.exec(ctx, lane.Command("rm", "-f", part))
		return errors.Join(d.fault(diag.PushDiffers, fmt.Sprintf("%s: %d bytes with %s were sent, %d with sha256:%s are there", f.Name, f.Bytes, f.Digest, info.Size, sum)), err)
	}
	mode := "644"
	if f.Program {
		mode = "755"
	}
	if _, err = d.exec(ctx, lane.Command("mv", "-f", part, blob)+" && "+lane.Command("chmod", mode, blob)); err != nil {
		return err
	}
	// What was added to the part between its hash and its name made it longer.
	if info, err = d.stat(ctx, blob); err != nil || info.Size == f.Bytes {
		return err
	}
	_, err = d.exec(ctx, lane.Command("rm", "-f", blob))
	return errors.Join(d.fault(diag.PushDiffers, fmt.Sprintf("%s: %d bytes were sent, %d are there", f.Name, f.Bytes, info.Size)), err)
}
