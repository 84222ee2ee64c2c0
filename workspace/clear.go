package workspace

import (
	"os"

	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/runner"
)

// Cleared counts the contents of the caches of a home.
type Cleared struct {
	Features     int   `json:"features"`      // cached inputs
	FeatureBytes int64 `json:"feature_bytes"` // of them

	Sequences     int   `json:"sequences"`      // kept for later processes
	SequenceBytes int64 `json:"sequence_bytes"` // of them
}

// ClearCaches clears the caches of encoded inputs and of sequences; dry only counts.
func (w *Workspace) ClearCaches(dry bool) (c Cleared, err error) {
	if dir := w.FeatureDir(); exists(dir) {
		f, err := media.OpenVectorCache(dir, 0)
		if err != nil {
			return c, err
		}
		defer f.Close()
		if c.Features, c.FeatureBytes, err = f.Clear(dry); err != nil {
			return c, err
		}
	}
	dir := w.SequenceDir()
	if !exists(dir) {
		return c, nil
	}
	s, err := runner.OpenSequenceCache(dir, make([]byte, runner.SecretSize), 0, nil) // it reads none
	if err != nil {
		return c, err
	}
	defer s.Close()
	c.Sequences, c.SequenceBytes, err = s.Clear(dry)
	return c, err
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }
