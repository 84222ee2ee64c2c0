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

// serving holds the options of mm registry serve.
type serving struct {
	addr, htpasswd    string
	maxBlob, maxStore string
	server.ServeOptions
}

func servingOptions(c *cli.Context) serving {
	return serving{
		addr: c.String("addr"), htpasswd: c.String("htpasswd"),
		maxBlob: c.String("max-blob"), maxStore: c.String("max-store"),
		ServeOptions: server.ServeOptions{
			Options: server.Options{ReadOnly: c.Bool("read-only"), User: c.String("user"), Hosts: c.StringSlice("host")},
			Cert:    c.String("tls-cert"), Key: c.String("tls-key"),
		},
	}
}

// maxHtpasswd is the size limit of the htpasswd file, in bytes.
const maxHtpasswd = 16 << 20

// check completes and checks the options.
func (s *serving) check() error {
	var err error
	if s.MaxBlob, err = fsx.ParseSize(s.maxBlob); err != nil {
		return diag.Usagef("--max-blob: %w", err)
	}
	if s.MaxStore, err = fsx.ParseSize(s.maxStore); err != nil {
		return diag.Usagef("--max-store: %w", err)
	}
	if s.User != "" {
		if s.Password = os.Getenv("MM_REGISTRY_PASSWORD"); s.Password == "" {
			return diag.Usagef("--user requires a password in MM_REGISTRY_PASSWORD")
		}
	}
	if s.htpasswd != "" {
		data, err := fsx.ReadFile(s.htpasswd, maxHtpasswd)
		if err != nil {
			return err
		}
		s.Htpasswd = data
	}
	if (s.Cert == "") != (s.Key == "") {
		return diag.Usagef("--tls-cert and --tls-key require each other")
	}
	return nil
}

func (p *program) registryServe(c *cli.Context) error {
	ctx, opt := c.Context, servingOptions(c)
	if err := opt.check(); err != nil {
		return err
	}
	w, err := p.open(workspace.Options{})
	if err != nil {
		return err
	}
	defer w.Close()
	store, err := w.Served(ctx, c.String("layout"), opt.ReadOnly)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", opt.addr)
	if err != nil {
		return err
	}
	// DNS rebinding: a web page can resolve its name to an address of this machine
	// or network. Beyond loopback, names must be allowed by --host.
	host, _, err := net.SplitHostPort(listener.Addr().String())
	loopback := err == nil && net.ParseIP(host).IsLoopback()
	opt.AnyHost = !loopback && len(opt.Hosts) == 0
	scheme := "http"
	if opt.Cert != "" {
		scheme = "https"
	}
	fmt.Fprintf(p.Stdout, "%s://%s\n", scheme, listener.Addr())
	if !loopback && opt.User == "" && opt.Htpasswd == nil && !opt.ReadOnly {
		p.Say("mm: warning: every client that can reach %s can push and delete", listener.Addr())
	}
	return server.Serve(ctx, store, listener, opt.ServeOptions)
}
