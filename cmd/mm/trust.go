package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/schemas"
)

// trust is trust.yaml: which keys may release what.
type trust struct {
	Version int                 `json:"version"`
	Strict  bool                `json:"strict,omitempty"`
	Default string              `json:"default,omitempty"`
	Rules   []trustRule         `json:"rules,omitempty"`
	Keys    map[string]trustKey `json:"keys,omitempty"`

	doc  *schemas.Document
	file string
}

type trustRule struct {
	Match     string   `json:"match"`
	Keys      []string `json:"keys"`
	Threshold int      `json:"threshold,omitempty"`
}

type trustKey struct {
	File     string `json:"file,omitempty"` // relative to trust.yaml
	PEM      string `json:"pem,omitempty"`
	NotAfter string `json:"not_after,omitempty"`
	Revoked  bool   `json:"revoked,omitempty"`
}

const trustHeader = "# Which keys may release what. `mm trust add` and `mm trust rm` write this file anew.\n"

// loadTrust reads a trust file. One that is not there trusts nobody.
func loadTrust(file string) (*trust, error) {
	t := &trust{Version: 1, file: file}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the trust file: %w", err)
	}
	doc, list := schemas.Load(schemas.Trust, file, data)
	if err := list.Err(); err != nil {
		return nil, err
	}
	t.doc = doc
	return t, doc.Decode(t)
}

// policy turns the file into what registry/sign decides by. Faults are
// diagnostics at the key or rule concerned.
func (t *trust) policy() (sign.Policy, error) {
	p := sign.Policy{Strict: t.Strict, Default: sign.Action(t.Default), Keys: map[string]sign.TrustedKey{}}
	var list diag.List
	for _, r := range t.Rules {
		p.Rules = append(p.Rules, sign.Rule{Match: r.Match, Keys: r.Keys, Threshold: r.Threshold})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Keys)) {
		k := t.Keys[name]
		key := sign.TrustedKey{PEM: []byte(k.PEM), Revoked: k.Revoked}
		if k.File != "" {
			file := k.File
			if !filepath.IsAbs(file) {
				file = filepath.Join(filepath.Dir(t.file), filepath.FromSlash(file))
			}
			data, err := os.ReadFile(file)
			if err != nil {
				list.Add(diag.BadTrust, t.pos("/keys/"+name), err.Error(), "name the public key's file, relative to trust.yaml")
				continue
			}
			key.PEM = data
		}
		if k.NotAfter != "" {
			when, err := schemas.ParseWhen(k.NotAfter)
			if err != nil {
				list.Add(diag.BadTrust, t.pos("/keys/"+name), err.Error(), "")
			}
			key.NotAfter = when
		}
		p.Keys[name] = key
	}
	if list.Failed() {
		return p, list.Err()
	}
	return p, t.faults(p.Validate())
}

// faults places the policy's own faults in the file.
func (t *trust) faults(err error) error {
	if err == nil {
		return nil
	}
	var list diag.List
	var each interface{ Unwrap() []error }
	all := []error{err}
	if errors.As(err, &each) {
		all = each.Unwrap()
	}
	for _, e := range all {
		var pe *sign.PolicyError
		if errors.As(e, &pe) {
			list.Add(diag.BadTrust, t.pos(pointerOf(pe.Path)), pe.Error(), "")
		} else {
			list.Add(diag.BadTrust, diag.Pos{File: t.file}, e.Error(), "")
		}
	}
	return list.Err()
}

// pointerOf turns rules[2].match into /rules/2/match.
func pointerOf(path string) string {
	return "/" + strings.NewReplacer("[", "/", "]", "", ".", "/").Replace(path)
}

func (t *trust) pos(ptr string) diag.Pos {
	if t.doc == nil {
		return diag.Pos{File: t.file}
	}
	return t.doc.Pos(ptr)
}

func (t *trust) save() error {
	data, err := schemas.Encode(t)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(t.file), 0o755); err != nil {
		return err
	}
	return fsx.WriteFile(t.file, append([]byte(trustHeader), data...), 0o644)
}

// trustFlags let a command choose what is trusted.
func trustFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "trust", Usage: "trust `FILE` (default: mm.yaml's, then trust.yaml in MM_HOME)"},
		&cli.StringSliceFlag{Name: "key", Usage: "trust exactly this public key `FILE` for this command"},
		&cli.BoolFlag{Name: "insecure-skip-verify", Usage: "use the artifact unverified; printed and logged"},
	}
}

// trustPath is the trust file that holds for the current folder.
func trustPath(c *cli.Context) (string, error) {
	if file := c.String("trust"); file != "" {
		if !exists(file) {
			return "", usageError{fmt.Errorf("no trust file at %s", file)}
		}
		return file, nil
	}
	set, list := loadSettings(".")
	if err := list.Err(); err != nil {
		return "", err
	}
	if set.Trust != "" {
		return set.Trust, nil
	}
	dir, err := home()
	return filepath.Join(dir, trustFile), err
}

// policyOf is the policy a command's flags ask for.
func policyOf(c *cli.Context) (sign.Policy, error) {
	if keys := c.StringSlice("key"); len(keys) > 0 {
		t := &trust{Keys: map[string]trustKey{}, file: "--key"}
		var names []string
		for _, file := range keys {
			path, err := filepath.Abs(file)
			if err != nil {
				return sign.Policy{}, err
			}
			t.Keys[file] = trustKey{File: path}
			names = append(names, file)
		}
		t.Rules = []trustRule{{Match: "**", Keys: names}}
		return t.policy()
	}
	file, err := trustPath(c)
	if err != nil {
		return sign.Policy{}, err
	}
	t, err := loadTrust(file)
	if err != nil {
		return sign.Policy{}, err
	}
	return t.policy()
}

