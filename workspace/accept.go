package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/internal/fsx"
)

// maxRecords bounds the home's own small JSON files, in bytes.
const maxRecords = 4 << 20

// fingerprint is a hash of the trust file and of every key it names: a key's
// file that changes is another trust file.
func (t *Trust) fingerprint(data []byte) string {
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
	return hex.EncodeToString(h.Sum(nil))
}

// real is the path under which acceptance knows a file.
func real(file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// Accept records that the user lets the trust file decide for the project that
// names it, as it is now: file and keys. Once one of them changes, it must be
// accepted again. It returns the keys that it lets in.
func (w *Workspace) Accept(ctx context.Context, file string) (*Trust, error) {
	t, err := LoadTrust(file)
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
	return t, changeRecords(ctx, w.home, acceptedFile, func(accepted map[string]string) error {
		accepted[path] = t.sum
		return nil
	})
}

// accepted reports whether the user accepted the trust file as it is.
func (w *Workspace) accepted(t *Trust) (bool, error) {
	path, err := real(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	known, err := readRecords[string](w.home, acceptedFile)
	return err == nil && t.sum != "" && known[path] == t.sum, err
}

// readRecords reads a small JSON object of the home; one that is not there is
// empty.
func readRecords[T any](home, name string) (map[string]T, error) {
	records := map[string]T{}
	data, err := fsx.ReadFile(filepath.Join(home, name), maxRecords)
	if errors.Is(err, fs.ErrNotExist) {
		return records, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &records)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(home, name), err)
	}
	if records == nil {
		records = map[string]T{}
	}
	return records, nil
}

// changeRecords changes a small JSON object of the home under a lock.
func changeRecords[T any](ctx context.Context, home, name string, change func(map[string]T) error) error {
	dir, err := fsx.Create(home, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	lock, err := dir.Lock(ctx, "."+name+".lock")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	records, err := readRecords[T](home, name)
	if err != nil {
		return err
	}
	if err := change(records); err != nil {
		return err
	}
	data, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return err
	}
	return dir.WriteFile(name, append(data, '\n'), 0o644)
}
