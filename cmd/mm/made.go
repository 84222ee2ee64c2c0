package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/media"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/workspace"
)

// wishes are what mm run is to leave beside words.
type wishes struct {
	files map[abi.Modality]string // where a picture and a sound go
	text  bool                    // words as well
	trace bool
	svg   string
}

func wishFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "out-image", Usage: "have the build's decoder draw, into `FILE`.png, in place of an answer in words"},
		&cli.StringFlag{Name: "out-audio", Usage: "have the build's decoder speak, into `FILE`.wav, in place of an answer in words"},
		&cli.BoolFlag{Name: "out-text", Usage: "beside --out-image and --out-audio: answer in words as well"},
		&cli.BoolFlag{Name: "trace", Usage: "tell what ran on which engine, on what, and how long"},
		&cli.StringFlag{Name: "trace-svg", Usage: "draw that into `FILE`.svg"},
		noCacheFlag(),
	}
}

func noCacheFlag() cli.Flag {
	return &cli.BoolFlag{Name: "no-cache", Usage: "neither take nor keep what pictures, sounds and films come to (MM_HOME/cache/features)"}
}

// features are what inputs came to before; nil where they are not wanted, or
// there is no place for them.
func (p *program) features(w *workspace.Workspace, off bool) *media.VectorCache {
	if off {
		return nil
	}
	f, err := media.OpenVectorCache(w.FeatureDir(), 0)
	if err != nil {
		p.say("%v", err)
	}
	return f
}

// wishOptions takes them from the flags.
func wishOptions(c *cli.Context) (wishes, error) {
	w := wishes{files: map[abi.Modality]string{}, text: c.Bool("out-text"), trace: c.Bool("trace"), svg: c.String("trace-svg")}
	taken := map[string]string{}
	for _, f := range []struct {
		flag, ext string
		in        abi.Modality
	}{{"out-image", ".png", abi.Image}, {"out-audio", ".wav", abi.Audio}, {"trace-svg", ".svg", ""}} {
		path := c.String(f.flag)
		if path == "" {
			continue
		}
		if !strings.EqualFold(filepath.Ext(path), f.ext) {
			return w, usageError{fmt.Errorf("--%s %s: a %s file is written", f.flag, path, f.ext)}
		}
		if other := taken[filepath.Clean(path)]; other != "" {
			return w, usageError{fmt.Errorf("--%s and --%s name one file", other, f.flag)}
		}
		taken[filepath.Clean(path)] = f.flag
		if err := fsx.Writable(filepath.Dir(path)); err != nil {
			return w, fmt.Errorf("--%s: %w", f.flag, err)
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return w, fmt.Errorf("--%s %s: it is there, and no file", f.flag, path)
		}
		if f.in != "" {
			w.files[f.in] = path
		}
	}
	if w.text && len(w.files) == 0 {
		return w, usageError{errors.New("--out-text is for --out-image and --out-audio: without them every answer is text")}
	}
	return w, nil
}

// any reports whether something is to be left that only an answer leaves.
func (w wishes) any() bool { return len(w.files) > 0 || w.trace || w.svg != "" }

// apart sees that no file is written over what is read.
func (w wishes) apart(req *runner.Request) error {
	written := map[string]string{"out-image": w.files[abi.Image], "out-audio": w.files[abi.Audio], "trace-svg": w.svg}
	for _, flag := range slices.Sorted(maps.Keys(written)) {
		for _, in := range req.Inputs {
			if overwrites(written[flag], in.Path) {
				return usageError{fmt.Errorf("--%s %s would be written over an input", flag, written[flag])}
			}
		}
		for _, a := range req.Assets {
			if overwrites(written[flag], a.Path) {
				return usageError{fmt.Errorf("--%s %s would be written over the asset %s", flag, written[flag], a.Name)}
			}
		}
	}
	return nil
}

// overwrites reports whether a file that is written is one that is read, or lies
// in the folder that is.
func overwrites(written, read string) bool {
	info, err := os.Stat(read)
	if err != nil {
		return false
	}
	was, err := os.Stat(written)
	if err != nil {
		return false
	}
	folder, err := os.Stat(filepath.Dir(written))
	return os.SameFile(was, info) || err == nil && os.SameFile(folder, info)
}

