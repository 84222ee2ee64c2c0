package improve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
)

// Copies are copies of the files of a run outside its folder, such as in a bucket, by
// their names in the folder.
type Copies interface {
	// Fetch writes the copy to the file at path. A missing copy is [fs.ErrNotExist].
	Fetch(ctx context.Context, name, path string) error
	// Save replaces the copy by the file at path.
	Save(ctx context.Context, name, path string) error
}

// roundFiles are the copied files of a round. The last one completes it.
var roundFiles = [...]string{learnedFile, modelFile, resultFile}

// fetch checks that the copies are of this run, whose spec is text, and writes the
// complete rounds that the folder lacks.
func (r *runner) fetch(ctx context.Context, text []byte) error {
	if r.opt.Copies == nil {
		return nil
	}
	copied := filepath.Join(r.opt.Dir, "copied-"+specFile)
	if err := r.opt.Copies.Fetch(ctx, specFile, copied); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	old, err := fsx.ReadFile(copied, maxResult)
	switch err = errors.Join(err, fsx.RemoveAll(copied)); {
	case err != nil:
		return err
	case !r.opt.Resume:
		return fmt.Errorf("the place of the copies %w", train.ErrHeld)
	case string(old) != string(text):
		return fmt.Errorf("the place of the copies %w", ErrOther)
	}
	for n := 0; n <= r.spec.Rounds; n++ {
		if _, err := os.Stat(filepath.Join(r.folder(n), resultFile)); err == nil {
			continue
		}
		for _, name := range roundFiles {
			err := r.opt.Copies.Fetch(ctx, path.Join(folderName(n), name), filepath.Join(r.folder(n), name))
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the run continues with this round
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// save copies the files of complete rounds that are not copied yet. A failure is
// reported, and the next round tries again.
func (r *runner) save(ctx context.Context, rounds int) {
	if r.opt.Copies == nil {
		return
	}
	one := func(name string) bool {
		err := r.opt.Copies.Save(ctx, name, filepath.Join(r.opt.Dir, filepath.FromSlash(name)))
		if err != nil && r.opt.Warn != nil {
			r.opt.Warn(err)
		}
		return err == nil
	}
	if r.copied == 0 && !one(specFile) {
		return
	}
	for ; r.copied < rounds; r.copied++ {
		for _, name := range roundFiles {
			if !one(path.Join(folderName(r.copied), name)) {
				return
			}
		}
	}
}
