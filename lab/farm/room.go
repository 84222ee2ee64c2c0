package farm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

// The folders of a worker.
const (
	keptDir = "kept" // of jobs with the same name; see Job.Keep
	onceDir = "once" // of one job each
	usedDir = "used" // a file for each kept folder, as old as its last job
)

// Room bounds the folders of a worker after its jobs.
type Room struct {
	Bytes int64         // of all kept folders; 0: DefaultRoom
	Age   time.Duration // since the last job of a folder; 0: DefaultAge
}

// The default room.
const (
	DefaultRoom = 32 << 30
	DefaultAge  = 7 * 24 * time.Hour
)

// Tidy removes what jobs of a worker that died left, and kept folders beyond the room. The
// caller holds the lock of the folder, so that no job uses one of them.
func (c Command) Tidy(ctx context.Context) error {
	err := fsx.RemoveAll(filepath.Join(c.Dir, onceDir))
	return errors.Join(err, c.prune(ctx, ""))
}

// use marks the folder of a name as used and makes room for it.
func (c Command) use(ctx context.Context, d *fsx.Dir, name string) error {
	if err := d.MkdirAll(usedDir, 0o700); err != nil {
		return err
	}
	if err := d.WriteFile(usedDir+"/"+name, nil, 0o600); err != nil {
		return err
	}
	return c.prune(ctx, name)
}

// keeping is a kept folder.
type keeping struct {
	name  string
	used  time.Time // zero: no job finished the mark
	bytes int64
}

// prune removes kept folders other than current: those that no job used for the age, then
// those whose last job is the oldest, until the rest has room.
func (c Command) prune(ctx context.Context, current string) error {
	all, err := c.kept(ctx)
	if err != nil {
		return err
	}
	room, age := cmp.Or(c.Room.Bytes, DefaultRoom), cmp.Or(c.Room.Age, DefaultAge)
	slices.SortFunc(all, func(a, b keeping) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.name, b.name)) })
	var total int64
	for _, k := range all {
		total += k.bytes
	}
	for _, k := range all {
		if k.name == current || total <= room && time.Since(k.used) <= age {
			continue
		}
		if err := errors.Join(fsx.RemoveAll(filepath.Join(c.Dir, keptDir, k.name)), fsx.RemoveAll(filepath.Join(c.Dir, usedDir, k.name))); err != nil {
			return fmt.Errorf("kept folder %s: %w", k.name, err)
		}
		total -= k.bytes
	}
	return nil
}

// kept lists the kept folders with their sizes.
func (c Command) kept(ctx context.Context) (all []keeping, err error) {
	entries, err := os.ReadDir(filepath.Join(c.Dir, keptDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		k := keeping{name: e.Name()}
		if info, err := os.Stat(filepath.Join(c.Dir, usedDir, k.name)); err == nil {
			k.used = info.ModTime()
		}
		k.bytes, err = sizeOf(ctx, filepath.Join(c.Dir, keptDir, k.name))
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, err
}

// sizeOf returns the bytes of the regular files below a folder.
func sizeOf(ctx context.Context, dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return errors.Join(err, ctx.Err())
		}
		info, err := e.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
