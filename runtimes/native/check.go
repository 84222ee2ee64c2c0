package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"mm-abi.org/mm/internal/fsx"
)

// checkers is the number of files of an engine that are hashed at a time.
const checkers = 4

// ChangedError reports an installed engine whose files differ from its record. Such an
// engine is not loaded.
type ChangedError struct {
	Engine  string // NAME VERSION
	File    string // its path
	Problem string
}

// Error names the file.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("engine %s was changed after its installation: %s: %s", e.Engine, e.File, e.Problem)
}

// Hint is the command that replaces the engine.
func (*ChangedError) Hint() string {
	return "mm runtime install or mm runtime pull replaces it; mm fsck checks all engines"
}

// Check compares the files of an installed engine with its record. A loader opens
// every library of its folder, so a file that the record does not name is refused as
// well. The error is a [*ChangedError], or one of reading.
func (r Record) Check(ctx context.Context) error {
	found, err := r.present()
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(r.Files))
	errs := make([]error, len(names))
	var group sync.WaitGroup
	slots := make(chan struct{}, checkers)
	for i, name := range names {
		if !slices.Contains(found, name) {
			errs[i] = r.changed(name, "missing")
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			errs[i] = r.hash(ctx, name)
			<-slots
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// hash compares a file with its digest.
func (r Record) hash(ctx context.Context, name string) error {
	path := filepath.Join(r.Dir, filepath.FromSlash(name))
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, got, err := fsx.DigestOf(fsx.Reader{Context: ctx, R: f})
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if want := r.Files[name]; got != want {
		return r.changed(name, fmt.Sprintf("digest: got %s, want %s", got, want))
	}
	return nil
}

// present lists the files of the engine's folder, and refuses those that its record
// does not name.
func (r Record) present() ([]string, error) {
	var found []string
	err := filepath.WalkDir(r.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == r.Dir {
			return err
		}
		rel, err := filepath.Rel(r.Dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case e.IsDir(), name == recordName && e.Type().IsRegular():
			return nil
		case r.Files[name] == "" || name == recordName:
			return r.changed(name, "not a file of this engine")
		case !e.Type().IsRegular():
			return r.changed(name, "not a regular file")
		}
		found = append(found, name)
		return nil
	})
	return found, err
}

func (r Record) changed(name, problem string) error {
	return &ChangedError{Engine: r.Name + " " + r.Version, File: filepath.Join(r.Dir, filepath.FromSlash(name)), Problem: problem}
}
