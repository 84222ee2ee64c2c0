package pipeline

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"mm-abi.org/mm/internal/fsx"
)

//go:embed templates
var templates embed.FS

// Providers of continuous integration.
var providers = map[string]map[string][]string{
	"github": {Module: {".github/workflows/mm-module.yml"}, Build: {".github/workflows/mm-build.yml"}, Promotion: {".github/workflows/mm-promotion.yml"}},
	"gitlab": {Module: {"mm-module.gitlab-ci.yml"}, Build: {"mm-build.gitlab-ci.yml"}, Promotion: {"mm-promotion.gitlab-ci.yml"}},
	"azure":  {Module: {"mm-module.azure-pipelines.yml"}, Build: {"mm-build.azure-pipelines.yml"}, Promotion: {"mm-promotion.azure-pipelines.yml"}},
}

// WorkflowOptions configures [Workflows].
type WorkflowOptions struct {
	Options
	Provider string // github, gitlab or azure
	Version  string // of mm that the workflow installs, such as v0.3.0
	Image    string // container image with Go, for GitLab. Empty: golang:1.26
}

// File is a file to write.
type File struct {
	Path string
	Data []byte
}

// versionPattern matches the version of a Go module.
const versionPattern = `^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`

// Workflows returns the workflow files of a pipeline.
func Workflows(root string, o WorkflowOptions) ([]File, error) {
	kinds := providers[o.Provider]
	if kinds == nil {
		return nil, fmt.Errorf("bad provider %q, want azure, github or gitlab", o.Provider)
	}
	if o.Provider == "azure" && o.Keyless() {
		return nil, errors.New("azure: its identity tokens are for api://AzureADTokenExchange alone, which the authorities of Sigstore refuse: want a key")
	}
	if !regexp.MustCompile(versionPattern).MatchString(o.Version) {
		return nil, fmt.Errorf("bad version %q, want one such as v0.3.0", o.Version)
	}
	if o.Image == "" {
		o.Image = "golang:1.26"
	}
	if !plain().MatchString(o.Image) {
		return nil, fmt.Errorf("bad image %q", o.Image)
	}
	steps, err := Steps(root, o.Options)
	if err != nil {
		return nil, err
	}
	data := struct {
		WorkflowOptions
		Check, Publish []Step
		Previous       map[string]string // step before a step of publishing
		Flags          string            // of mm ci run
		Host           string
	}{WorkflowOptions: o, Previous: map[string]string{}}
	for _, s := range steps {
		if s.Publish {
			if n := len(data.Publish); n > 0 {
				data.Previous[s.Name] = data.Publish[n-1].Name
			}
			data.Publish = append(data.Publish, s)
		} else {
			data.Check = append(data.Check, s)
		}
	}
	data.Host, _, _ = strings.Cut(o.Registry, "/")
	data.Flags = o.Kind + " " + o.Path
	if o.Registry != "" {
		data.Flags += " --registry " + o.Registry
	}
	if o.Trust != "" {
		data.Flags += " --trust " + o.Trust
	}
	if o.Keyless() {
		data.Flags += " --keyless --signing-config " + o.Services + " --trusted-root " + o.Root
	}
	if o.Public != "" {
		data.Flags += " --public-key " + o.Public
	}
	all, err := template.New("").Delims("<<", ">>").Funcs(template.FuncMap{"names": names}).ParseFS(templates, "templates/*")
	if err != nil {
		return nil, err
	}
	var files []File
	for _, file := range kinds[o.Kind] {
		name := o.Provider + "-" + file[strings.LastIndex(file, "mm-")+3:]
		name, _, _ = strings.Cut(name, ".")
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, name+".yml", data); err != nil {
			return nil, err
		}
		files = append(files, File{file, b.Bytes()})
	}
	return files, nil
}

// names returns the names of steps, separated by commas.
func names(steps []Step) string {
	var out []string
	for _, s := range steps {
		out = append(out, s.Name)
	}
	return strings.Join(out, ", ")
}

// Providers returns the names of the providers.
func Providers() []string {
	var out []string
	for p := range providers {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// Write writes the files below root. Unless force is set, none is written if one
// exists.
func Write(root string, files []File, force bool) error {
	d, err := fsx.Open(root, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, f := range files {
		if _, err := d.Root().Lstat(f.Path); !force && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s exists: --force overwrites it", f.Path), err)
		}
	}
	for _, f := range files {
		if err := d.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return err
		}
		if err := fsx.WriteFile(filepath.Join(root, filepath.FromSlash(f.Path)), f.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
