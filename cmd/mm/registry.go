package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/workspace"
)

func (p *program) registryCommand() *cli.Command {
	return &cli.Command{
		Name: "registry", Usage: "serve the store as an OCI registry",
		Subcommands: []*cli.Command{{
			Name: "serve", Usage: "serve until interrupted",
			Description: "Artifacts of the store are there at once, and what is pushed is in the store. Without a\n" +
				"login everybody may push: keep it on loopback, or give --htpasswd or --user.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "addr", Value: "127.0.0.1:5000", Usage: "listen on `HOST:PORT`"},
				&cli.StringFlag{Name: "layout", Usage: "serve the OCI layout at `DIR` instead of the store"},
				&cli.BoolFlag{Name: "read-only", Usage: "refuse every change"},
				&cli.StringFlag{Name: "htpasswd", Usage: "logins from `FILE` (bcrypt)"},
				&cli.StringFlag{Name: "user", Usage: "one login; its password comes from MM_REGISTRY_PASSWORD"},
				&cli.StringSliceFlag{Name: "host", Usage: "`NAME` by which clients ask for it (on loopback: beside localhost and addresses)"},
				&cli.StringFlag{Name: "max-blob", Usage: "largest blob, such as 20G (default: what the disk holds)"},
				&cli.StringFlag{Name: "max-store", Usage: "`SIZE` of all blobs together, such as 500G (default: what the disk holds)"},
				&cli.StringFlag{Name: "tls-cert", Usage: "certificate `FILE`; HTTPS instead of HTTP"},
				&cli.StringFlag{Name: "tls-key", Usage: "private key `FILE` of the certificate"},
			},
			Action: func(c *cli.Context) error {
				if err := wantArgs(c, 0, 0); err != nil {
					return err
				}
				return p.registryServe(c.Context, servingOptions(c), c.String("layout"))
			},
		}},
	}
}

// serving is what mm registry serve was asked.
type serving struct {
	addr, cert, key, htpasswd string
	maxBlob, maxStore         string
	server.Options
}

func servingOptions(c *cli.Context) serving {
	return serving{
		addr: c.String("addr"), cert: c.String("tls-cert"), key: c.String("tls-key"), htpasswd: c.String("htpasswd"),
		maxBlob: c.String("max-blob"), maxStore: c.String("max-store"),
		Options: server.Options{ReadOnly: c.Bool("read-only"), User: c.String("user"), Hosts: c.StringSlice("host")},
	}
}

// maxHtpasswd bounds the file of logins, in bytes.
const maxHtpasswd = 16 << 20

// check completes the options, or says what does not fit together.
func (s *serving) check() error {
	var err error
	if s.MaxBlob, err = byteCount(s.maxBlob); err != nil {
		return usageError{fmt.Errorf("--max-blob: %w", err)}
	}
	if s.MaxStore, err = byteCount(s.maxStore); err != nil {
		return usageError{fmt.Errorf("--max-store: %w", err)}
	}
	if s.User != "" {
		if s.Password = os.Getenv("MM_REGISTRY_PASSWORD"); s.Password == "" {
			return usageError{errors.New("--user needs its password in MM_REGISTRY_PASSWORD")}
		}
	}
	if s.htpasswd != "" {
		data, err := fsx.ReadFile(s.htpasswd, maxHtpasswd)
		if err != nil {
			return err
		}
		s.Htpasswd = data
	}
	if (s.cert == "") != (s.key == "") {
		return usageError{errors.New("--tls-cert and --tls-key go together")}
	}
	return nil
}

func (p *program) registryServe(ctx context.Context, opt serving, layout string) error {
	if err := opt.check(); err != nil {
		return err
	}
	w, err := p.open(workspace.Options{})
	if err != nil {
		return err
	}
	defer w.Close()
	store, err := w.Served(layout, opt.ReadOnly)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", opt.addr)
	if err != nil {
		return err
	}
	// A web page can give its name this machine's loopback address, or its
	// network's; where all the world asks by some name, that is for --host.
	host, _, err := net.SplitHostPort(listener.Addr().String())
	loopback := err == nil && net.ParseIP(host).IsLoopback()
	opt.AnyHost = !loopback && len(opt.Hosts) == 0
	scheme := "http"
	if opt.cert != "" {
		scheme = "https"
	}
	fmt.Fprintf(p.stdout, "%s://%s\n", scheme, listener.Addr())
	if !loopback && opt.User == "" && opt.Htpasswd == nil && !opt.ReadOnly {
		p.say("mm: warning: whoever reaches %s may push and delete", listener.Addr())
	}
	return serveStore(ctx, store, listener, opt.Options, opt.cert, opt.key)
}

// byteCount reads 500M, 20G, 1T (powers of 1024) or plain bytes; "" is 0.
func byteCount(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number, shift := text, 0
	if i := strings.IndexByte("KMGT", text[len(text)-1]&^0x20); i >= 0 {
		number, shift = text[:len(text)-1], 10*(i+1)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is no size (500M, 20G, 1T, or bytes)", text)
	}
	return n << shift, nil
}

// serveStore serves until the context ends; then requests in flight have five
// seconds to finish.
func serveStore(ctx context.Context, store *registry.Store, l net.Listener, opt server.Options, cert, key string) error {
	handler, err := server.New(store, opt)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: log.New(os.Stderr, "", log.LstdFlags)}
	tended := make(chan struct{})
	tend, stopTending := context.WithCancel(ctx)
	go func() {
		defer close(tended)
		_ = handler.Tend(tend) // ends with its context
	}()
	defer func() { stopTending(); <-tended }()
	failed := make(chan error, 1)
	go func() {
		if cert != "" {
			failed <- s.ServeTLS(l, cert, key)
			return
		}
		failed <- s.Serve(l)
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	err = s.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close() // who was not done in time starts again where it was
	}
	if serve := <-failed; !errors.Is(serve, http.ErrServerClosed) {
		err = errors.Join(err, serve)
	}
	return err
}
