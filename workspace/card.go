package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds/bom"
	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/sign"
)

// Card returns the model card of an artifact, or of one target of an index. It
// follows from the manifest and the statements by trusted keys.
func (w *Workspace) Card(ctx context.Context, at *Located, target string) (*card.Card, error) {
	p, err := w.part(ctx, at, target)
	if err != nil {
		return nil, err
	}
	return w.card(ctx, at, p)
}

func (w *Workspace) card(ctx context.Context, at *Located, p artifact.Part) (*card.Card, error) {
	a, err := w.describe(ctx, at, p)
	if err != nil {
		return nil, err
	}
	e, err := w.evidence(ctx, at, p)
	if err != nil {
		return nil, err
	}
	c := &card.Card{
		Name: a.Name, Version: a.Version, Digest: a.Digest, Target: p.Artifact.Annotations[abi.AnnotationTarget], Description: a.Description, License: a.License,
		Created: p.Artifact.Annotations[ocispec.AnnotationCreated], Unused: e.Others,
		Inputs: []string{}, Outputs: []string{}, Languages: []string{}, Datasets: []string{}, Modules: []card.Module{}, Evaluations: []card.Signed{}, Signers: []string{}, Evidence: []string{}, Texts: []string{},
	}
	if can := p.Artifact.Config.Config.Capabilities; can != nil {
		c.Inputs, c.Outputs, c.Languages = append(c.Inputs, can.InputTypes...), append(c.Outputs, can.OutputTypes...), append(c.Languages, can.Languages...)
	}
	c.Task = card.TaskOf(c.Inputs, c.Outputs)
	for _, m := range a.Modules {
		c.Modules = append(c.Modules, card.Module{Name: m.Name, Version: m.Version, Type: string(m.Type), License: m.License, Quant: m.Quant, Digest: m.Digest})
	}
	for _, m := range a.Modules {
		for _, d := range m.Datasets {
			if !slices.Contains(c.Datasets, d.Name) {
				c.Datasets = append(c.Datasets, d.Name)
			}
		}
	}
	slices.Sort(c.Datasets)
	for _, l := range p.Artifact.Layers {
		if name := path.Base(l.Path); strings.HasPrefix(name, "LICENSE") || name == "NOTICE" {
			c.Texts = append(c.Texts, l.Path)
		}
	}
	slices.SortStableFunc(c.Texts, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	c.Evaluations = append(c.Evaluations, e.evaluations()...)
	for _, s := range e.Statements {
		if s.Fault != "" {
			c.Invalid++
		} else if !slices.Contains(c.Evidence, s.Type) {
			c.Evidence = append(c.Evidence, s.Type)
		}
	}
	slices.Sort(c.Evidence)
	if c.Readme, err = readmeOf(ctx, at, p); err != nil {
		return nil, err
	}
	return c, w.cardSigners(ctx, at, c)
}

// evaluations returns the evaluations by trusted keys, in an order that does not depend on
// where the statements are stored.
func (e Evidence) evaluations() []card.Signed {
	var out []card.Signed
	for _, s := range e.Statements {
		for _, one := range s.Evaluations {
			out = append(out, card.Signed{Evaluation: one, Signer: s.Signer.ID, Failed: s.Failed})
		}
	}
	slices.SortStableFunc(out, func(a, b card.Signed) int {
		return strings.Compare(fmt.Sprint(a.Tasks[0].Name, "\n", a.Signer, a.Evaluation), fmt.Sprint(b.Tasks[0].Name, "\n", b.Signer, b.Evaluation))
	})
	return out
}

// cardSigners sets the trusted keys that released the artifact; none if it is refused.
func (w *Workspace) cardSigners(ctx context.Context, at *Located, c *card.Card) error {
	j, err := w.Judge(ctx, at, Claim{Measure: true})
	list, faults := diag.From(err)
	if sign.IsRefusal(err) || faults && list.Exit() == diag.ExitRefused {
		return nil
	}
	if err != nil {
		return err
	}
	c.Signers = append(c.Signers, ids(j.Keys)...)
	return nil
}

// readmeOf returns the README.md of a target; "" without one.
func readmeOf(ctx context.Context, at *Located, p artifact.Part) (string, error) {
	i := slices.IndexFunc(p.Artifact.Layers, func(l artifact.Layer) bool { return l.Path == card.Readme })
	if i < 0 {
		return "", nil
	}
	d := p.Artifact.Layers[i].Descriptor
	if err := checkCard(d.Size); err != nil {
		return "", fmt.Errorf("%s of %s: %w", card.Readme, at.ref, err)
	}
	text, err := content.FetchAll(ctx, at.src, d)
	return string(text), err
}

// CheckCard refuses a file that differs from the model card, or a folder of which a file
// does: README.md, mm-card.json, those of .eval_results, and the figures of a bill of
// materials.
func (w *Workspace) CheckCard(c *card.Card, name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	var list diag.List
	if !info.IsDir() {
		if err := checkCardFile(c, name, &list); err != nil {
			return err
		}
		return list.Err()
	}
	want, err := c.Files()
	if err != nil {
		return err
	}
	names := card.Names(want)
	for _, pattern := range []string{card.ResultsFolder + "/*", "*.cdx.json"} {
		more, _ := filepath.Glob(filepath.Join(name, filepath.FromSlash(pattern))) // the patterns are valid
		for _, m := range more {
			names = append(names, path.Join(path.Dir(pattern), filepath.Base(m)))
		}
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		file := filepath.Join(name, filepath.FromSlash(n))
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
			differs(&list, file, "the file is missing")
		} else if err := checkCardFile(c, file, &list); err != nil {
			return err
		}
	}
	return list.Err()
}

