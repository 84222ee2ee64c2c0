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
)

func (p *program) trustCommand() *cli.Command {
	file := &cli.StringFlag{Name: "trust", Usage: "trust `FILE` (default: trust.yaml in MM_HOME)"}
	return &cli.Command{
		Name: "trust", Usage: "say which keys may release what",
		Subcommands: []*cli.Command{
			{
				Name: "add", Usage: "trust a public key for the repositories of a pattern", ArgsUsage: "KEYFILE",
				Flags: []cli.Flag{
					file, p.jsonFlag(),
					&cli.StringFlag{Name: "name", Usage: "what to call the key (default: the file's name)"},
					&cli.StringSliceFlag{Name: "match", Usage: "repository `PATTERN`, such as registry.example/team/** (default: **)"},
					&cli.StringFlag{Name: "not-after", Usage: "last day on which its signatures count, YYYY-MM-DD"},
				},
				Action: func(c *cli.Context) error {
					if err := wantArgs(c, 1, 1); err != nil {
						return err
					}
					return p.trustAdd(c.Context, trustAdd{
						file: c.String("trust"), key: c.Args().First(), name: c.String("name"), match: c.StringSlice("match"), notAfter: c.String("not-after"),
					})
				},
			},
			{
				Name: "rm", Usage: "stop trusting a key", ArgsUsage: "NAME", Flags: []cli.Flag{file, p.jsonFlag()},
				Action: func(c *cli.Context) error {
					if err := wantArgs(c, 1, 1); err != nil {
						return err
					}
					return p.trustRemove(c.Context, c.String("trust"), c.Args().First())
				},
			},
			{
				Name: "ls", Usage: "show the rules and keys", Flags: []cli.Flag{file, p.jsonFlag()},
				Action: func(c *cli.Context) error {
					if err := wantArgs(c, 0, 0); err != nil {
						return err
					}
					return p.trustList(c.String("trust"))
				},
			},
			{
				Name: "accept", Usage: "let a project's trust file decide for that project, as it is now", ArgsUsage: "FILE",
				Description: "A trust file that mm.yaml names can ask for more than your own, not for less. Once accepted\nit decides for its project, until it or a key in it changes.",
				Flags:       []cli.Flag{p.jsonFlag()},
				Action: func(c *cli.Context) error {
					if err := wantArgs(c, 1, 1); err != nil {
						return err
					}
					return p.trustAccept(c.Context, c.Args().First())
				},
			},
		},
	}
}

// trustAdd is what mm trust add was asked.
type trustAdd struct {
	file, key, name, notAfter string
	match                     []string
}

// trustFile is the file that is shown and changed: the one given, or the
// user's.
func trustFile(file string) (string, error) {
	if file != "" {
		return file, nil
	}
	home, err := workspace.DefaultHome()
	return filepath.Join(home, workspace.TrustName), err
}

func (p *program) trustAdd(ctx context.Context, add trustAdd) error {
	data, err := fsx.ReadFile(add.key, workspace.MaxKey)
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
	if err := workspace.ChangeTrust(ctx, file, func(t *workspace.Trust) error {
		return t.Add(add.name, workspace.TrustKey{PEM: string(data), NotAfter: add.notAfter}, add.match)
	}); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]any{"file": file, "name": add.name, "id": pub.KeyID(), "match": add.match})
	}
	p.say("%s now trusts %s (%s) for %s", file, add.name, pub.KeyID()[:12], strings.Join(add.match, ", "))
	return nil
}

func (p *program) trustRemove(ctx context.Context, file, name string) error {
	file, err := trustFile(file)
	if err != nil {
		return err
	}
	if err := workspace.ChangeTrust(ctx, file, func(t *workspace.Trust) error { return t.Remove(name) }); err != nil || !p.json {
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
	if p.json {
		return p.printJSON(map[string]any{"file": file, "rules": len(t.Rules), "keys": len(t.Keys)})
	}
	p.say("%s now decides for its project, as it is: %s, %s", file, count(len(t.Rules), "rule"), count(len(t.Keys), "key"))
	return nil
}

func (p *program) trustList(file string) error {
	file, err := trustFile(file)
	if err != nil {
		return err
	}
	t, err := workspace.LoadTrust(file)
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
			if k.Revoked {
				note = "revoked"
			}
			rows = append(rows, []string{r.Match, fmt.Sprint(max(r.Threshold, 1)), name, id, note})
		}
	}
	return p.printTable([]string{"REPOSITORIES", "OF", "KEY", "ID", "UNTIL"}, rows)
}
