// Package torch hands a run of `mm train` to PyTorch and takes its result back.
//
// [Export] writes a project: a program (project/*.py, for torchrun, FSDP2, DDP or
// one process), the recipe as run.json, the initial weights as a checkpoint, the
// tokens and the order of their windows as .npy. Its losses in float32 agree with
// those of mm within rounding, on any number of processes.
//
// The program writes checkpoints of mm, and folders of torch.distributed.checkpoint
// that [Collect] reads: their metadata is a pickle, of which only the instructions
// that such metadata needs are interpreted, and nothing is executed.
package torch

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
)

//go:embed project
var project embed.FS

// The files of a project.
const (
	recipeFile  = "run.json"
	weightsFile = "weights.safetensors"
)

// ErrExists is returned for a folder that holds a project.
var ErrExists = errors.New("already holds a project")

// Export writes the project of a run to the folder out. Paths of the
// configuration are relative to dir.
func Export(cfg train.Config, corpus *train.Corpus, dir, out string) error {
	if err := Supported(cfg); err != nil {
		return err
	}
	start, err := train.NewStart(cfg, corpus, dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, recipeFile)); err == nil {
		return fmt.Errorf("%s %w", out, ErrExists)
	}
	d, err := fsx.Create(out, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	name := start.Config.Name
	if name == "" {
		name = filepath.Base(out)
	}
	if err := program(d, name); err != nil {
		return err
	}
	if err := tokens(d, start, corpus); err != nil {
		return err
	}
	if err := start.Write(filepath.Join(out, weightsFile)); err != nil {
		return err
	}
	recipe, err := json.MarshalIndent(describe(start, corpus), "", "  ")
	if err != nil {
		return err
	}
	return d.WriteFile(recipeFile, append(recipe, '\n'), 0o644) // last: its presence marks a complete project
}

// program writes the program and its description.
func program(d *fsx.Dir, name string) error {
	return fs.WalkDir(project, "project", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := project.ReadFile(file)
		if err != nil {
			return err
		}
		base, mode := path.Base(file), fs.FileMode(0o644)
		switch base {
		case "README.md":
			data = []byte(strings.Replace(string(data), "NAME", name, 1))
		case "train.py":
			mode = 0o755
		}
		return d.WriteFile(base, data, mode)
	})
}

// tokens writes the texts of the run and the order of its windows.
func tokens(d *fsx.Dir, start *train.Start, corpus *train.Corpus) error {
	if err := d.MkdirAll("data", 0o755); err != nil {
		return err
	}
	folder := filepath.Join(d.Path(), "data")
	if err := text(folder, "train", corpus.Train.Parts()); err != nil {
		return err
	}
	if corpus.Held != nil {
		if err := text(folder, "held", corpus.Held.Parts()); err != nil {
			return err
		}
	}
	return fsx.Replace(filepath.Join(folder, "order.npy"), 0o644, func(w io.Writer) error {
		a := newArray(w, "<i8", start.Windows())
		start.Order(func(at int) bool { a.int64(int64(at)); return a.err == nil })
		return a.flush()
	})
}