// ask makes a request for the files, or sees that it asks for them itself.
func (w wishes) ask(req *runner.Request, whole bool) error {
	if err := w.apart(req); err != nil {
		return err
	}
	if whole {
		for _, m := range []abi.Modality{abi.Image, abi.Audio} {
			asked := slices.Contains(req.Outputs, string(m))
			if named := w.files[m] != ""; asked != named {
				return usageError{fmt.Errorf("--out-%s is to be given where the outputs of the request have %s, and only there", m, m)}
			}
		}
		return nil
	}
	if len(w.files) == 0 {
		return nil
	}
	if w.text {
		req.Outputs = append(req.Outputs, string(abi.Text))
	}
	for _, m := range []abi.Modality{abi.Image, abi.Audio} {
		if w.files[m] != "" {
			req.Outputs = append(req.Outputs, string(m))
		}
	}
	return nil
}

// made is a picture or a sound as --json tells of it.
type made struct {
	Type    string `json:"type"`
	Part    string `json:"part"`
	Backend string `json:"backend"`
	// Simulated is set where the backend stands in for hardware.
	Simulated bool    `json:"simulated,omitempty"`
	Output    string  `json:"output"`
	DType     string  `json:"dtype"`
	Shape     []int64 `json:"shape"`
	Rate      int     `json:"sample_rate,omitempty"`
	File      string  `json:"file"`
	Bytes     int     `json:"bytes"`
	Digest    string  `json:"digest"`
}

// write leaves what decoders made in its files, each whole.
func (w wishes) write(all []runner.Made) ([]made, error) {
	var out []made
	for _, m := range all {
		path := w.files[m.Modality]
		if err := fsx.Replace(path, 0o644, func(to io.Writer) error { _, err := to.Write(m.Data); return err }); err != nil {
			return out, err
		}
		sum := sha256.Sum256(m.Data)
		out = append(out, made{
			Type: string(m.Modality), Part: m.Part.Name, Backend: m.Backend, Simulated: m.Simulated, Output: m.Output, DType: string(m.Tensor.Type), Shape: listed(m.Tensor.Shape),
			Rate: m.Rate, File: path, Bytes: len(m.Data), Digest: "sha256:" + hex.EncodeToString(sum[:]),
		})
	}
	return out, nil
}

// step is one of a trace as --json tells it.
type step struct {
	part.Step
	StartMS   float64 `json:"start_ms"`
	LoadMS    float64 `json:"load_ms"`
	PrepareMS float64 `json:"prepare_ms"`
	RunMS     float64 `json:"run_ms"`
}

// traced prints a trace and draws it, as far as that is asked for.
func (p *program) traced(w wishes, title string, all []part.Step) ([]step, error) {
	if w.svg != "" {
		if err := fsx.Replace(w.svg, 0o644, func(to io.Writer) error { return part.DrawSteps(to, title, all) }); err != nil {
			return nil, err
		}
	}
	if !w.trace {
		return nil, nil
	}
	out := []step{}
	for _, s := range all {
		out = append(out, step{s, ms(s.Start), ms(s.Load), ms(s.Prepare), ms(s.Run)})
	}
	if p.json {
		return out, nil
	}
	tab := tabwriter.NewWriter(p.stderr, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tab, "STEP\tPART\tBACKEND\tIN\tOUT\tSTART\tLOAD\tINPUT\tRUN")
	for _, s := range out {
		backend := s.Backend
		if s.Cached != "" {
			backend = "(" + s.Cached + ")"
		}
		row := []string{s.What, s.Part, backend, said(s.In, s.Note), said(s.Out, ""), fmt.Sprintf("%.1f", s.StartMS), fmt.Sprintf("%.1f", s.LoadMS), fmt.Sprintf("%.1f", s.PrepareMS), fmt.Sprintf("%.1f ms", s.RunMS)}
		for i := range row {
			row[i] = diag.Printable(row[i])
		}
		fmt.Fprintln(tab, strings.Join(row, "\t"))
	}
	return out, tab.Flush()
}

// said is tensors in words, and otherwise what there is to say.
func said(tensors []part.TensorInfo, note string) string {
	var out []string
	for _, t := range tensors {
		out = append(out, t.String())
	}
	if len(out) == 0 {
		return note
	}
	return strings.Join(out, ", ")
}
