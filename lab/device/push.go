package device

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/protocol"
)

// segment is the default of Device.Segment. adbd discards a partial piece when the
// connection breaks, so that at most this much is lost.
const segment = 16 << 20

// File is a file to push.
type File struct {
	Name   string `json:"name"` // path in the folder of the run
	Path   string `json:"path"` // local path
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"` // sha256:…
	// Program is set if the file is executed on the device.
	Program bool `json:"program,omitempty"`
}

// NewFile returns the file at path with its digest.
func NewFile(name, path string) (File, error) {
	n, digest, err := fsx.Digest(path)
	if err != nil {
		return File{}, err
	}
	return File{Name: name, Path: path, Bytes: n, Digest: digest}, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (f File) hex() string { return strings.TrimPrefix(f.Digest, "sha256:") }

// Pushed is the result of a push.
type Pushed struct {
	Name    string `json:"name"`
	Digest  string `json:"digest"`
	Bytes   int64  `json:"bytes"`
	There   bool   `json:"there"`         // the device already had it
	Resumed int64  `json:"resumed_bytes"` // sent by an earlier push
	Sent    int64  `json:"sent_bytes"`
}

// Push stores a file on the device under its SHA-256. The file is written under another
// name and renamed after the device has hashed it, so that it is complete or missing. If an
// interrupted push left a prefix that the device can verify, Push resumes there. It waits
// for other pushes of the file from this computer; those from other computers use other
// parts.
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
	if _, err := d.exec(ctx, d.claim()+" && "+protocol.Command("mkdir", "-p", d.at("sha256"), d.at("part"))); err != nil {
		return done, err
	}
	src, err := fsx.OpenRegular(f.Path)
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
		d.progress(f.Name, at, f.Bytes)
	}
	if f.Bytes == 0 {
		if err := d.put(ctx, part, strings.NewReader(""), 0); err != nil {
			return done, err
		}
	}
	return done, d.settle(ctx, f, part, blob)
}

func (d *Device) progress(name string, at, all int64) {
	if d.Progress != nil {
		d.Progress(name, at, all)
	}
}

// sum returns the SHA-256 that the device computes of a file of size bytes.
func (d *Device) sum(ctx context.Context, name string, size int64) (string, error) {
	out, err := d.succeed(ctx, size/hashing, protocol.Command("sha256sum", name))
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(out, " ")
	if b, err := hex.DecodeString(sum); err != nil || len(b) != sha256.Size {
		return "", d.fault(diag.DeviceRefuses, fmt.Sprintf("unexpected output of sha256sum: %.80q", out))
	}
	return sum, nil
}

// resume returns the length of the part if it is a prefix of the file; otherwise it removes
// the part.
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
	_, err = d.exec(ctx, protocol.Command("rm", "-f", part))
	return 0, err
}

// piece sends the next piece and appends it to the part.
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
		return 0, d.fault(diag.PushDiffers, fmt.Sprintf("%s: piece size mismatch: sent %d bytes, device has %d", f.Name, n, info.Size))
	}
	_, err = d.exec(ctx, protocol.Command("cat", seg)+" >> "+protocol.Quote(part)+" && "+protocol.Command("rm", "-f", seg))
	return n, err
}

// settle verifies the part and renames it.
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
		_, err := d.exec(ctx, protocol.Command("rm", "-f", part))
		return errors.Join(d.fault(diag.PushDiffers, fmt.Sprintf("%s: sent %d bytes with %s, device has %d with sha256:%s", f.Name, f.Bytes, f.Digest, info.Size, sum)), err)
	}
	mode := "644"
	if f.Program {
		mode = "755"
	}
	if _, err = d.exec(ctx, protocol.Command("mv", "-f", part, blob)+" && "+protocol.Command("chmod", mode, blob)); err != nil {
		return err
	}
	// Data appended to the part between hashing and renaming changes its length.
	if info, err = d.stat(ctx, blob); err != nil || info.Size == f.Bytes {
		return err
	}
	_, err = d.exec(ctx, protocol.Command("rm", "-f", blob))
	return errors.Join(d.fault(diag.PushDiffers, fmt.Sprintf("%s: sent %d bytes, device has %d", f.Name, f.Bytes, info.Size)), err)
}

// PushFiles pushes files under their own names.
func (d *Device) PushFiles(ctx context.Context, paths []string) ([]Pushed, error) {
	all := []Pushed{}
	for _, path := range paths {
		f, err := NewFile(filepath.Base(path), path)
		if err != nil {
			return all, err
		}
		one, err := d.Push(ctx, f)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}
