package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/urfave/cli/v2"

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
	return written(p, corpus.Outcome{Lineage: l, Dir: opt.Out}, bucket.Fault(c.Args().First(), err))
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
	p.Note("%s: %s", opt.Out, diag.Count(len(one.Sources(m)), "source"))
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
		"%s: %s, license %s", m.Name, diag.Count(len(m.Sources), "source"), m.License())
}
