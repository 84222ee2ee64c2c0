package trust

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace/home"
)

// acceptedFile lists the accepted trust files of projects, in the home.
const acceptedFile = "accepted.json"

// fingerprint is a hash of the trust file and of every key, root and authority it names: a
// file that changes is another trust file.
func (t *File) fingerprint(data []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s", len(data), data)
	for _, name := range slices.Sorted(maps.Keys(t.Keys)) {
		if t.Keys[name].File == "" {
			continue
		}
		pem, err := t.pem(name)
		if err != nil {
			pem = []byte(err.Error())
		}
		fmt.Fprintf(h, "%q %d\n%s", name, len(pem), pem)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Roots)) {
		root, err := t.rootData(name)
		if err != nil {
			root = []byte(err.Error())
		}
		fmt.Fprintf(h, "root %q %d\n%s", name, len(root), root)
	}
	for _, a := range t.Authorities {
		pem, err := fsx.ReadFile(t.path(a.File), sign.MaxCertificateFile)
		if err != nil {
			pem = []byte(err.Error())
		}
		fmt.Fprintf(h, "authority %d\n%s", len(pem), pem)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// real returns the path under which an accepted file is recorded.
func real(file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// Accept records that the user lets the trust file, in its present content
// with its keys, decide for the project that names it. Any change must be
// accepted again. It returns the file.
func Accept(ctx context.Context, dir, file string) (*File, error) {
	t, err := Load(file)
	if err != nil {
		return nil, err
	}
	if t.sum == "" {
		return nil, fmt.Errorf("no trust file at %s: %w", file, fs.ErrNotExist)
	}
	if _, err := t.Policy(); err != nil {
		return nil, err
	}
	path, err := real(file)
	if err != nil {
		return nil, err
	}
	return t, home.ChangeRecords(ctx, dir, acceptedFile, func(accepted map[string]string) error {
		accepted[path] = t.sum
		return nil
	})
}

// accepted reports whether the user accepted the trust file as it is.
func (t *File) accepted(dir string) (bool, error) {
	path, err := real(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	known, err := home.ReadRecords[string](dir, acceptedFile)
	return err == nil && t.sum != "" && known[path] == t.sum, err
}
