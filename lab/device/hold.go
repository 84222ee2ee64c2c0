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

// hostFile is the file among the locks that holds the name of their folder, by
// which parts on a device are told from those of other computers.
const hostFile = "host"

// hold waits until no other push of the file to the device is under way by these
// locks, and gives the name of the part that is theirs. The lock goes with the
// process, so that whoever finds a part with it held finds one that nobody adds to.
func (d *Device) hold(ctx context.Context, f File) (part string, release func() error, err error) {
	path := d.Locks
	if path == "" {
		path = filepath.Join(os.TempDir(), fmt.Sprintf("mm-push-%d", os.Getuid()))
	}
	dir, err := fsx.Create(path, 0o700, fsx.Options{})
	if err != nil {
		return "", nil, fmt.Errorf("the locks of pushes: %w", err)
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

// hostOf is the name of a folder of locks, which is drawn when it is first asked
// for.
func hostOf(dir *fsx.Dir) (string, error) {
	text, err := fs.ReadFile(dir.Root().FS(), hostFile)
	if err == nil && hostName.Match(text) {
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
