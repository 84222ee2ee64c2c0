package farm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// maxPlaces bounds the workers of one user on a machine.
const maxPlaces = 256

// Place takes the folder of a worker: dir or, if that is empty, the first free one below
// home. Its lock is free when the process ends.
func Place(ctx context.Context, dir, home string) (path string, lock *fsx.Lock, err error) {
	if dir != "" {
		lock, err = occupy(ctx, dir)
		return dir, lock, err
	}
	for i := range maxPlaces {
		path = filepath.Join(home, fmt.Sprint(i+1))
		if lock, err = occupy(ctx, path); !errors.Is(err, fsx.ErrLocked) {
			return path, lock, err
		}
	}
	return "", nil, fmt.Errorf("%s: %d workers run already", home, maxPlaces)
}

// occupy creates and locks a folder.
func occupy(ctx context.Context, dir string) (*fsx.Lock, error) {
	d, err := fsx.Create(dir, 0o700, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	lock, err := d.TryLock(ctx, ".worker.lock")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return lock, nil
}

// Name returns the name of a worker in a folder, unique among machines.
func Name(dir string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	valid := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	return fmt.Sprintf("%.40s-%s", valid, hexSum([]byte(host + "\x00" + abs))[:8])
}