// verifierOf makes the verifier of a command.
func (p *program) verifierOf(c *cli.Context) (*sign.Verifier, sign.Policy, error) {
	policy, err := policyOf(c)
	if err != nil {
		return nil, policy, err
	}
	v, err := sign.NewVerifier(policy, sign.VerifyOptions{Now: time.Now(), Warned: func(r *sign.Refusal) {
		p.say("mm: warning: %v", r)
	}})
	return v, policy, err
}

func (p *program) trustCommand() *cli.Command {
	file := &cli.StringFlag{Name: "trust", Usage: "trust `FILE` (default: mm.yaml's, then trust.yaml in MM_HOME)"}
	return &cli.Command{
		Name: "trust", Usage: "say which keys may release what",
		Subcommands: []*cli.Command{
			{
				Name: "add", Usage: "trust a public key for the repositories of a pattern", ArgsUsage: "KEYFILE",
				Flags: []cli.Flag{file,
					&cli.StringFlag{Name: "name", Usage: "what to call the key (default: the file's name)"},
					&cli.StringSliceFlag{Name: "match", Usage: "repository `PATTERN`, such as registry.example/team/** (default: **)"},
					&cli.StringFlag{Name: "not-after", Usage: "last day on which its signatures count, YYYY-MM-DD"},
				},
				Action: p.trustAdd,
			},
			{
				Name: "rm", Usage: "stop trusting a key", ArgsUsage: "NAME",
				Flags: []cli.Flag{file}, Action: p.trustRemove,
			},
			{
				Name: "ls", Usage: "show the rules and keys", Flags: []cli.Flag{file, p.jsonFlag()}, Action: p.trustList,
			},
		},
	}
}

func (p *program) trustAdd(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	data, err := os.ReadFile(c.Args().First())
	if err != nil {
		return err
	}
	pub, err := sign.LoadPublic(data)
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.Args().First(), err)
	}
	name := c.String("name")
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(c.Args().First()), ".pub")
	}
	match := c.StringSlice("match")
	if len(match) == 0 {
		match = []string{"**"}
	}
	file, err := trustFileFor(c)
	if err != nil {
		return err
	}
	if err := changeTrust(c.Context, file, func(t *trust) error {
		return t.add(name, trustKey{PEM: string(data), NotAfter: c.String("not-after")}, match)
	}); err != nil {
		return err
	}
	p.say("%s now trusts %s (%s) for %s", file, name, pub.KeyID()[:12], strings.Join(match, ", "))
	return nil
}

// trustFileFor is the file that add and rm write, which need not exist.
func trustFileFor(c *cli.Context) (string, error) {
	if file := c.String("trust"); file != "" {
		return file, nil
	}
	return trustPath(c)
}

// changeTrust reads, changes and writes a trust file under a lock, and only
// writes what is a sound policy.
func changeTrust(ctx context.Context, file string, change func(*trust) error) error {
	dir, err := fsx.Create(filepath.Dir(file), 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer dir.Close()
	lock, err := dir.Lock(ctx, "."+filepath.Base(file)+".lock")
	if err != nil {
		return err
	}
	defer lock.Unlock()
	t, err := loadTrust(file)
	if err != nil {
		return err
	}
	if err := change(t); err != nil {
		return err
	}
	if _, err := t.policy(); err != nil {
		return err
	}
	return t.save()
}

// add trusts key under name for every pattern, joining a rule that is there.
func (t *trust) add(name string, key trustKey, match []string) error {
	if old, ok := t.Keys[name]; ok && old.PEM != key.PEM {
		return hinted{fmt.Errorf("%s has another key called %q", t.file, name), "choose a name with --name, or mm trust rm " + name}
	}
	if t.Keys == nil {
		t.Keys = map[string]trustKey{}
	}
	t.Keys[name] = key
	for _, m := range match {
		i := slices.IndexFunc(t.Rules, func(r trustRule) bool { return r.Match == m })
		if i < 0 {
			t.Rules = append(t.Rules, trustRule{Match: m, Keys: []string{name}})
		} else if !slices.Contains(t.Rules[i].Keys, name) {
			t.Rules[i].Keys = append(t.Rules[i].Keys, name)
		}
	}
	return nil
}

func (p *program) trustRemove(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	name := c.Args().First()
	file, err := trustFileFor(c)
	if err != nil {
		return err
	}
	return changeTrust(c.Context, file, func(t *trust) error {
		if _, ok := t.Keys[name]; !ok {
			return fmt.Errorf("%s has no key called %q", file, name)
		}
		delete(t.Keys, name)
		t.Rules = slices.DeleteFunc(t.Rules, func(r trustRule) bool { return len(r.Keys) == 1 && r.Keys[0] == name })
		for i := range t.Rules {
			t.Rules[i].Keys = slices.DeleteFunc(t.Rules[i].Keys, func(k string) bool { return k == name })
		}
		return nil
	})
}

func (p *program) trustList(c *cli.Context) error {
	file, err := trustPath(c)
	if err != nil {
		return err
	}
	t, err := loadTrust(file)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(t)
	}
	policy, err := t.policy()
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
