package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/track"
)

// trackingVariable names the server, as for MLflow's own client.
const trackingVariable = "MLFLOW_TRACKING_URI"

// trackingServer returns the server of a flag or of the environment.
func trackingServer(flag string) (*track.Server, error) {
	address := cmp.Or(flag, os.Getenv(trackingVariable))
	if address == "" {
		return nil, diag.Usagef("no server: set --server or %s", trackingVariable)
	}
	s, err := track.NewServer(address, os.Getenv)
	if err != nil {
		return nil, diag.Usage(err)
	}
	return s, nil
}

func (p *program) trackSync(c *cli.Context) error {
	if c.NArg() == 0 {
		return diag.Usagef("usage: mm track sync DIR…")
	}
	s, err := trackingServer(c.String("server"))
	if err != nil {
		return err
	}
	list := []*track.Result{}
	for _, dir := range c.Args().Slice() {
		r, err := track.Open(dir)
		if err != nil {
			return err
		}
		got, err := track.Sync(c.Context, r, track.Options{Server: s, Experiment: c.String("experiment"), Version: built().Version, User: os.Getenv("USER")})
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		list = append(list, got)
		if !p.JSON {
			p.Line("%s: run %s, %d metrics sent, %d known, %s", dir, got.Run, got.Metrics, got.Before, got.Status)
		}
	}
	return p.PrintOr(list, func() error { return nil })
}

func (p *program) trackExport(c *cli.Context) error {
	if c.NArg() == 0 {
		return diag.Usagef("usage: mm track export DIR…")
	}
	format := c.String("format")
	if track.Exports()[format] == nil {
		return diag.Usagef("--format %q: want openlineage or wandb", format)
	}
	list := []track.Exported{}
	for _, dir := range c.Args().Slice() {
		r, err := track.Open(dir)
		if err != nil {
			return err
		}
		got, err := track.WriteExport(r, format, c.String("out"), built().Version)
		if err != nil {
			return err
		}
		list = append(list, got)
		if !p.JSON {
			p.Line("%s", got.File)
		}
	}
	return p.PrintOr(list, func() error { return nil })
}

// pushedBuild matches a build at a registry by its digest.
const pushedBuild = `^[a-z0-9.-]+(:[0-9]+)?/[a-z0-9._/-]+@sha256:[0-9a-f]{64}$`

func (p *program) trackRegister(c *cli.Context) error {
	if c.NArg() != 2 {
		return diag.Usagef("usage: mm track register NAME HOST/REPOSITORY@sha256:DIGEST")
	}
	name, ref := c.Args().Get(0), c.Args().Get(1)
	if ok, err := regexp.MatchString(pushedBuild, ref); err != nil || !ok {
		return diag.Usagef("reference: got %q, want HOST/REPOSITORY@sha256:DIGEST", ref)
	}
	s, err := trackingServer(c.String("server"))
	if err != nil {
		return err
	}
	got, err := s.Register(c.Context, name, "oci://"+ref, c.String("run"), c.String("alias"))
	if err != nil {
		return err
	}
	return p.PrintOr(got, func() error { return p.Line("%s version %s: %s", got.Name, got.Version, got.Source) })
}
