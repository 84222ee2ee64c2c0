package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/resolve"
)

func (p *program) lockCommand() *cli.Command {
	return &cli.Command{
		Name: "lock", Usage: "pin the modules of a graph to exact bytes", ArgsUsage: "GRAPH",
		Description: "Writes NAME.lock.yaml beside the graph and the build's rows of compat.csv. What is\n" +
			"locked already stays as it is, unless --update names it.",
		Flags: append(append([]cli.Flag{
			p.jsonFlag(),
			&cli.StringSliceFlag{Name: "update", Usage: "look for a newer version of `NAME` (* for all)"},
			&cli.BoolFlag{Name: "check", Usage: "write nothing; fail if the lock is out of date"},
		}, resolveFlags()...), trustFlags()...),
		Action: p.lock,
	}
}

func (p *program) lock(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	defer store.Close()
	data, err := os.ReadFile(c.Args().First())
	if err != nil {
		return err
	}
	g, list := builds.Parse(c.Args().First(), data)
	if err := list.Err(); err != nil {
		return err
	}
	r := &resolver{p: p, c: c, store: store, locked: c.Bool("locked"), update: c.StringSlice("update")}
	found, lock, err := r.Resolve(c.Context, g)
	if err != nil {
		return err
	}
	lock.Graph = builds.NewLock(g, data).Graph
	list = append(list, g.Check(resolve.Resolved(found))...)
	if err := list.Err(); err != nil {
		return err
	}
	return p.writeLock(c, g, lock, list)
}

// writeLock writes the lock and the compatibility table, or compares them.
func (p *program) writeLock(c *cli.Context, g *builds.Graph, lock *builds.Lock, list diag.List) error {
	text, err := lock.Encode()
	if err != nil {
		return err
	}
	compatFile := filepath.Join(filepath.Dir(g.File), builds.CompatFile)
	compat, err := readCompat(compatFile)
	if err != nil {
		return err
	}
	table := compat.Replace(g.Name, lock.CompatRows(g.Name, "fits")).Encode()
	for _, f := range []struct {
		path string
		data []byte
		code diag.Code
	}{{g.LockFile(), text, diag.LockStale}, {compatFile, table, diag.CompatWritten}} {
		if !c.Bool("check") {
			if err := fsx.WriteFile(f.path, f.data, 0o644); err != nil {
				return err
			}
			continue
		}
		have, err := os.ReadFile(f.path)
		if err != nil || string(have) != string(f.data) {
			list.Add(f.code, diag.Pos{File: f.path}, "", "run mm lock "+g.File)
		}
	}
	if err := list.Err(); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(lock)
	}
	if err := p.tell(p.stderr, list); err != nil {
		return err
	}
	var rows [][]string
	for _, m := range lock.Modules {
		rows = append(rows, []string{m.Name, m.Version, m.Source, size(m.Size), short(m.Digest)})
	}
	if err := p.printTable([]string{"MODULE", "VERSION", "FROM", "SIZE", "DIGEST"}, rows); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, g.LockFile())
	return err
}

func readCompat(file string) (builds.Compat, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return builds.ParseCompat(data)
}
