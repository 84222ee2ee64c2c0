package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/workspace"
)

func (p *program) ls(c *cli.Context, w *workspace.Workspace) error {
	list, err := w.List(c.Context)
	if err != nil {
		return err
	}
	if !p.JSON && !c.Bool("all") {
		list = slices.DeleteFunc(list, func(l workspace.Listed) bool { return l.Build != "" })
	}
	return printRows(p, list, []string{"REF", "KIND", "SIZE", "DIGEST", "SHARED", "SIGNED BY", "ADDED"}, func(l workspace.Listed) []string {
		kind := l.Kind
		if l.Type != "" {
			kind = l.Type
		}
		if len(l.Targets) > 0 {
			kind += ": " + strings.Join(l.Targets, ", ")
		}
		if l.Alias != "" {
			l.Ref += " = " + l.Alias
		}
		return []string{l.Ref, kind, size(l.Size), short(l.Digest), size(l.Shared), cmp.Or(strings.Join(l.Signed, ", "), l.Trust), l.Added.Local().Format(time.DateOnly)}
	})
}

func (p *program) tag(c *cli.Context, w *workspace.Workspace) error {
	ref, name := c.Args().Get(0), c.Args().Get(1)
	err := w.Tag(c.Context, ref, name, workspace.TagOptions{Alias: c.Bool("alias"), Force: c.Bool("force")})
	return p.silently(map[string]string{"ref": name, "from": ref}, err)
}

func (p *program) remove(c *cli.Context, w *workspace.Workspace) error {
	removed, err := w.Remove(c.Context, c.Args().Slice()...)
	for _, name := range removed {
		p.Note("removed %s", name)
	}
	return p.silently(map[string][]string{"removed": removed}, err)
}

func (p *program) gc(c *cli.Context, w *workspace.Workspace) error {
	opt := registry.GCOptions{DryRun: c.Bool("dry-run"), Grace: c.Duration("grace")}
	if opt.Grace == 0 {
		opt.Grace = -1 // zero means the default
	}
	s, err := w.Store()
	if err != nil {
		return err
	}
	var all collected
	if err := s.WithReserve(c.Context, func() (err error) { all.GCReport, err = s.GC(c.Context, opt); return err }); err != nil {
		return err
	}
	if !opt.DryRun {
		s.KeepReserve()
	}
	if all.Cleared, err = w.ClearCaches(opt.DryRun); err != nil {
		return err
	}
	report := all.GCReport
	if p.JSON {
		all.Blobs, all.Referrers = listed(report.Blobs), listed(report.Referrers)
		return p.PrintJSON(all)
	}
	verb := "removed"
	if opt.DryRun {
		verb = "would remove"
	}
	_, err = fmt.Fprintf(p.Stdout, "%s %d blobs (%s), %d temporary files, the vectors of %d inputs (%s) and %d sequences (%s); %d blobs kept, %d of them unreferenced and young\n",
		verb, len(report.Blobs), size(report.Bytes), report.Temp, all.Features, size(all.FeatureBytes), all.Sequences, size(all.SequenceBytes), report.Kept+report.Young, report.Young)
	if report.Young > 0 {
		p.Note("mm: unreferenced data younger than %s was kept, for commands that are still running; mm gc --grace 0 removes it if there are none", opt.Grace)
	}
	return err
}

// collected is the output of mm gc.
type collected struct {
	registry.GCReport
	workspace.Cleared
}

func (p *program) fsck(c *cli.Context, w *workspace.Workspace) error {
	opt := registry.FsckOptions{Quick: c.Bool("quick"), Repair: c.Bool("repair")}
	if opt.Repair {
		if err := w.Rebuild(c.Context); err != nil {
			return err
		}
	}
	s, err := w.Store()
	if err != nil {
		return err
	}
	report, err := s.Fsck(c.Context, opt)
	if err != nil {
		return err
	}
	if p.JSON {
		report.Left, report.Problems, report.Notes = listed(report.Left), listed(report.Problems), listed(report.Notes)
		if err := p.PrintJSON(report); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.Stdout, "%d tags, %d blobs, %s, %d temporary files\n", report.Tags, report.Blobs, size(report.Bytes), report.Temp)
		for _, n := range report.Notes {
			p.Note("note: %s", n)
		}
	}
	var engines diag.List
	if s.Dir() == w.StoreDir() {
		if engines, err = w.ChangedEngines(c.Context); err != nil {
			return err
		}
	}
	list := append(engines, workspace.Damage(report)...)
	if err := list.Err(); err != nil && p.JSON {
		return reported{err}
	}
	return list.Err()
}
