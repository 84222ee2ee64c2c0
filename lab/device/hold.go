package device

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// hostFile is the file in the lock folder that holds this computer's name for parts on
// devices.
const hostFile = "host"

// hold waits until no other push of the file to the device holds its lock, and returns the
// name of its part. The lock ends with the process, so nothing is writing to the part while
// the lock is held.
func (d *Device) hold(ctx context.Context, f File) (part string, release func() error, err error) {
	path := d.Locks
	if path == "" {
		path = filepath.Join(os.TempDir(), fmt.Sprintf("mm-push-%d", os.Getuid()))
	}
	dir, err := fsx.Create(path, 0o700, fsx.Options{})
	if err != nil {
		return "", nil, fmt.Errorf("push locks: %w", err)
	}
	lock, err := dir.Lock(ctx, digestOf([]byte(d.Source.Serial + "\n" + f.Digest))[len("sha256:"):]+".lock")
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("waiting for another push of %s: %w", f.Name, err), dir.Close())
	}
	release = func() error { return errors.Join(lock.RemoveUnlock(), dir.Close()) }
	host, err := hostOf(dir)
	if err != nil {
		return "", nil, errors.Join(err, release())
	}
	return d.at("part", f.hex()+"-"+host), release, nil
}

// hostOf returns the name in a lock folder, which is random and created on first use.
func hostOf(dir *fsx.Dir) (string, error) {
	text, err := fs.ReadFile(dir.Root().FS(), hostFile)
	if err == nil && hostName().Match(text) {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var b [8]byte
	crand.Read(b[:])
	name := hex.EncodeToString(b[:])
	return name, dir.WriteFile(hostFile, []byte(name), 0o600)
}
