package server

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry"
)

// ServeOptions configures [Serve].
type ServeOptions struct {
	Options
	Cert, Key string // files of a TLS certificate; if empty, plain HTTP
}

// maxHtpasswd is the size limit of the htpasswd file, in bytes.
const maxHtpasswd = 16 << 20

// ReadHtpasswd reads the file of [Options].Htpasswd.
func ReadHtpasswd(file string) ([]byte, error) { return fsx.ReadFile(file, maxHtpasswd) }

// Listening reports whether an address is loopback. Otherwise any host is accepted, unless
// Hosts names some. On loopback it is not: a web page may point its own name to this machine.
func (o *ServeOptions) Listening(a net.Addr) (loopback bool) {
	host, _, err := net.SplitHostPort(a.String())
	loopback = err == nil && net.ParseIP(host).IsLoopback()
	o.AnyHost = !loopback && len(o.Hosts) == 0
	return loopback
}

// Serve serves a store on l until ctx ends. Requests in flight then have five
// seconds to finish; an upload that does not finish can be resumed.
func Serve(ctx context.Context, store *registry.Store, l net.Listener, opt ServeOptions) error {
	handler, err := New(store, opt.Options)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: log.New(os.Stderr, "", log.LstdFlags)}
	tended := make(chan struct{})
	tend, stop := context.WithCancel(ctx)
	go func() {
		defer close(tended)
		_ = handler.Tend(tend) // ends with its context
	}()
	defer func() { stop(); <-tended }()
	return Until(ctx, s, 5*time.Second, func() error {
		if opt.Cert != "" {
			return s.ServeTLS(l, opt.Cert, opt.Key)
		}
		return s.Serve(l)
	})
}

// Until runs serve, which serves s, until ctx ends. It then shuts s down, and
// closes it if requests are still in flight after grace.
func Until(ctx context.Context, s *http.Server, grace time.Duration, serve func() error) error {
	failed := make(chan error, 1)
	go func() { failed <- serve() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	wait, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	err := s.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close()
	}
	if serve := <-failed; !errors.Is(serve, http.ErrServerClosed) {
		err = errors.Join(err, serve)
	}
	return err
}
