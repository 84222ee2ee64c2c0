package worker

import (
	"testing"

	"mm-abi.org/mm/runtimes/worker/wire"
)

// A child that declines shared memory does not change the field that the goroutine of
// its end reads: without that, -race reports a data race.
func TestAcceptDeclined(t *testing.T) {
	s := newShared()
	c := &child{shared: s}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.shared.close()
	}()
	if _, err := c.accept(wire.Hello{Version: wire.Version}); err != nil || c.sharing || c.shared != s {
		t.Errorf("sharing %v, shared memory kept %v, %v", c.sharing, c.shared == s, err)
	}
	<-ended
}
