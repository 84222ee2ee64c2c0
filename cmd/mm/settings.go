package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/schemas"
)

// The names of the settings and of the trust file.
const (
	configFile = "mm.yaml"
	trustFile  = "trust.yaml"
)

// settings is mm.yaml: where modules are found. Paths in it are relative to
// its own folder and made valid from the current one here.
type settings struct {
	Modules    []string `json:"modules"`
	Layouts    []string `json:"layouts"`
	Registries []string `json:"registries"`
	PlainHTTP  []string `json:"plain_http"`
	Trust      string   `json:"trust"`
}

// loadSettings reads the mm.yaml of dir or of the nearest folder above it. With
// none, modules are looked for in the nearest folder called modules.
func loadSettings(dir string) (settings, diag.List) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return settings{}, nil
	}
	for at := dir; ; at = filepath.Dir(at) {
		file := filepath.Join(at, configFile)
		data, err := os.ReadFile(file)
		if err == nil {
			return parseSettings(file, data)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			var list diag.List
			list.Add(diag.Unreadable, diag.Pos{File: file}, reason(err), "")
			return settings{}, list
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	for at := dir; ; at = filepath.Dir(at) {
		root := filepath.Join(at, "modules")
		if info, err := os.Stat(root); err == nil && info.IsDir() {
			return settings{Modules: []string{nearPath(root)}}, nil
		}
		if at == filepath.Dir(at) {
			return settings{}, nil
		}
	}
}

func parseSettings(file string, data []byte) (settings, diag.List) {
	doc, list := schemas.Load(schemas.Config, file, data)
	if list.Failed() {
		return settings{}, list
	}
	var s settings
	if err := doc.Decode(&s); err != nil {
		list.Add(diag.BadConfig, diag.Pos{File: file}, err.Error(), "")
		return settings{}, list
	}
	base := filepath.Dir(file)
	for _, paths := range [][]string{s.Modules, s.Layouts} {
		for i, path := range paths {
			if !filepath.IsAbs(path) {
				paths[i] = nearPath(filepath.Join(base, path))
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
func nearPath(path string) string {
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
