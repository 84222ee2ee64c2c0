package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
)

// The names of the settings and of the user's trust file.
const (
	ConfigName = "mm.yaml"
	TrustName  = "trust.yaml"
)

// Settings is the content of mm.yaml: where modules are found and the trust
// file of the project. Its paths are relative to the current folder here, and
// to its own folder in the file.
type Settings struct {
	Modules    []string `json:"modules"`
	Layouts    []string `json:"layouts"`
	Registries []string `json:"registries"`
	PlainHTTP  []string `json:"plain_http"`
	Trust      string   `json:"trust"`
	File       string   `json:"-"` // the mm.yaml; empty: none
}

// LoadSettings reads the mm.yaml of dir or of the nearest folder above it. If
// there is none, modules are looked for in the nearest folder named modules.
// Folders in which other users may write are skipped, with a reason for each
// that holds one: an mm.yaml planted above the project would choose the
// modules of its builds.
func LoadSettings(dir string) (s Settings, skipped []error, list diag.List) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Settings{}, nil, nil
	}
	usable := func(path string) bool {
		if _, err := os.Lstat(path); err != nil {
			return false
		}
		if err := CheckOwner(path); err != nil {
			skipped = append(skipped, err)
			return false
		}
		return true
	}
	for at := dir; ; at = filepath.Dir(at) {
		if file := filepath.Join(at, ConfigName); usable(file) {
			s, list = parseSettings(file)
			return s, skipped, list
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	for at := dir; ; at = filepath.Dir(at) {
		root := filepath.Join(at, "modules")
		if info, err := os.Stat(root); err == nil && info.IsDir() && usable(root) {
			return Settings{Modules: []string{ShortPath(root)}}, skipped, nil
		}
		if at == filepath.Dir(at) {
			return Settings{}, skipped, nil
		}
	}
}

// ReadSettings reads the mm.yaml in dir itself; without one the settings are empty.
func ReadSettings(dir string) (Settings, diag.List) {
	file := filepath.Join(dir, ConfigName)
	if !Exists(file) {
		return Settings{}, nil
	}
	return parseSettings(file)
}

func parseSettings(file string) (Settings, diag.List) {
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if list.Failed() {
		return Settings{}, list
	}
	doc, list := schemas.Load(schemas.Config, file, data)
	if list.Failed() {
		return Settings{}, list
	}
	s := Settings{File: file}
	if err := doc.Decode(&s); err != nil {
		list.Add(diag.BadConfig, diag.Pos{File: file}, err.Error(), "")
		return Settings{}, list
	}
	for i, prefix := range s.Registries {
		pos := doc.Pos(fmt.Sprintf("/registries/%d", i))
		switch ref, err := abi.ParseRef(prefix + "/module"); {
		case err != nil:
			list.Add(diag.BadConfig, pos, err.Error(), "a prefix is HOST[:PORT][/PATH], such as registry.example/team")
		case ref.Host == "":
			list.Add(diag.BadConfig, pos, fmt.Sprintf("%q names no registry", prefix), "begin it with the registry's host, such as registry.example/team")
		}
	}
	if list.Failed() {
		return Settings{}, list
	}
	base := filepath.Dir(file)
	for _, paths := range [][]string{s.Modules, s.Layouts} {
		for i, path := range paths {
			if !filepath.IsAbs(path) {
				paths[i] = ShortPath(filepath.Join(base, path))
			}
		}
	}
	if s.Trust != "" && !filepath.IsAbs(s.Trust) {
		s.Trust = filepath.Join(base, s.Trust)
	}
	return s, list
}

// nearPath shortens an absolute path to one below the current folder, which
// reads better in messages.
func ShortPath(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(here, path)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return rel
}

// IsFolder reports whether path is a folder.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// exists reports whether something is at path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
