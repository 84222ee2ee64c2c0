package device_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/device/protocol"
)

// silent is a lane that stops answering after some steps.
type silent struct {
	device.Lane
	after *int
}

func (s silent) wait(ctx context.Context) error {
	if *s.after--; *s.after >= 0 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s silent) Exec(ctx context.Context, command string) (protocol.CommandOutput, error) {
	if err := s.wait(ctx); err != nil {
		return protocol.CommandOutput{}, err
	}
	return s.Lane.Exec(ctx, command)
}

func (s silent) Stat(ctx context.Context, path string) (protocol.Info, error) {
	if err := s.wait(ctx); err != nil {
		return protocol.Info{}, err
	}
	return s.Lane.Stat(ctx, path)
}

func (s silent) Put(ctx context.Context, path string, r io.Reader) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Lane.Put(ctx, path, r)
}

// Each step has a time limit.
func TestSilent(t *testing.T) {
	t.Parallel() // it waits for the device
	w := newWorld(t, double, 4096)
	f, err := device.NewFile("context.bin", w.kit.Context)
	if err != nil {
		t.Fatal(err)
	}
	connected := w.device.Lane
	w.device.Patience = 200 * time.Millisecond
	for name, do := range map[string]func(context.Context) error{
		"probe": func(ctx context.Context) error { _, err := w.device.Probe(ctx); return err },
		"plan":  func(ctx context.Context) error { _, err := w.job.Plan(ctx, w.device); return err },
		"push":  func(ctx context.Context) error { _, err := w.device.Push(ctx, f); return err },
		"run":   func(ctx context.Context) error { _, err := w.device.Run(ctx, w.job); return err },
	} {
		for after := range 4 { // of a push: stat, mkdir, stat of the part, put
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			w.device.Lane = silent{connected, &after}
			if err := do(ctx); first(err) != diag.DeviceLost {
				t.Errorf("%s, silent after %d steps: %v", name, after, err)
			}
			cancel()
		}
	}
}

// A server that accepts connections but does not answer is a fault.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := device.Choose(ctx, adb.Client{Addr: l.Addr().String(), Patience: 50 * time.Millisecond}, ""); first(err) != diag.DeviceServer {
		t.Errorf("%v", err)
	}
}
