package api

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// The limits of connections.
const (
	idleTime  = 2 * time.Minute
	maxHeader = 64 << 10 // bytes
	closeTime = time.Second
)

// Serve serves on l until ctx ends, then drains: waiting and new requests are refused with
// 503, running answers have the time drain to finish, then they end with an error.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	hs := &http.Server{Handler: s, ReadHeaderTimeout: s.opt.HeaderTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true, ErrorLog: log.New(io.Discard, "", 0)}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.Drain(drain)
	wait, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer stop()
	err := hs.Shutdown(wait)
	if errors.Is(err, context.DeadlineExceeded) {
		err = hs.Close()
	}
	if end := <-failed; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// Drain refuses new answers and ends the running ones after a time. It returns when none
// runs.
func (s *Server) Drain(after time.Duration) {
	s.mu.Lock()
	if !s.drained {
		s.drained = true
		close(s.draining)
	}
	s.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		s.active.Wait()
		close(idle)
	}()
	t := time.NewTimer(after)
	defer t.Stop()
	select {
	case <-idle:
		return
	case <-t.C:
	}
	s.mu.Lock()
	for _, cancel := range s.running {
		cancel(errShutdown)
	}
	for t := range s.tasks {
		t.cancel(errShutdown)
	}
	s.mu.Unlock()
	<-idle
}
