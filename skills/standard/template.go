package standard

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
)

//go:embed template
var templateFiles embed.FS

// language describes how a skill is built in a language.
type language struct {
	name  string
	run   string // runtime of module.yaml
	mem   string
	build string // build command; "": the source runs as is
	needs string
}

func languages() []language {
	return []language{
		{"c", "wasm: NAME.wasm", "16Mi", "clang --target=wasm32-wasi --sysroot=/usr -O2 -o NAME.wasm NAME.c", "clang and lld of 14 and later, wasi-libc and libclang-rt-14-dev-wasm32 (Debian's names); or the Python package ziglang: python3 -m ziglang cc --target=wasm32-wasi -O2 -o NAME.wasm NAME.c"},
		{"go", "wasm: NAME.wasm", "128Mi", "GOOS=wasip1 GOARCH=wasm go build -ldflags='-s -w' -o NAME.wasm .", "Go 1.24 or later"},
		{"python", "python: NAME.py", "64Mi", "", "mm skill install micropython, once; without it mm runs the program by Starlark if that can parse it"},
		{"starlark", "starlark: NAME.star", "64Mi", "", ""},
	}
}

// Languages returns the languages with a template.
func Languages() []string {
	var names []string
	for _, l := range languages() {
		names = append(names, l.name)
	}
	return names
}

// Template describes a new skill.
type Template struct {
	Name     string
	Language string // one of Languages; default starlark
	Version  string // default 0.1.0
	License  string // default Apache-2.0
}

// Command returns the build command of a skill, "" if the source runs as is.
func (o Template) Command() string {
	for _, l := range languages() {
		if l.name == o.Language {
			return o.fill(l.build)
		}
	}
	return ""
}

func (o Template) fill(s string) string { return strings.ReplaceAll(s, "NAME", o.Name) }

// WriteTemplate creates the module folder dir of a new skill, which must not hold a module:
// module.yaml, the source, and a README with instructions.
func WriteTemplate(dir string, opt Template) error {
	for _, s := range []struct {
		value    *string
		fallback string
	}{{&opt.Language, "starlark"}, {&opt.Version, "0.1.0"}, {&opt.License, "Apache-2.0"}} {
		if *s.value == "" {
			*s.value = s.fallback
		}
	}
	i := slices.IndexFunc(languages(), func(l language) bool { return l.name == opt.Language })
	if i < 0 {
		return fmt.Errorf("unknown language %q: want %s", opt.Language, strings.Join(Languages(), ", "))
	}
	lang := languages()[i]
	_, _, err := modules.Create(dir, func(d *fsx.Dir) error {
		if err := put(d, modules.FileName, opt.manifest(lang)); err != nil {
			return err
		}
		if err := put(d, "README.md", opt.readme(lang)); err != nil {
			return err
		}
		entries, err := templateFiles.ReadDir(path.Join("template", lang.name))
		if err != nil {
			return err
		}
		for _, e := range entries {
			text, err := templateFiles.ReadFile(path.Join("template", lang.name, e.Name()))
			if err != nil {
				return err
			}
			name := strings.TrimSuffix(opt.fill(e.Name()), ".txt") // keeps the go command from building them
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

func (o Template) manifest(l language) string {
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

func (o Template) readme(l language) string {
	build := "The source runs as it is.\n"
	if l.build != "" {
		build = "Build the skill in this folder:\n\n    " + l.build + "\n"
	}
	if l.needs != "" {
		build += "\nNeeded: " + l.needs + ".\n"
	}
	return o.fill(`# NAME ` + o.Version + `

Type: skill. License: ` + o.License + `.

Counts the words of a text: ` + "`{\"text\": \"one two\"}` returns `{\"result\": 2}`" + `.

` + build + `
    mm module check .

checks the folder against module.yaml. A graph names it under ` + "`skills:`" + ` as ` + "`{ref: NAME@" + o.Version + "}`" + `, and finds it in a folder
called modules beside it or, signed, in the store:

    mm module add . --sign default
`)
}
