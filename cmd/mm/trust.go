package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/trust"
)

// trustFile returns file, or the user's trust file if it is empty.
func trustFile(file string) (string, error) {
	if file != "" {
		return file, nil
	}
	dir, err := workspace.DefaultHome()
	return filepath.Join(dir, home.TrustName), err
}

func (p *program) trustAdd(c *cli.Context) error {
	key, name, match := c.Args().First(), c.String("name"), c.StringSlice("match")
	data, err := fsx.ReadFile(key, trust.MaxKey)
	if err != nil {
		return err
	}
	pub, err := sign.LoadPublic(data)
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(key), ".pub")
	}
	if len(match) == 0 {
		match = []string{"**"}
	}
	file, err := trustFile(c.String("trust"))
	if err != nil {
		return err
	}
	if err := trust.Change(c.Context, file, func(t *trust.File) error {
		return t.Add(name, trust.Key{PEM: string(data), NotAfter: c.String("not-after")}, match)
	}); err != nil {
		return err
	}
	return p.SayLine(map[string]any{"file": file, "name": name, "id": pub.KeyID(), "match": match}, "%s now trusts %s (%s) for %s", file, name, pub.KeyID()[:12], strings.Join(match, ", "))
}

func (p *program) trustRemove(c *cli.Context) error {
	name := c.Args().First()
	file, err := trustFile(c.String("trust"))
	if err != nil {
		return err
	}
	err = trust.Change(c.Context, file, func(t *trust.File) error { return t.Remove(name) })
	return p.silently(map[string]string{"file": file, "name": name}, err)
}

func (p *program) trustAccept(c *cli.Context, w *workspace.Workspace) error {
	file := c.Args().First()
	t, err := w.Accept(c.Context, file)
	if err != nil {
		return err
	}
	return p.SayLine(map[string]any{"file": file, "rules": len(t.Rules), "keys": len(t.Keys)}, "accepted %s for its project: %s, %s", file, diag.Count(len(t.Rules), "rule"), diag.Count(len(t.Keys), "key"))
}

func (p *program) trustList(c *cli.Context) error {
	file, err := trustFile(c.String("trust"))
	if err != nil {
		return err
	}
	t, err := trust.Load(file)
	return written(p, t, err)
}
