package workspace

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"sync"

	"mm-abi.org/mm/internal/fsx"
)

// SequenceDir is the folder of kept sequences. Empty: none can be kept.
func (w *Workspace) SequenceDir() string { return w.cached(textDir) }

// ChatFile is the file of the conversation called name, which may be missing.
func (w *Workspace) ChatFile(name string) (string, error) {
	if !chatName().MatchString(name) {
		return "", fmt.Errorf("%w %.80q: want letters, digits, dots, hyphens and underscores", ErrChatName, name)
	}
	return filepath.Join(w.home, chatDir, name+".json"), nil
}

var chatName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`) })

// Secret returns n random bytes that only this home has. The first call creates them.
func (w *Workspace) Secret(n int) ([]byte, error) {
	file := filepath.Join(w.home, secretFile)
	data, err := fsx.ReadFile(file, int64(n))
	if errors.Is(err, fs.ErrNotExist) {
		fresh := make([]byte, n)
		rand.Read(fresh) // never fails
		err = fsx.Place(file, 0o600, func(to io.Writer) error { _, err := to.Write(fresh); return err })
		if err == nil || errors.Is(err, fs.ErrExist) { // another process was first
			data, err = fsx.ReadFile(file, int64(n))
		}
	}
	if err == nil && len(data) != n {
		err = fmt.Errorf("%s: got %d bytes, want %d; remove it for a new one", file, len(data), n)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the secret of this home: %w", err)
	}
	return data, nil
}
