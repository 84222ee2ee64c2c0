// Package template writes the beginning of a skill: a module folder whose tool
// counts words, to be made into something else.
package template

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
)

//go:embed go c python starlark
var files embed.FS

// language is how a skill of it is made.
type language struct {
	name  string
	run   string // runtime of module.yaml
	mem   string
	build string // the command that makes what runs; "": the source runs as it is
	needs string
}

func languages() []language {
	return []language{
		{"c", "wasm: NAME.wasm", "16Mi", "clang --target=wasm32-wasi --sysroot=/usr -O2 -o NAME.wasm NAME.c", "clang and lld of 14 and later, wasi-libc and libclang-rt-14-dev-wasm32 (Debian's names); or the Python package ziglang: python3 -m ziglang cc --target=wasm32-wasi -O2 -o NAME.wasm NAME.c"},
		{"go", "wasm: NAME.wasm", "128Mi", "GOOS=wasip1 GOARCH=wasm go build -ldflags='-s -w' -o NAME.wasm .", "Go 1.24 or later"},
		{"python", "python: NAME.py", "64Mi", "", "mm skill install micropython, once; without it mm runs it by Starlark, as far as that can read it"},
		{"starlark", "starlark: NAME.star", "64Mi", "", ""},
	}
}

// Languages lists the languages there are templates for.
func Languages() []string {
	var names []string
	for _, l := range languages() {
		names = append(names, l.name)
	}
	return names
}

// Options of a skill.
type Options struct {
	Name     string
	Language string // one of Languages; "": starlark
	Version  string // "": 0.1.0
	License  string // "": Apache-2.0
}

// Command is what makes the program of a skill from its folder; "" where the
// source runs as it is.
func (o Options) Command() string {
	for _, l := range languages() {
		if l.name == o.Language {
			return o.fill(l.build)
		}
	}
	return ""
}

func (o Options) fill(s string) string { return strings.ReplaceAll(s, "NAME", o.Name) }

// Write makes the module folder dir, which may not hold a module: module.yaml,
// the source, and a README that says how it is built and called.
func Write(dir string, opt Options) error {
	for _, s := range []struct {
		at      *string
		without string
	}{{&opt.Language, "starlark"}, {&opt.Version, "0.1.0"}, {&opt.License, "Apache-2.0"}} {
		if *s.at == "" {
			*s.at = s.without
		}
	}
	i := slices.IndexFunc(languages(), func(l language) bool { return l.name == opt.Language })
	if i < 0 {
		return fmt.Errorf("there is no template of %q: there are %s", opt.Language, strings.Join(Languages(), ", "))
	}
	lang := languages()[i]
	_, _, err := modules.Create(dir, func(d *fsx.Dir) error {
		if err := put(d, modules.FileName, opt.manifest(lang)); err != nil {
			return err
		}
		if err := put(d, "README.md", opt.readme(lang)); err != nil {
			return err
		}
		entries, err := files.ReadDir(lang.name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			text, err := files.ReadFile(path.Join(lang.name, e.Name()))
			if err != nil {
				return err
			}
			name := strings.TrimSuffix(opt.fill(e.Name()), ".txt") // Go's own files are no part of mm
			if err := put(d, name, opt.fill(string(text))); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func put(d *fsx.Dir, name, text string) error {
	return d.WriteFile(name, []byte(text), 0o644)
}

func (o Options) manifest(l language) string {
	return o.fill("name: NAME\nversion: " + o.Version + `
type: skill
abi: mm-abi-1.0
description: Counts the words of a text.
license: ` + o.License + `
inputs:
  - {name: text, type: str, description: The text whose words are counted.}
outputs:
  - {name: result, type: int}
runtime:
  ` + l.run + `
  limits: {cpu: "1", mem: ` + l.mem + `, timeout_ms: 300}
card: README.md
`)
}

func (o Options) readme(l language) string {
	made := "The source runs as it is.\n"
	if l.build != "" {
		made = "What runs is made from the source, in this folder:\n\n    " + l.build + "\n"
	}
	if l.needs != "" {
		made += "\nNeeded: " + l.needs + ".\n"
	}
	return o.fill(`# NAME ` + o.Version + `

Type: skill. Licence: ` + o.License + `.

Counts the words of a text: ` + "`{\"text\": \"one two\"}` gives `{\"result\": 2}`" + `.

` + made + `
    mm module check .

compares the folder with module.yaml. A graph names it under ` + "`skills:`" + ` as ` + "`{ref: NAME@" + o.Version + "}`" + `, and finds it in a folder
called modules beside it or, signed, in the store:

    mm module add . --sign default
`)
}