func differs(list *diag.List, file, how string) {
	list.Add(diag.CardDiffers, diag.Pos{File: file}, how, "mm card REF --out DIR writes the files anew")
}

// checkCardFile adds how a file differs from the one of its kind.
func checkCardFile(c *card.Card, file string, list *diag.List) error {
	data, err := fsx.ReadFile(file, bom.MaxBill)
	if err != nil {
		return err
	}
	base := filepath.Base(file)
	var how string
	switch {
	case filepath.Base(filepath.Dir(file)) == card.ResultsFolder:
		if want, ok := c.EvalResults()[base]; ok {
			how = card.Difference(want, data)
		} else {
			how = "no signed statement has a result of this benchmark"
		}
	case base == card.JSONFile:
		want, err := c.JSON()
		if err != nil {
			return err
		}
		how = card.Difference(want, data)
	case strings.HasPrefix(strings.TrimSpace(string(data)), "{"):
		how = billDiffers(c, data)
	default:
		if err := checkCard(int64(len(data))); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		how = c.Difference(data)
	}
	if how != "" {
		differs(list, file, how)
	}
	return nil
}

// billDiffers reports how a bill of materials differs from the card, or "": whether it is
// about another artifact, and its first figure that no signed statement has.
func billDiffers(c *card.Card, data []byte) string {
	if err := bom.Check(data, c.Digest); err != nil {
		return err.Error()
	}
	got, err := bom.Metrics(data)
	if err != nil {
		return err.Error()
	}
	want := metrics(c.Evaluations)
	for i := range max(len(got), len(want)) {
		var g, w bom.Metric
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("performance metric %d: got %.200q, want %.200q", i, fmt.Sprint(g), fmt.Sprint(w))
		}
	}
	return ""
}

// metrics returns the figures of evaluations for a bill of materials.
func metrics(list []card.Signed) (out []bom.Metric) {
	for _, s := range list {
		for _, t := range s.Tasks {
			for _, f := range t.Figures {
				out = append(out, bom.Metric{
					Type: f.Name(), Value: card.Number(f.Value), Low: card.Number(f.Low), High: card.Number(f.High),
					Slice: fmt.Sprintf("%s, n %d, suite %s, %s", t.Slice(), f.N, t.Suite, s.Engine),
				})
			}
		}
	}
	return out
}

// WriteCard writes the files of the card into a folder and returns their names. Of
// .eval_results, files that the card does not have are left for [Workspace.CheckCard].
func (w *Workspace) WriteCard(c *card.Card, dir string) ([]string, error) {
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	d, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for _, name := range card.Names(files) {
		if err := d.MkdirAll(path.Dir(name), 0o755); err != nil {
			return nil, err
		}
		if err := d.WriteFile(name, files[name], 0o644); err != nil {
			return nil, err
		}
	}
	return card.Names(files), nil
}
