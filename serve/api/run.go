package api

import (
	"context"
	"errors"
	"net"
	"time"
)

// Run serves at l until ctx ends and loads the models meanwhile. A model that cannot be
// loaded ends it.
func (s *Server) Run(ctx context.Context, l net.Listener, drain time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	loaded := make(chan error, 1)
	go func() {
		err := s.Load(ctx)
		if err != nil {
			stop(err)
		}
		loaded <- err
	}()
	err := s.Serve(ctx, l, drain)
	stop(nil)
	if failed := <-loaded; failed != nil && !errors.Is(failed, context.Canceled) {
		err = errors.Join(failed, err)
	}
	return err
}
