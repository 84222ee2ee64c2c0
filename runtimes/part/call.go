package part

import (
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/talk"
)

// Call holds the inputs of functions and the files of their outputs.
type Call struct {
	Inputs  []Argument
	Outputs []OutputFile
	// Named is set if an input or an output is named, not only attached.
	Named bool
}

// ParseCall parses the inputs and outputs of a command line, NAME=VALUE or VALUE. The value
// of an input is a file, or numbers if the file does not exist. Attached are files without
// a name.
func ParseCall(inputs, outputs []string, attached []talk.Part) (Call, error) {
	c := Call{Named: len(inputs)+len(outputs) > 0}
	err := eachAssignment("input", inputs, func(name, value string) {
		a := Argument{Name: name, Input: modality.Input{File: value}}
		if numbers, err := ParseNumbers(value); err == nil {
			if _, err := os.Lstat(value); err != nil {
				a.Numbers, a.File = numbers, ""
			}
		}
		c.Inputs = append(c.Inputs, a)
	})
	if err == nil {
		err = eachAssignment("output", outputs, func(name, value string) { c.Outputs = append(c.Outputs, OutputFile{name, value}) })
	}
	for _, m := range attached {
		c.Inputs = append(c.Inputs, Argument{Modality: m.Type, Input: modality.Input{File: m.Path, Data: m.Data}})
	}
	for _, o := range c.Outputs {
		if ext := strings.ToLower(filepath.Ext(o.Path)); ext != ".npy" && ext != ".png" && ext != ".wav" {
			return c, diag.Usagef("--output %s: unsupported extension, want .npy, .png or .wav", o.Path)
		}
		for _, in := range c.Inputs {
			if fsx.Overwrites(o.Path, in.File) {
				return c, diag.Usagef("--output %s would overwrite an input", o.Path)
			}
		}
	}
	return c, err
}

// eachAssignment calls add with the name, which may be empty, and the value of each text.
func eachAssignment(flag string, texts []string, add func(name, value string)) error {
	seen := map[string]bool{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			name, value = "", text
		}
		if value == "" {
			return diag.Usagef("--%s %s: missing value", flag, text)
		}
		if seen[name] {
			return diag.Usagef("--%s %s: duplicate name %q", flag, text, name)
		}
		seen[name] = true
		add(name, value)
	}
	return nil
}

// ParseBackends parses backends: NAME or PART=NAME, optionally with @VERSION. The one
// without a part is of the core.
func ParseBackends(values []string) (engine string, parts map[string]string, err error) {
	parts = map[string]string{}
	for _, v := range values {
		part, name, named := strings.Cut(v, "=")
		if !named {
			part, name = "", v
		}
		switch {
		case name == "" || named && part == "", strings.HasSuffix(name, "@"):
			return "", nil, diag.Usagef("--backend %q: want NAME, NAME@VERSION or PART=NAME", v)
		case parts[part] != "" && parts[part] != name:
			return "", nil, diag.Usagef("--backend: conflicting values %s and %s for one part", v, parts[part])
		}
		parts[part] = name
	}
	engine = parts[""]
	delete(parts, "")
	return engine, parts, nil
}
