package main

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/corpus"
	"mm-abi.org/mm/registry/bucket"
)

func (p *program) dataBuild(c *cli.Context) error {
	opt := corpus.Options{Out: c.String("out"), Dir: c.String("dir"), Threads: c.Int("threads"), Force: c.Bool("force"), Parts: c.StringSlice("parts"), Objects: objects()}
	m, list := corpus.Read(c.Args().First())
	if err := list.Err(); err != nil {
		return err
	}
	if opt.Dir == "" {
		opt.Dir = filepath.Dir(c.Args().First())
	}
	if part := c.String("part"); part != "" {
		return p.dataPart(c.Context, m, part, opt)
	}
	l, err := corpus.Build(c.Context, m, opt)
	if err != nil {
		return bucket.Fault(c.Args().First(), err)
	}
	return p.printLineage(l, opt.Out)
}

// dataPart writes a part of the documents of a manifest.
func (p *program) dataPart(ctx context.Context, m *corpus.Manifest, part string, opt corpus.Options) error {
	one, err := corpus.ParsePart(part)
	if err == nil && len(opt.Parts) > 0 {
		err = errors.New("--part: want no --parts")
	}
	if err != nil {
		return diag.Usage(err)
	}
	if err := corpus.WritePart(ctx, m, one, opt); err != nil {
		return bucket.Fault(opt.Out, err)
	}
	p.Note("%s: %s", opt.Out, console.Count(len(one.Sources(m)), "source"))
	return nil
}

func (p *program) dataCheck(c *cli.Context) error {
	file, dir := c.Args().First(), c.String("dir")
	m, list := corpus.Read(file)
	if dir == "" {
		dir = filepath.Dir(file)
	}
	if m != nil {
		more, err := m.CheckSources(c.Context, corpus.Options{Dir: dir, Objects: objects()})
		if err != nil {
			return bucket.Fault(file, err)
		}
		list = append(list, more...)
		list.Sort()
	}
	if err := list.Err(); err != nil {
		return err
	}
	return p.PrintLine(map[string]any{"name": m.Name, "sources": len(m.Sources), "license": m.License(), "digest": m.LineageDigest()},
		"%s: %s, license %s", m.Name, console.Count(len(m.Sources), "source"), m.License())
}

// printLineage prints what became of each source and the files.
func (p *program) printLineage(l *corpus.Lineage, dir string) error {
	if p.JSON {
		return p.PrintJSON(struct {
			*corpus.Lineage
			Unchanged bool `json:"unchanged"`
		}{l, l.Unchanged})
	}
	var rows [][]string
	for _, s := range l.Sources {
		row := []string{s.ID}
		n := s.Counts
		for _, v := range []int64{n.Rows, n.Faulty, n.Filtered, n.Length, n.PII, n.Duplicate, n.Near, n.Kept} {
			row = append(row, strconv.FormatInt(v, 10))
		}
		rows = append(rows, row)
	}
	if err := p.PrintTable([]string{"SOURCE", "ROWS", "FAULTY", "FILTERED", "LENGTH", "PII", "EQUAL", "SIMILAR", "KEPT"}, rows); err != nil {
		return err
	}
	for _, f := range l.Files {
		if err := p.Line("%s: %s, %s", filepath.Join(dir, f.File), console.Count(int(f.Documents), "document"), size(f.Bytes)); err != nil {
			return err
		}
	}
	note := ""
	if l.Unchanged {
		note = " (unchanged)"
	}
	return p.Line("license %s, lineage %s%s", l.License, l.Digest, note)
}
