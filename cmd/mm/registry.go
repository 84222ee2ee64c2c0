package main

import (
	"fmt"
	"net"
	"os"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/workspace"
)

func servingOptions(c *cli.Context) (opt server.ServeOptions, err error) {
	opt = server.ServeOptions{
		Options: server.Options{ReadOnly: c.Bool("read-only"), User: c.String("user"), Hosts: c.StringSlice("host")},
		Cert:    c.String("tls-cert"), Key: c.String("tls-key"),
	}
	for flag, into := range map[string]*int64{"max-blob": &opt.MaxBlob, "max-store": &opt.MaxStore} {
		if *into, err = fsx.ParseSize(c.String(flag)); err != nil {
			return opt, diag.Usagef("--%s: %w", flag, err)
		}
	}
	if opt.User != "" {
		if opt.Password = os.Getenv("MM_REGISTRY_PASSWORD"); opt.Password == "" {
			return opt, diag.Usagef("--user requires a password in MM_REGISTRY_PASSWORD")
		}
	}
	if (opt.Cert == "") != (opt.Key == "") {
		return opt, diag.Usagef("--tls-cert and --tls-key require each other")
	}
	if file := c.String("htpasswd"); file != "" {
		opt.Htpasswd, err = server.ReadHtpasswd(file)
	}
	return opt, err
}

func (p *program) registryServe(c *cli.Context, w *workspace.Workspace) error {
	opt, err := servingOptions(c)
	if err != nil {
		return err
	}
	store, err := w.Served(c.Context, c.String("layout"), opt.ReadOnly)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.String("addr"))
	if err != nil {
		return err
	}
	loopback := opt.Listening(listener.Addr())
	scheme := "http"
	if opt.Cert != "" {
		scheme = "https"
	}
	fmt.Fprintf(p.Stdout, "%s://%s\n", scheme, listener.Addr())
	if !loopback && opt.User == "" && opt.Htpasswd == nil && !opt.ReadOnly {
		p.Note("mm: warning: every client that can reach %s can push and delete", listener.Addr())
	}
	return server.Serve(c.Context, store, listener, opt)
}
