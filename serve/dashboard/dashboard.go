// Package dashboard renders static pages about versions of builds: their modules and
// signers, the graph, evaluations down to the single sample, budgets, compatibility,
// evidence and channels.
//
// Pages hold no scripts and no inline styles, and their policy allows none: texts of
// models, manifests and samples are untrusted data. Equal inputs have equal bytes. Unknown
// values are reported as unknown.
package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/workspace"
)

//go:embed templates
var templates embed.FS

//go:embed static
var static embed.FS

// policy is the Content-Security-Policy of every page.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; media-src 'self'; base-uri 'none'; form-action 'none'"

// The limits of a dashboard.
const (
	maxVersions = 64
	maxRuns     = 64
	maxTasks    = 256
)

// Input holds the content of a dashboard. Versions are in the order of their age: differences are
// to the column on the left.
type Input struct {
	Versions []workspace.Overview
	Runs     []*suite.Run
	Budgets  []eval.Report
	Channels []workspace.Channel
	Compat   builds.Compat // further checked combinations; nil: those of the versions
}

// File is a file of a dashboard.
type File struct {
	Path string
	Data []byte
}

// Render returns the files of a dashboard.
func Render(in Input) ([]File, error) {
	for _, l := range []struct {
		what     string
		got, max int
	}{{"versions", len(in.Versions), maxVersions}, {"results", len(in.Runs), maxRuns}, {"budgets", len(in.Budgets), maxRuns}} {
		if l.got > l.max {
			return nil, fmt.Errorf("too many %s: got %d, limit %d", l.what, l.got, l.max)
		}
	}
	s, err := newSite(in)
	if err != nil {
		return nil, err
	}
	return s.render()
}

// functions are the functions of the templates.
var functions = template.FuncMap{
	"line": line, "text": text, "short": short, "number": number, "signed": signed, "policy": func() string { return policy },
	"size": fsx.FormatSize, "add": func(a, b int) int { return a + b },
}

// page is a page with the data of its template.
type page struct {
	Path     string
	Template string
	Title    string
	Tab      string // of the navigation
	Data     any
	Site     *site
}

// render executes the templates of all pages and adds the style.
func (s *site) render() ([]File, error) {
	all, err := template.New("").Funcs(functions).ParseFS(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	var out []File
	for _, p := range s.pages() {
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, p.Template, p); err != nil {
			return nil, err
		}
		out = append(out, File{p.Path, b.Bytes()})
	}
	out = append(out, s.media...)
	for _, name := range []string{"style.css", "icon.svg"} {
		data, err := static.ReadFile("static/" + name)
		if err != nil {
			return nil, err
		}
		out = append(out, File{name, data})
	}
	return out, nil
}

// pages lists the pages of a site.
func (s *site) pages() []page {
	out := []page{
		{Path: "index.html", Template: "index", Title: "Overview", Tab: "Overview"},
		{Path: "evaluations.html", Template: "evaluations", Title: "Evaluations", Tab: "Evaluations"},
		{Path: "budgets.html", Template: "budgets", Title: "Budgets", Tab: "Budgets"},
		{Path: "compatibility.html", Template: "compatibility", Title: "Compatibility", Tab: "Compatibility"},
		{Path: "evidence.html", Template: "evidence", Title: "Evidence and channels", Tab: "Evidence"},
	}
	for _, v := range s.Versions {
		out = append(out, page{Path: v.Path, Template: "version", Title: v.Label(), Tab: "Overview", Data: v})
	}
	for _, t := range s.Tasks {
		out = append(out, page{Path: t.Path, Template: "task", Title: "Task " + line(t.Name), Tab: "Evaluations", Data: t})
		for _, p := range t.Pages {
			out = append(out, page{Path: p.Path, Template: "samples", Title: fmt.Sprintf("Samples of %s, page %d", line(t.Name), p.Number), Tab: "Evaluations", Data: p})
		}
	}
	for i := range out {
		out[i].Site = s
	}
	return out
}

// Write writes the files of a dashboard into a folder, which must be empty, absent, or
// hold a dashboard, whose files are replaced.
func Write(dir string, files []File) error {
	if err := replaceable(dir); err != nil {
		return err
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, f := range files {
		if parent := path.Dir(f.Path); parent != "." {
			if err := d.MkdirAll(parent, 0o755); err != nil {
				return err
			}
		}
		if err := d.WriteFile(f.Path, f.Data, 0o644); err != nil {
			return err
		}
	}
	return removeOld(d, files)
}

// replaceable refuses a folder with other files than those of a dashboard.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	index, _ := fsx.ReadFile(filepath.Join(dir, "index.html"), 16<<20)
	if len(entries) > 0 && !bytes.Contains(index, []byte(generator)) {
		return fmt.Errorf("%s: got a folder with other files, want an empty one or that of a dashboard", dir)
	}
	return nil
}

// generator is the name by which pages state what wrote them.
const generator = `<meta name="generator" content="mm dashboard">`

// removeOld removes pages, images and sounds that an earlier dashboard had.
func removeOld(d *fsx.Dir, files []File) error {
	for _, pattern := range []string{"*.html", "media/" + strings.Repeat("[0-9a-f]", 64) + ".*"} {
		old, err := fs.Glob(d.Root().FS(), pattern)
		if err != nil {
			return err
		}
		for _, name := range old {
			if slices.ContainsFunc(files, func(f File) bool { return f.Path == name }) {
				continue
			}
			if err := d.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}
