package device

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// Pull copies a file below the device's folder to a local path, completely or not at all.
// Its size and SHA-256 must match those on the device.
func (d *Device) Pull(ctx context.Context, name, path string) (File, error) {
	f := File{Name: name, Path: path}
	if err := d.folder(); err != nil {
		return f, err
	}
	at := d.at(name)
	info, err := d.stat(ctx, at)
	if err != nil {
		return f, err
	}
	if !info.Exists || info.Dir {
		return f, d.fault(diag.DeviceRefuses, fmt.Sprintf("%s is not a file", at))
	}
	sum, err := d.sum(ctx, at, info.Size)
	if err != nil {
		return f, err
	}
	f.Bytes, f.Digest = info.Size, "sha256:"+sum
	return f, fsx.Replace(path, 0o644, func(w io.Writer) error {
		h := sha256.New()
		if err := d.get(ctx, at, io.MultiWriter(w, h), info.Size); err != nil {
			return err
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != sum {
			return d.fault(diag.PushDiffers, fmt.Sprintf("%s: got sha256:%s, the device has sha256:%s", at, got, sum))
		}
		return nil
	})
}
