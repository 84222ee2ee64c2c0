package adb_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/lab/device/adb"
	"mm-abi.org/mm/lab/device/phonetest"
	"mm-abi.org/mm/lab/device/protocol"
)

func phone(t *testing.T) *phonetest.Phone {
	t.Helper()
	p, err := phonetest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// double connects to a phone over the double of the server.
func double(t *testing.T, p *phonetest.Phone) *adb.Lane {
	t.Helper()
	s := &phonetest.Server{Phones: []*phonetest.Phone{p}}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	l, err := adb.Client{Addr: s.Addr()}.Lane(t.Context(), p.Serial)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// real connects to a phone over Android's adb, with a server of the test.
func real(t *testing.T, d *phonetest.Daemon) *adb.Lane {
	t.Helper()
	c := phonetest.Real(t)
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	c.Connect(t, d.Addr())
	l, err := adb.Client{Addr: c.Addr}.Lane(t.Context(), d.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The lane works over the double and over Android's adb, with every version of the
// protocol.
func TestLane(t *testing.T) {
	old := []string{"shell_v2", "cmd"}
	for name, tc := range map[string]struct {
		features []string
		version  uint32
		way      func(*testing.T, *phonetest.Phone, uint32) *adb.Lane
	}{
		"double":          {nil, 0, func(t *testing.T, p *phonetest.Phone, _ uint32) *adb.Lane { return double(t, p) }},
		"double, sync v1": {old, 0, func(t *testing.T, p *phonetest.Phone, _ uint32) *adb.Lane { return double(t, p) }},
		"adb": {nil, 0, func(t *testing.T, p *phonetest.Phone, v uint32) *adb.Lane {
			return real(t, &phonetest.Daemon{Phone: p, Version: v})
		}},
		"adb with checksums": {nil, 0x01000000, func(t *testing.T, p *phonetest.Phone, v uint32) *adb.Lane {
			return real(t, &phonetest.Daemon{Phone: p, Version: v})
		}},
		"adb with sync v1": {old, 0x01000000, func(t *testing.T, p *phonetest.Phone, v uint32) *adb.Lane {
			return real(t, &phonetest.Daemon{Phone: p, Version: v})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := phone(t)
			if tc.features != nil {
				p.Features = tc.features
			}
			exercise(t, tc.way(t, p, tc.version), p)
		})
	}
}

func exercise(t *testing.T, l *adb.Lane, p *phonetest.Phone) {
	t.Helper()
	ctx := t.Context()
	out, err := l.Exec(ctx, "uname -m; cat /data/local/tmp/none; echo done")
	if err != nil || out.Code != 0 || string(out.Stdout) != "aarch64\ndone\n" || !strings.Contains(string(out.Stderr), "No such file") {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err = l.Exec(ctx, "cat /none"); err != nil || out.Code != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 1<<20 + 7} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		const name = "/data/local/tmp/a file"
		if err := l.Put(ctx, name, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		info, err := l.Stat(ctx, name)
		if err != nil || !info.Exists || info.Dir || info.Size != int64(size) {
			t.Errorf("%+v, %v", info, err)
		}
		var back bytes.Buffer
		if err := l.Get(ctx, name, &back, int64(size)); err != nil || !bytes.Equal(back.Bytes(), data) {
			t.Errorf("%d bytes read back as %d, %v", size, back.Len(), err)
		}
		if size > 0 {
			if err := l.Get(ctx, name, &bytes.Buffer{}, int64(size)-1); !errors.Is(err, protocol.ErrFile) {
				t.Errorf("%v", err)
			}
		}
		out, err := l.Exec(ctx, protocol.Command("sha256sum", name))
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(data), name); err != nil || string(out.Stdout) != want {
			t.Errorf("%s, want %s, %v", out.Stdout, want, err)
		}
	}
	if info, err := l.Stat(ctx, "/data/local/tmp/none"); err != nil || info.Exists {
		t.Errorf("%+v, %v", info, err)
	}
	if info, err := l.Stat(ctx, "/data/local/tmp"); err != nil || !info.Dir {
		t.Errorf("%+v, %v", info, err)
	}
	if err := l.Get(ctx, "/data/local/tmp/none", &bytes.Buffer{}, 10); !errors.Is(err, protocol.ErrFile) || !strings.Contains(err.Error(), "No such file") {
		t.Errorf("%v", err)
	}
	if err := l.Put(ctx, "/system/x", strings.NewReader("x")); !errors.Is(err, protocol.ErrFile) || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("%v", err)
	}
	p.Break(phonetest.Full)
	if err := l.Put(ctx, "/data/local/tmp/big", bytes.NewReader(make([]byte, 3<<20))); !errors.Is(err, protocol.ErrFile) || !strings.Contains(err.Error(), "No space left") {
		t.Errorf("%v", err)
	}
}

// Android's adb pushes, pulls and lists as with a real phone.
func TestReal(t *testing.T) {
	p := phone(t)
	l := real(t, &phonetest.Daemon{Phone: p})
	list, err := l.Client.Devices(t.Context())
	if err != nil || len(list) != 1 || list[0].State != "device" || list[0].Extra["model"] != "Emulated_Phone" {
		t.Errorf("%+v, %v", list, err)
	}
	_, port, _ := net.SplitHostPort(l.Client.Addr)
	adbIs := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "adb", append([]string{"-P", port, "-s", l.Serial}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("adb %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	dir := t.TempDir()
	file := dir + "/f"
	data := bytes.Repeat([]byte("0123456789"), 300000)
	if err := p.WriteFile("/data/local/tmp/src", data); err != nil {
		t.Fatal(err)
	}
	adbIs("pull", "/data/local/tmp/src", file)
	adbIs("push", file, "/data/local/tmp/dst")
	if got, err := p.ReadFile("/data/local/tmp/dst"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got := adbIs("shell", "getprop"); !strings.Contains(got, "[ro.soc.model]: [SM8750]") {
		t.Error(got)
	}
}

// Each reason why a device cannot be used has an error.
func TestUnusable(t *testing.T) {
	p, q := phone(t), phone(t)
	q.Serial = "OTHER"
	s := &phonetest.Server{Phones: []*phonetest.Phone{p, q}, States: map[string]string{p.Serial: "unauthorized", q.Serial: "offline"}}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := adb.Client{Addr: s.Addr()}
	for serial, want := range map[string]error{p.Serial: protocol.ErrUnauthorized, q.Serial: protocol.ErrOffline, "none": protocol.ErrNone} {
		if _, err := c.Lane(t.Context(), serial); !errors.Is(err, want) {
			t.Errorf("%s: %v", serial, err)
		}
	}
	s.States = nil
	p.Features = []string{"cmd"}
	if _, err := c.Lane(t.Context(), p.Serial); !errors.Is(err, protocol.ErrOld) {
		t.Errorf("%v", err)
	}
	if v, err := c.Version(t.Context()); err != nil || v != 41 {
		t.Errorf("%d, %v", v, err)
	}
	s.Close()
	if _, err := c.Devices(t.Context()); !errors.Is(err, protocol.ErrServer) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Devices(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A phone that has not authorized the host is reported as unauthorized.
func TestUnauthorized(t *testing.T) {
	server := phonetest.Real(t)
	d := &phonetest.Daemon{Phone: phone(t), Strange: true}
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	server.Try(t, d.Addr())
	if _, err := (adb.Client{Addr: server.Addr}).Lane(t.Context(), d.Addr()); !errors.Is(err, protocol.ErrUnauthorized) && !errors.Is(err, protocol.ErrOffline) {
		t.Errorf("%v", err)
	}
}

// A canceled command returns at once and stops on the device.
func TestCanceled(t *testing.T) {
	p := phone(t)
	p.Break(phonetest.Hang)
	l := double(t, p)
	if err := p.WriteFile("/data/local/tmp/r", []byte(phonetest.Program)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Exec(ctx, "chmod 755 /data/local/tmp/r && /data/local/tmp/r run --context c --inputs i --outputs o --nonce 1 --json")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestParseDevices(t *testing.T) {
	got, err := adb.ParseDevices("* daemon started successfully\nList of devices attached\nR5CT1\tdevice product:e3q model:SM_S928B device:e3q transport_id:4\nemulator-5554 offline\n" +
		"HT1 no permissions (user x is not in the plugdev group); see [http://developer.android.com/tools/device.html] usb:1-4 transport_id:9\n192.168.1.4:5555 unauthorized transport_id:2\n\n")
	want := []adb.Device{
		{"192.168.1.4:5555", "unauthorized", map[string]string{"transport_id": "2"}},
		{"HT1", "no permissions", map[string]string{"transport_id": "9", "usb": "1-4", "[http": "//developer.android.com/tools/device.html]"}},
		{"R5CT1", "device", map[string]string{"product": "e3q", "model": "SM_S928B", "device": "e3q", "transport_id": "4"}},
		{"emulator-5554", "offline", map[string]string{}},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%s%v", d, err)
	}
	if again, err := adb.ParseDevices(want[2].Line()); err != nil || !cmp.Equal(again, want[2:3]) {
		t.Errorf("%+v, %v", again, err)
	}
	for _, bad := range []string{"alone\n", strings.Repeat("a device\n", 2000)} {
		if got, err := adb.ParseDevices(bad); err == nil {
			t.Errorf("%d devices", len(got))
		}
	}
}

func FuzzParseDevices(f *testing.F) {
	f.Add("R5CT1\tdevice product:e3q model:SM_S928B\n")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := adb.ParseDevices(s)
		for _, d := range list {
			if err != nil || d.Serial == "" || d.State == "" {
				t.Fatalf("%+v, %v", d, err)
			}
		}
	})
}
