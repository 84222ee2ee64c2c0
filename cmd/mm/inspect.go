package main

import (
	"fmt"
	"maps"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/sign"
)

func (p *program) inspectCommand() *cli.Command {
	return &cli.Command{
		Name: "inspect", Usage: "show what an artifact is made of", ArgsUsage: "REF|DIR",
		Flags: []cli.Flag{p.jsonFlag(), layoutFlag()},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1); err != nil {
				return err
			}
			l, err := locate(c, c.Args().First())
			if err != nil {
				return err
			}
			defer l.store.Close()
			in, err := inspect(c, l.store, l.desc)
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(in)
			}
			return p.printInspected(in, "")
		},
	}
}

// inspected is an artifact as mm inspect shows it.
type inspected struct {
	Digest      string            `json:"digest"`
	MediaType   string            `json:"media_type"`
	Name        string            `json:"name,omitempty"`
	Version     string            `json:"version,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Signatures  []string          `json:"signatures"` // digests of the bundles' manifests; their worth is mm verify's business
	Layers      []inspectedLayer  `json:"layers,omitempty"`
	Targets     []inspected       `json:"targets,omitempty"`
	Target      string            `json:"target,omitempty"`
}

type inspectedLayer struct {
	Path        string            `json:"path"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	MediaType   string            `json:"media_type"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func inspect(c *cli.Context, s *registry.Store, desc ocispec.Descriptor) (inspected, error) {
	in := inspected{Digest: desc.Digest.String(), MediaType: desc.MediaType, Signatures: []string{}}
	bundles, err := s.Referrers(c.Context, desc, sign.BundleMediaType)
	if err != nil {
		return in, err
	}
	for _, b := range bundles {
		in.Signatures = append(in.Signatures, b.Digest.String())
	}
	if desc.MediaType == ocispec.MediaTypeImageIndex {
		ix, err := registry.ReadIndex(c.Context, s, desc)
		if err != nil {
			return in, err
		}
		in.Annotations = ix.Annotations
		in.Name, in.Version = ix.Annotations[abi.AnnotationName], ix.Annotations[abi.AnnotationVersion]
		for _, e := range ix.Entries {
			t, err := inspect(c, s, e.Descriptor)
			if err != nil {
				return in, err
			}
			t.Target = e.Target
			in.Targets = append(in.Targets, t)
		}
		return in, nil
	}
	a, err := registry.ReadArtifact(c.Context, s, desc)
	if err != nil {
		return in, err
	}
	in.Name, in.Version, in.Annotations = a.Name, a.Version, a.Annotations
	for _, l := range a.Layers {
		in.Layers = append(in.Layers, inspectedLayer{l.Path, l.Descriptor.Digest.String(), l.Descriptor.Size, l.Descriptor.MediaType, l.Annotations})
	}
	return in, nil
}

func (p *program) printInspected(in inspected, indent string) error {
	fmt.Fprintf(p.stdout, "%s%s %s  %s\n", indent, diag.Printable(in.Name), diag.Printable(in.Version), in.Digest)
	for _, key := range slices.Sorted(maps.Keys(in.Annotations)) {
		fmt.Fprintf(p.stdout, "%s  %s: %s\n", indent, diag.Printable(key), diag.Printable(in.Annotations[key]))
	}
	fmt.Fprintf(p.stdout, "%s  signatures: %d\n", indent, len(in.Signatures))
	var rows [][]string
	for _, l := range in.Layers {
		a := l.Annotations
		rows = append(rows, []string{indent + "  " + l.Path, a[abi.AnnotationRole], a[abi.AnnotationFormat], a[abi.AnnotationQuant], size(l.Size), short(l.Digest)})
	}
	if rows != nil {
		if err := p.printTable([]string{indent + "  PATH", "ROLE", "FORMAT", "QUANT", "SIZE", "DIGEST"}, rows); err != nil {
			return err
		}
	}
	for _, t := range in.Targets {
		fmt.Fprintf(p.stdout, "\n%s  target %s\n", indent, diag.Printable(t.Target))
		if err := p.printInspected(t, indent+"  "); err != nil {
			return err
		}
	}
	return nil
}
