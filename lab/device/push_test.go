package device_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/protocol"
)

// Concurrent pushes of a file succeed, from one computer and from two.
func TestPushTogether(t *testing.T) {
	for name, locks := range map[string][2]string{"one computer": {"a", "a"}, "two": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, double, 2<<20)
			f, err := device.NewFile("context.bin", w.kit.Context)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			var done [2]device.Pushed
			var errs [2]error
			var pushes sync.WaitGroup
			for i := range 2 {
				d := *w.device
				d.Locks = dir + "/" + locks[i]
				pushes.Go(func() { done[i], errs[i] = d.Push(t.Context(), f) })
			}
			pushes.Wait()
			if errs[0] != nil || errs[1] != nil {
				t.Fatalf("%v; %v", errs[0], errs[1])
			}
			if sent := done[0].Sent + done[1].Sent; locks[0] == locks[1] && sent != f.Bytes {
				t.Errorf("sent %d bytes of %d: %+v", sent, f.Bytes, done)
			}
			if left := w.phone.List("/data/local/tmp/mm/part"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if again, err := w.device.Push(t.Context(), f); err != nil || !again.There {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
}

// adding is a lane on which a part grows after it was hashed.
type adding struct{ device.Lane }

func (a adding) Exec(ctx context.Context, command string) (protocol.CommandOutput, error) {
	if rest, ok := strings.CutPrefix(command, "mv -f "); ok {
		part, _, _ := strings.Cut(rest, " ")
		if _, err := a.Lane.Exec(ctx, "echo more >> "+part); err != nil {
			return protocol.CommandOutput{}, err
		}
	}
	return a.Lane.Exec(ctx, command)
}

// Data appended between hashing and renaming is detected.
func TestPushAdded(t *testing.T) {
	w := newWorld(t, double, 4096)
	f, err := device.NewFile("context.bin", w.kit.Context)
	if err != nil {
		t.Fatal(err)
	}
	w.device.Lane = adding{w.device.Lane}
	if _, err := w.device.Push(t.Context(), f); first(err) != diag.PushDiffers {
		t.Errorf("%v", err)
	}
	if left := w.phone.List("/data/local/tmp/mm/sha256"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
