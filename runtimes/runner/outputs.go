package runner

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/part"
)

// Outputs are the files that a request writes in addition to its text.
type Outputs struct {
	Image, Audio, TraceSVG string
	Text                   bool // text as well
	Trace                  bool // report every step
}

// outputFile is a file of Outputs with the flag that names it.
type outputFile struct {
	flag, ext, path string
	modality        abi.Modality
}

func (o Outputs) list() []outputFile {
	all := []outputFile{{"out-image", ".png", o.Image, abi.Image}, {"out-audio", ".wav", o.Audio, abi.Audio}, {"trace-svg", ".svg", o.TraceSVG, ""}}
	return slices.DeleteFunc(all, func(f outputFile) bool { return f.path == "" })
}

// Files returns the files of an image and of a sound.
func (o Outputs) Files() map[abi.Modality]string {
	files := map[abi.Modality]string{}
	for _, f := range o.list() {
		if f.modality != "" {
			files[f.modality] = f.path
		}
	}
	return files
}

// Check refuses files that cannot be written.
func (o Outputs) Check() error {
	flags := map[string]string{} // by path
	for _, f := range o.list() {
		if !strings.EqualFold(filepath.Ext(f.path), f.ext) {
			return diag.Usagef("--%s %s: unsupported extension, want %s", f.flag, f.path, f.ext)
		}
		if other := flags[filepath.Clean(f.path)]; other != "" {
			return diag.Usagef("--%s and --%s name the same file", other, f.flag)
		}
		flags[filepath.Clean(f.path)] = f.flag
		if err := fsx.Writable(filepath.Dir(f.path)); err != nil {
			return fmt.Errorf("--%s: %w", f.flag, err)
		}
		if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("--%s %s: not a regular file", f.flag, f.path)
		}
	}
	if o.Text && len(o.Files()) == 0 {
		return diag.Usagef("--out-text requires --out-image or --out-audio: without them, every answer is text")
	}
	return nil
}

// overwrites refuses files that are inputs of a request.
func (o Outputs) overwrites(req *Request) error {
	for _, f := range o.list() {
		for _, in := range req.Inputs {
			if fsx.Overwrites(f.path, in.Path) {
				return diag.Usagef("--%s %s would overwrite an input", f.flag, f.path)
			}
		}
		for _, a := range req.Assets {
			if fsx.Overwrites(f.path, a.Path) {
				return diag.Usagef("--%s %s would overwrite the asset %s", f.flag, f.path, a.Name)
			}
		}
	}
	return nil
}

// Apply adds the outputs to a request. A request that fixed its outputs must agree.
func (o Outputs) Apply(req *Request, fixed bool) error {
	if err := o.overwrites(req); err != nil {
		return err
	}
	files := o.Files()
	if o.Text && !fixed {
		req.Outputs = append(req.Outputs, string(abi.Text))
	}
	for _, m := range []abi.Modality{abi.Image, abi.Audio} {
		switch wanted := files[m] != ""; {
		case fixed && slices.Contains(req.Outputs, string(m)) != wanted:
			return diag.Usagef("--out-%s is required if, and only if, the outputs of the request contain %s", m, m)
		case !fixed && wanted:
			req.Outputs = append(req.Outputs, string(m))
		}
	}
	return nil
}

// NeedAnswer reports whether the outputs require an answer of a language model.
func (o Outputs) NeedAnswer() bool { return len(o.Files()) > 0 || o.Trace || o.TraceSVG != "" }

// DrawTrace draws the trace of an answer to its file, and returns the trace if it was
// requested.
func (o Outputs) DrawTrace(title string, steps []part.Step) ([]part.StepReport, error) {
	if o.TraceSVG != "" {
		if err := fsx.Replace(o.TraceSVG, 0o644, func(to io.Writer) error { return part.DrawSteps(to, title, steps) }); err != nil {
			return nil, err
		}
	}
	if !o.Trace {
		return nil, nil
	}
	return part.StepReports(steps), nil
}
