package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/trust"
)

func (p *program) trustAddAction(c *cli.Context) error {
	return p.trustAdd(c.Context, trustAdd{
		file: c.String("trust"), key: c.Args().First(), name: c.String("name"), match: c.StringSlice("match"), notAfter: c.String("not-after"),
	})
}

func (p *program) trustRmAction(c *cli.Context) error {
	return p.trustRemove(c.Context, c.String("trust"), c.Args().First())
}

func (p *program) trustLsAction(c *cli.Context) error {
	return p.trustList(c.String("trust"))
}

func (p *program) trustAcceptAction(c *cli.Context) error {
	return p.trustAccept(c.Context, c.Args().First())
}

// trustAdd holds the options of mm trust add.
type trustAdd struct {
	file, key, name, notAfter string
	match                     []string
}

// trustFile returns file, or the user's trust file if it is empty.
func trustFile(file string) (string, error) {
	if file != "" {
		return file, nil
	}
	dir, err := workspace.DefaultHome()
	return filepath.Join(dir, home.TrustName), err
}

func (p *program) trustAdd(ctx context.Context, add trustAdd) error {
	data, err := fsx.ReadFile(add.key, trust.MaxKey)
	if err != nil {
		return err
	}
	pub, err := sign.LoadPublic(data)
	if err != nil {
		return fmt.Errorf("reading %s: %w", add.key, err)
	}
	if add.name == "" {
		add.name = strings.TrimSuffix(filepath.Base(add.key), ".pub")
	}
	if len(add.match) == 0 {
		add.match = []string{"**"}
	}
	file, err := trustFile(add.file)
	if err != nil {
		return err
	}
	if err := trust.Change(ctx, file, func(t *trust.File) error {
		return t.Add(add.name, trust.Key{PEM: string(data), NotAfter: add.notAfter}, add.match)
	}); err != nil {
		return err
	}
	return p.sayLine(map[string]any{"file": file, "name": add.name, "id": pub.KeyID(), "match": add.match}, "%s now trusts %s (%s) for %s", file, add.name, pub.KeyID()[:12], strings.Join(add.match, ", "))
}

func (p *program) trustRemove(ctx context.Context, file, name string) error {
	file, err := trustFile(file)
	if err != nil {
		return err
	}
	if err := trust.Change(ctx, file, func(t *trust.File) error { return t.Remove(name) }); err != nil || !p.json {
		return err
	}
	return p.printJSON(map[string]string{"file": file, "name": name})
}

func (p *program) trustAccept(ctx context.Context, file string) error {
	w, err := p.open(workspace.Options{})
	if err != nil {
		return err
	}
	defer w.Close()
	t, err := w.Accept(ctx, file)
	if err != nil {
		return err
	}
	return p.sayLine(map[string]any{"file": file, "rules": len(t.Rules), "keys": len(t.Keys)}, "accepted %s for its project: %s, %s", file, count(len(t.Rules), "rule"), count(len(t.Keys), "key"))
}

func (p *program) trustList(file string) error {
	file, err := trustFile(file)
	if err != nil {
		return err
	}
	t, err := trust.Load(file)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(t)
	}
	policy, err := t.Policy()
	if err != nil {
		return err
	}
	var rows [][]string
	for _, r := range t.Rules {
		for _, name := range r.Keys {
			k := t.Keys[name]
			id, note := "?", k.NotAfter
			if pub, err := sign.LoadPublic(policy.Keys[name].PEM); err == nil {
				id = pub.KeyID()[:12]
			}
			if i, ok := t.Identities[name]; ok {
				id, note, k.Revoked = i.Subject+i.Pattern+" by "+i.Issuer, i.NotAfter, i.Revoked
			}
			if k.Revoked {
				note = "revoked"
			}
			rows = append(rows, []string{r.Match, fmt.Sprint(max(r.Threshold, 1)), name, id, note})
		}
	}
	return p.printTable([]string{"REPOSITORIES", "OF", "KEY", "ID", "UNTIL"}, rows)
}
