package suite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
)

// NewSource describes a model by its name, its build and the engine of its core; nil: it has
// no core.
func NewSource(ctx context.Context, model string, b *builds.Build, e runtimes.Engine) (s Source, err error) {
	s = Source{Model: model, Target: b.Assembly.Target}
	if e != nil {
		s.Engine = runtimes.Shown(e)
	}
	s.Digest, err = Digest(ctx, b)
	return s, err
}

// Digest returns the digest of a build: that of its artifact, or of the files of
// a loose model.
func Digest(ctx context.Context, b *builds.Build) (string, error) {
	if b.Digest != "" {
		return b.Digest, nil
	}
	sum := sha256.New()
	err := files(b, func(name string, r io.Reader) error {
		one := sha256.New()
		if _, err := io.Copy(fsx.Writer{Context: ctx, W: one}, r); err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %x\n", name, one.Sum(nil))
		return nil
	})
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), err
}

// Size returns the bytes of the files of a build.
func Size(b *builds.Build) (total int64, err error) {
	err = files(b, func(_ string, r io.Reader) error {
		s, ok := r.(io.Seeker)
		if !ok {
			return fmt.Errorf("unknown size")
		}
		n, err := s.Seek(0, io.SeekEnd)
		total += n
		return err
	})
	return total, err
}

// files opens each file of the parts of a build, in the order of names.
func files(b *builds.Build, read func(name string, r io.Reader) error) error {
	names := map[string]bool{}
	for _, p := range b.Assembly.Parts() {
		for _, paths := range p.Files {
			for _, name := range paths {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f, err := b.Files.Open(name)
		if err != nil {
			return err
		}
		err = read(name, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return nil
}
