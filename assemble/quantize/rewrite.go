package quantize

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/internal/fsx"
)

// Errors of [Rewrite].
var (
	ErrSameFile = errors.New("input and output are the same file")
	ErrExists   = errors.New("file exists")
)

// Split is how a model is divided into pieces: by the bytes of tensors in each, or
// by their number. At most one is set.
type Split struct {
	Bytes  int64
	Pieces int
}

// ParseSplit parses a number of pieces, 3, or the size of a piece, 2G or 500M, in
// powers of 1000 as llama-gguf-split reads them.
func ParseSplit(text string) (s Split, err error) {
	digits, unit := text, int64(0)
	for suffix, n := range map[string]int64{"K": 1e3, "M": 1e6, "G": 1e9} {
		if rest, ok := strings.CutSuffix(strings.ToUpper(text), suffix); ok {
			digits, unit = rest, n
		}
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n == 0 {
		return s, fmt.Errorf("got %q, want a number of pieces or a size such as 500M or 2G", text)
	}
	if unit > 0 {
		return Split{Bytes: int64(n) * unit}, nil
	}
	return Split{Pieces: int(n)}, nil
}

func (s Split) divide(kvs []gguf.KV, tensors []gguf.Source) ([]gguf.Output, error) {
	switch {
	case s.Bytes > 0:
		return gguf.Split(kvs, tensors, s.Bytes)
	case s.Pieces > 0:
		return gguf.SplitInto(kvs, tensors, s.Pieces)
	}
	return []gguf.Output{{KVs: kvs, Tensors: tensors}}, nil
}

// Rewritten is a file written by Rewrite.
type Rewritten struct {
	Path  string
	Bytes int64
}

// Rewrite writes the GGUF file in, which may be the first of several pieces, to
// out; in pieces to OUT-00001-of-00003.gguf and so on. If it fails, no file is
// changed. Only with force may an output exist; it is never an input. The notes list
// tensors with another type than the recipe's.
func Rewrite(ctx context.Context, in, out string, opt Options, force bool) (notes []string, written []Rewritten, err error) {
	if err := writable(in, out, force); err != nil {
		return nil, nil, err
	}
	d, err := fsx.Create(filepath.Dir(out), 0o755, fsx.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	w := &writer{dir: d}
	notes, err = opt.rewrite(ctx, in, func(kvs []gguf.KV, tensors []gguf.Source) error {
		outs, err := opt.Split.divide(kvs, tensors)
		if err != nil {
			return err
		}
		for i := range outs {
			path := out
			if len(outs) > 1 {
				path = gguf.PieceName(strings.TrimSuffix(out, ".gguf"), i, len(outs))
				if err := writable(in, path, force); err != nil {
					return err
				}
			}
			written = append(written, Rewritten{Path: path})
		}
		for i, o := range outs {
			if written[i].Bytes, err = w.write(o); err != nil {
				return err
			}
		}
		return nil
	})
	for i := 0; err == nil && i < len(written); i++ {
		err = d.Rename(w.temps[i], filepath.Base(written[i].Path))
	}
	if err != nil {
		return nil, nil, errors.Join(err, w.remove())
	}
	return notes, written, d.SyncDir(".")
}

// writer writes pieces to temporary files.
type writer struct {
	dir   *fsx.Dir
	temps []string
}

func (w *writer) write(o gguf.Output) (int64, error) {
	tmp, err := w.dir.CreateTemp(".", ".mm-quantize-", 0o644)
	if err != nil {
		return 0, err
	}
	w.temps = append(w.temps, tmp.Name())
	n, err := gguf.Write(tmp, o.KVs, o.Tensors)
	if err == nil {
		err = tmp.Sync()
	}
	return n, errors.Join(err, tmp.Close())
}

func (w *writer) remove() error {
	var errs []error
	for _, name := range w.temps {
		if err := w.dir.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// writable checks that out may be written.
func writable(in, out string, force bool) error {
	old, err := os.Stat(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, piece := range gguf.PiecePaths(in) {
		if info, err := os.Stat(piece); err == nil && os.SameFile(info, old) {
			return fmt.Errorf("%s: %w", out, ErrSameFile)
		}
	}
	switch {
	case old.IsDir():
		return fmt.Errorf("%s is a folder", out)
	case !force:
		return fmt.Errorf("%s: %w", out, ErrExists)
	}
	return nil
}
