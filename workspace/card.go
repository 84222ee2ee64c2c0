package workspace

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds/bom"
	"mm-abi.org/mm/builds/card"
	"mm-abi.org/mm/internal/diag"
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
	i := slices.IndexFunc(p.Artifact.Layers, func(l artifact.Layer) bool { return l.Path == readme })
	if i < 0 {
		return "", nil
	}
	d := p.Artifact.Layers[i].Descriptor
	if err := checkCard(d.Size); err != nil {
		return "", fmt.Errorf("%s of %s: %w", readme, at.ref, err)
	}
	text, err := content.FetchAll(ctx, at.src, d)
	return string(text), err
}

// CheckCard refuses a file that differs from the model card.
func (w *Workspace) CheckCard(c *card.Card, file string, data []byte) error {
	if differs := c.Difference(data); differs != "" {
		var list diag.List
		list.Add(diag.CardDiffers, diag.Pos{File: file}, differs, "mm card REF writes the card anew")
		return list.Err()
	}
	return nil
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
