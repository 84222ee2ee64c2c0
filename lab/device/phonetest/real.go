package phonetest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Adb is a server of Android's adb that belongs to a test.
type Adb struct {
	Addr string
	port string
	home string
}

// Real starts a server on a free port, or skips the test if adb is not installed. It does
// not touch the user's server.
func Real(t testing.TB) *Adb {
	t.Helper()
	if _, err := exec.LookPath("adb"); err != nil {
		t.Skip("skipped: the program adb is not on this machine (Debian's package adb)")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	a := &Adb{Addr: addr, port: port, home: t.TempDir()}
	cmd := exec.Command("adb", "-P", port, "nodaemon", "server")
	cmd.Env = a.env()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for range 200 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return a
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal("the adb server does not start")
	return nil
}

func (a *Adb) env() []string {
	return append(os.Environ(), "HOME="+a.home, "ANDROID_SDK_HOME="+a.home, "ADB_MDNS_AUTO_CONNECT=0", "ADB_MDNS=0")
}

// Try connects the server to a daemon and returns adb's output.
func (a *Adb) Try(t testing.TB, addr string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "adb", "-P", a.port, "connect", addr)
	cmd.Env = a.env()
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// Connect connects the server to a daemon or fails the test.
func (a *Adb) Connect(t testing.TB, addr string) {
	t.Helper()
	for range 3 {
		if out := a.Try(t, addr); strings.Contains(out, "connected to") && !strings.Contains(out, "failed") {
			return
		}
	}
	t.Fatalf("adb connect: %s", a.Try(t, addr))
}

// Again reconnects to a daemon after the connection broke.
func (a *Adb) Again(t testing.TB, addr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "adb", "-P", a.port, "disconnect", addr)
	cmd.Env = a.env()
	cmd.Run()
	a.Connect(t, addr)
}
