package main

import (
	"errors"
	"fmt"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/registry"
)

func (p *program) lsCommand() *cli.Command {
	return &cli.Command{
		Name: "ls", Aliases: []string{"list"}, Usage: "list what the store holds",
		Flags: []cli.Flag{p.jsonFlag(), layoutFlag()},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, 0); err != nil {
				return err
			}
			s, err := openLayout(c)
			if err != nil {
				return err
			}
			defer s.Close()
			tags, err := s.Tags(c.Context)
			if err != nil {
				return err
			}
			return p.printTags(c, s, tags)
		},
	}
}

// listed is one line of mm ls.
type listed struct {
	Ref     string `json:"ref"`
	Kind    string `json:"kind"` // module, assembly, index
	Type    string `json:"type,omitempty"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest"`
	Size    int64  `json:"size"` // of all layers
}

func (p *program) printTags(c *cli.Context, s *registry.Store, tags []registry.Tag) error {
	list := []listed{}
	for _, t := range tags {
		l := listed{Ref: t.Ref, Kind: "?", Digest: t.Descriptor.Digest.String()}
		if t.Descriptor.MediaType == ocispec.MediaTypeImageIndex {
			l.Kind = "index"
			if ix, err := registry.ReadIndex(c.Context, s, t.Descriptor); err == nil {
				l.Version = ix.Annotations[abi.AnnotationVersion]
				for _, e := range ix.Entries {
					l.Size += artifactSize(c, s, e.Descriptor)
				}
			}
		} else if a, err := registry.ReadArtifact(c.Context, s, t.Descriptor); err == nil {
			l.Kind, l.Type, l.Version = a.Annotations[abi.AnnotationKind], a.Annotations[abi.AnnotationType], a.Annotations[abi.AnnotationVersion]
			l.Size = artifactSize(c, s, t.Descriptor)
		}
		list = append(list, l)
	}
	if p.json {
		return p.printJSON(list)
	}
	var rows [][]string
	for _, l := range list {
		kind := l.Kind
		if l.Type != "" {
			kind = l.Type
		}
		rows = append(rows, []string{l.Ref, kind, size(l.Size), short(l.Digest)})
	}
	return p.printTable([]string{"REF", "KIND", "SIZE", "DIGEST"}, rows)
}

func artifactSize(c *cli.Context, s *registry.Store, desc ocispec.Descriptor) int64 {
	a, err := registry.ReadArtifact(c.Context, s, desc)
	if err != nil {
		return 0
	}
	n := int64(0)
	for _, l := range a.Layers {
		n += l.Descriptor.Size
	}
	return n
}

func (p *program) tagCommand() *cli.Command {
	return &cli.Command{
		Name: "tag", Usage: "give an artifact of the store another name", ArgsUsage: "REF NEWREF",
		Flags: []cli.Flag{layoutFlag(), forceFlag()},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 2, 2); err != nil {
				return err
			}
			s, err := openLayout(c)
			if err != nil {
				return err
			}
			defer s.Close()
			desc, err := find(c, s, c.Args().Get(0))
			if err != nil {
				return err
			}
			return claim(c, s, desc, c.Args().Get(1))
		},
	}
}

// forceFlag lets a command move a version to other bytes.
func forceFlag() cli.Flag {
	return &cli.BoolFlag{Name: "force", Usage: "move a version that names other bytes already"}
}

// claim gives desc a name. A version that is other bytes moves under --force
// only.
func claim(c *cli.Context, s *registry.Store, desc ocispec.Descriptor, ref string) error {
	if c.Bool("force") {
		return s.Tag(c.Context, desc, ref)
	}
	return s.Claim(c.Context, desc, ref)
}

// find resolves a reference in the store and says so well when it is not
// there.
func find(c *cli.Context, s *registry.Store, ref string) (ocispec.Descriptor, error) {
	desc, err := s.Resolve(c.Context, ref)
	if errors.Is(err, errdef.ErrNotFound) {
		var list diag.List
		list.Add(diag.NoArtifact, diag.Pos{}, fmt.Sprintf("%s is not in %s", ref, s.Dir()), "mm ls lists what is there; mm pull fetches it")
		return desc, list.Err()
	}
	return desc, err
}

func (p *program) rmCommand() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove names from the store; mm gc frees the bytes", ArgsUsage: "REF…",
		Flags: []cli.Flag{layoutFlag()},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, -1); err != nil {
				return err
			}
			s, err := openLayout(c)
			if err != nil {
				return err
			}
			defer s.Close()
			for _, ref := range c.Args().Slice() {
				if _, err := find(c, s, ref); err != nil {
					return err
				}
				if err := s.Remove(c.Context, ref); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (p *program) gcCommand() *cli.Command {
	return &cli.Command{
		Name: "gc", Usage: "free the bytes that no name reaches",
		Flags: []cli.Flag{
			p.jsonFlag(), layoutFlag(),
			&cli.BoolFlag{Name: "dry-run", Usage: "only say what would go"},
			&cli.DurationFlag{Name: "grace", Value: 24 * time.Hour, Usage: "keep what is younger, for work that goes on"},
		},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, 0); err != nil {
				return err
			}
			s, err := openLayout(c)
			if err != nil {
				return err
			}
			defer s.Close()
			grace := c.Duration("grace")
			if grace == 0 {
				grace = -1 // the store's zero is its default
			}
			report, err := s.GC(c.Context, registry.GCOptions{DryRun: c.Bool("dry-run"), Grace: grace})
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(report)
			}
			verb := "removed"
			if c.Bool("dry-run") {
				verb = "would remove"
			}
			fmt.Fprintf(p.stdout, "%s %d blobs (%s) and %d leftovers; %d blobs stay, %d of them young and unreachable\n",
				verb, len(report.Blobs), size(report.Bytes), report.Temp, report.Kept+report.Young, report.Young)
			return nil
		},
	}
}

func (p *program) fsckCommand() *cli.Command {
	return &cli.Command{
		Name: "fsck", Usage: "check every byte of the store",
		Flags: []cli.Flag{
			p.jsonFlag(), layoutFlag(),
			&cli.BoolFlag{Name: "quick", Usage: "check presence and sizes only"},
			&cli.BoolFlag{Name: "repair", Usage: "remove damaged blobs, so that they can be pulled again"},
		},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, 0); err != nil {
				return err
			}
			s, err := openLayout(c)
			if err != nil {
				return err
			}
			defer s.Close()
			report, err := s.Fsck(c.Context, registry.FsckOptions{Quick: c.Bool("quick"), Repair: c.Bool("repair")})
			if err != nil {
				return err
			}
			if p.json {
				if err := p.printJSON(report); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(p.stdout, "%d tags, %d blobs, %s, %d leftovers of interrupted work\n", report.Tags, report.Blobs, size(report.Bytes), report.Temp)
				for _, n := range report.Notes {
					p.say("note: %s", n)
				}
			}
			return p.damage(report)
		},
	}
}

// damage turns the store's problems into diagnostics.
func (p *program) damage(report registry.FsckReport) error {
	var list diag.List
	for _, pr := range report.Problems {
		detail := pr.Detail
		if pr.Ref != "" {
			detail += " (of " + pr.Ref + ")"
		}
		code := diag.Corrupt
		if pr.Digest != "" {
			code = diag.Tampered
			detail = pr.Digest.String() + ": " + detail
		}
		list.Add(code, diag.Pos{File: pr.Path}, detail, "mm fsck --repair removes damaged blobs; pull or assemble them again")
	}
	err := list.Err()
	if err == nil {
		return nil
	}
	if p.json {
		return reported{err}
	}
	return err
}
