package fsx

import (
	"context"
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is the interval at which a waiting process retries.
const lockPoll = 2 * time.Millisecond

// ErrLocked reports that another process or goroutine holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock is an advisory lock (flock(2), LockFileEx) on a lock file, between processes as well
// as goroutines. The kernel releases it when the process dies.
type Lock struct {
	d    *Dir
	name string
	l    *flock.Flock
}

// Lock waits for the exclusive lock on the file name, which is created if missing.
func (d *Dir) Lock(ctx context.Context, name string) (*Lock, error) {
	return d.lock(ctx, name, (*flock.Flock).TryLock, true)
}

// RLock waits for a shared lock on the file name.
func (d *Dir) RLock(ctx context.Context, name string) (*Lock, error) {
	return d.lock(ctx, name, (*flock.Flock).TryRLock, true)
}

// TryLock takes the exclusive lock on the file name or returns [ErrLocked].
func (d *Dir) TryLock(ctx context.Context, name string) (*Lock, error) {
	return d.lock(ctx, name, (*flock.Flock).TryLock, false)
}

func (d *Dir) lock(ctx context.Context, name string, try func(*flock.Flock) (bool, error), wait bool) (*Lock, error) {
	lock := &Lock{d: d, name: name}
	err := d.run(Op{Kind: OpLock, Name: name}, func() error {
		for {
			l := flock.New(d.join(name), flock.SetPermissions(0o644))
			ok, err := try(l)
			if err != nil {
				return errors.Join(err, l.Close())
			}
			if ok && current(l) {
				lock.l = l
				return nil
			}
			l.Close()
			if ok {
				continue
			}
			if !wait {
				return ErrLocked
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(lockPoll):
			}
		}
	})
	if err != nil {
		if lock.l != nil {
			lock.l.Close()
		}
		return nil, err
	}
	return lock, nil
}

// current reports whether the path still names the locked file: the last holder may have
// removed it.
func current(l *flock.Flock) bool {
	held, err := l.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(l.Path())
	return err == nil && os.SameFile(held, named)
}

// Unlock releases the lock.
func (l *Lock) Unlock() error { return l.l.Close() }

// RemoveUnlock removes the lock file and releases the lock. Waiting processes notice and
// start over with a new file. Windows does not remove open files: there the file stays if
// another process waits.
func (l *Lock) RemoveUnlock() error {
	if runtime.GOOS == "windows" {
		err := l.l.Close()
		l.d.Remove(l.name)
		return err
	}
	l.d.Remove(l.name)
	return l.l.Close()
}
