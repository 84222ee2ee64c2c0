package cas

import (
	"context"
	"fmt"
	"os"
	"time"
)

// A file's times advance only with the kernel's clock ticks (10 ms at worst,
// one or two whole seconds on FAT), so a write right after another may leave no
// trace. A [Key] identifies bytes only if the file was older than a tick when
// they were read.
const (
	clockTick       = 20 * time.Millisecond
	coarseClockTick = 2 * time.Second
)

// Key identifies the bytes of a file: a file with the same device, inode, size,
// modification time and change time has the same bytes.
type Key struct {
	Dev, Ino     uint64
	Size         int64
	Mtime, Ctime int64 // nanoseconds since 1970
}

// KeyOf returns the key of an open regular file. It reports false on a system
// without change times.
func KeyOf(f *os.File) (Key, bool) {
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return Key{}, false
	}
	return KeyOfInfo(fi)
}

// changed returns the time of the file's last change and its resolution.
func (k Key) changed() (at time.Time, tick time.Duration) {
	tick = clockTick
	if k.Mtime%1e9 == 0 && k.Ctime%1e9 == 0 {
		tick = coarseClockTick
	}
	return time.Unix(0, max(k.Mtime, k.Ctime)), tick
}

// Settle waits until a write would change the key, and reports whether that is
// so. It does not wait for a clock that runs backwards or by whole seconds.
func (k Key) Settle(ctx context.Context) bool {
	at, tick := k.changed()
	age := time.Since(at)
	if age >= tick {
		return true
	}
	if age < 0 || tick > clockTick {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(tick - age):
		return true
	}
}

// Settled reports whether a write from now on would change the key.
func (k Key) Settled() bool {
	at, tick := k.changed()
	return time.Since(at) >= tick
}

// String formats the key as one line.
func (k Key) String() string {
	return fmt.Sprintf("%d %d %d %d %d", k.Dev, k.Ino, k.Size, k.Mtime, k.Ctime)
}
