package ssh_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/sftp"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/phonetest"
	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/lab/device/ssh"
	"mm-abi.org/mm/onnx/htp"
)

// host is an SSH server in this process that runs commands in a real shell on local files,
// so that mm's commands are tested against the shell and tools of a real system.
type host struct {
	addr string
	opt  ssh.Options
	mu   sync.Mutex
	open []net.Conn
	// silent is set if the host no longer reads.
	silent atomic.Bool
	gone   chan struct{}
}

// mute is a connection of a host that may become silent.
type mute struct {
	net.Conn
	h *host
}

func (m mute) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if m.h.silent.Load() {
		<-m.h.gone
	}
	return n, err
}

func start(t *testing.T) *host {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("skipped: needs sh")
	}
	dir := t.TempDir()
	_, hostKey, _ := ed25519.GenerateKey(nil)
	hostSigner, err := xssh.NewSignerFromKey(hostKey)
	if err != nil {
		t.Fatal(err)
	}
	public, private, _ := ed25519.GenerateKey(nil)
	allowed, err := xssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{addr: l.Addr().String(), opt: ssh.Options{Host: "u0_a1@" + l.Addr().String(), Key: filepath.Join(dir, "key"), KnownHosts: filepath.Join(dir, "known")}, gone: make(chan struct{})}
	for path, data := range map[string][]byte{h.opt.Key: pem.EncodeToMemory(block), h.opt.KnownHosts: []byte(knownhosts.Line([]string{knownhosts.Normalize(h.addr)}, hostSigner.PublicKey()) + "\n")} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := &xssh.ServerConfig{PublicKeyCallback: func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
		if bytes.Equal(key.Marshal(), allowed.Marshal()) {
			return nil, nil
		}
		return nil, errors.New("unknown key")
	}}
	config.AddHostKey(hostSigner)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.open = append(h.open, c)
			h.mu.Unlock()
			done.Go(func() { serve(mute{c, h}, config) })
		}
	})
	t.Cleanup(func() { close(h.gone); l.Close(); h.cut(); done.Wait() })
	return h
}

// cut closes all connections.
func (h *host) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.open {
		c.Close()
	}
}

func serve(c net.Conn, config *xssh.ServerConfig) {
	conn, channels, requests, err := xssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	defer conn.Close()
	go xssh.DiscardRequests(requests)
	var done sync.WaitGroup
	for n := range channels {
		ch, requests, err := n.Accept()
		if err != nil {
			break
		}
		done.Go(func() { session(ch, requests) })
	}
	done.Wait()
}

func session(ch xssh.Channel, requests <-chan *xssh.Request) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var done sync.WaitGroup
	defer done.Wait()
	for r := range requests {
		text := ""
		if len(r.Payload) >= 4 && int(binary.BigEndian.Uint32(r.Payload)) <= len(r.Payload)-4 {
			text = string(r.Payload[4:][:binary.BigEndian.Uint32(r.Payload)])
		}
		switch r.Type {
		case "exec":
			r.Reply(true, nil)
			done.Go(func() {
				cmd := exec.CommandContext(ctx, "sh", "-c", text)
				cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
				cmd.Run()
				ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, uint32(cmd.ProcessState.ExitCode())))
				ch.Close()
			})
		case "subsystem":
			r.Reply(text == "sftp", nil)
			done.Go(func() {
				if s, err := sftp.NewServer(ch); err == nil {
					s.Serve()
				}
				ch.Close()
			})
		case "signal":
			cancel()
		default:
			r.Reply(false, nil)
		}
	}
	cancel()
}

func dial(t *testing.T, h *host) *ssh.Lane {
	t.Helper()
	l, err := ssh.Dial(t.Context(), h.opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLane(t *testing.T) {
	h := start(t)
	l := dial(t, h)
	out, err := l.Exec(t.Context(), "echo out; echo err >&2; exit 7")
	if err != nil || out.Code != 7 || string(out.Stdout) != "out\n" || string(out.Stderr) != "err\n" {
		t.Errorf("%+v, %v", out, err)
	}
	name := filepath.Join(t.TempDir(), "a file")
	data := bytes.Repeat([]byte("0123456789"), 50000)
	if err := l.Put(t.Context(), name, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	info, err := l.Stat(t.Context(), name)
	if err != nil || info.Size != int64(len(data)) || info.Time == 0 {
		t.Errorf("%+v, %v", info, err)
	}
	var back bytes.Buffer
	if err := l.Get(t.Context(), name, &back, info.Size); err != nil || !bytes.Equal(back.Bytes(), data) {
		t.Errorf("%d bytes, %v", back.Len(), err)
	}
	if err := l.Get(t.Context(), name, io.Discard, info.Size-1); !errors.Is(err, protocol.ErrFile) {
		t.Errorf("%v", err)
	}
	if info, err := l.Stat(t.Context(), name+"x"); err != nil || info.Exists {
		t.Errorf("%+v, %v", info, err)
	}
	if err := l.Put(t.Context(), name+"/x", strings.NewReader("")); !errors.Is(err, protocol.ErrFile) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Exec(ctx, "exec sleep 600"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	h.cut()
	if _, err := l.Exec(t.Context(), "true"); !errors.Is(err, protocol.ErrLost) {
		t.Errorf("%v", err)
	}
	if _, err := l.Stat(t.Context(), name); !errors.Is(err, protocol.ErrLost) {
		t.Errorf("%v", err)
	}
}

// A silent host blocks nothing: waiting ends with the context, a time limit, or a
// keep-alive request without an answer.
func TestSilent(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(name, make([]byte, 8<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	for does, do := range map[string]func(context.Context, *ssh.Lane) error{
		"exec": func(ctx context.Context, l *ssh.Lane) error { _, err := l.Exec(ctx, "true"); return err },
		"stat": func(ctx context.Context, l *ssh.Lane) error { _, err := l.Stat(ctx, name); return err },
		"put": func(ctx context.Context, l *ssh.Lane) error {
			return l.Put(ctx, name+"x", bytes.NewReader(make([]byte, 8<<20)))
		},
		"get": func(ctx context.Context, l *ssh.Lane) error { return l.Get(ctx, name, io.Discard, 8<<20) },
		"push": func(ctx context.Context, l *ssh.Lane) error {
			f, err := device.NewFile("f", name)
			if err != nil {
				return err
			}
			_, err = (&device.Device{Lane: l, Folder: filepath.Dir(name) + "/mm", Locks: filepath.Dir(name) + "/locks"}).Push(ctx, f)
			return err
		},
	} {
		for why, alive := range map[string]time.Duration{"the end": time.Hour, "no answer": 50 * time.Millisecond} {
			t.Run(does+" "+why, func(t *testing.T) {
				h := start(t)
				h.opt.Alive = alive
				l := dial(t, h)
				h.silent.Store(true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- do(ctx, l) }()
				if why == "the end" {
					time.AfterFunc(100*time.Millisecond, cancel)
				}
				select {
				case err := <-ended:
					if lost := errors.Is(err, protocol.ErrLost) || diagnosed(err) == diag.DeviceLost; why == "the end" && !errors.Is(err, context.Canceled) || why == "no answer" && !lost {
						t.Errorf("%v", err)
					}
				case <-time.After(30 * time.Second):
					h.cut()
					t.Fatalf("still waiting: %v", <-ended)
				}
			})
		}
	}
}

// The same for a host that becomes silent while it runs a command.
func TestSilentRun(t *testing.T) {
	h := start(t)
	h.opt.Alive = time.Hour
	l := dial(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := filepath.Join(t.TempDir(), "begun")
	ended := make(chan error, 1)
	go func() {
		_, err := l.Exec(ctx, protocol.Command("touch", begun)+" && exec sleep 600")
		ended <- err
	}()
	for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
		time.Sleep(5 * time.Millisecond)
	}
	h.silent.Store(true)
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(30 * time.Second):
		h.cut()
		t.Fatalf("still waiting: %v", <-ended)
	}
}

func diagnosed(err error) diag.Code {
	if l, _ := diag.From(err); len(l) > 0 {
		return l[0].Code
	}
	return ""
}

// A key file of MaxKey bytes is read, a longer one is not.
func TestMaxKey(t *testing.T) {
	h := start(t)
	key, err := os.ReadFile(h.opt.Key)
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{ssh.MaxKey: true, ssh.MaxKey + 1: false} {
		if err := os.WriteFile(h.opt.Key, append(bytes.Repeat([]byte("\n"), n-len(key)), key...), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := ssh.Dial(t.Context(), h.opt)
		if (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
		if l != nil {
			l.Close()
		}
	}
}

// Unknown keys are refused on both sides.
func TestTrust(t *testing.T) {
	h, other := start(t), start(t)
	opt := h.opt
	opt.KnownHosts = other.opt.KnownHosts
	if _, err := ssh.Dial(t.Context(), opt); !errors.Is(err, protocol.ErrUntrusted) || !strings.Contains(err.Error(), "unknown host key") {
		t.Errorf("%v", err)
	}
	_, err := ssh.Dial(t.Context(), opt)
	if l, _ := diag.From(device.Fault(opt.Host, err)); len(l) != 1 || l[0].Code != diag.DeviceUntrusted {
		t.Errorf("%v", l)
	}
	text, err := os.ReadFile(other.opt.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), knownhosts.Normalize(other.addr), knownhosts.Normalize(h.addr), 1)
	if err := os.WriteFile(opt.KnownHosts, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ssh.Dial(t.Context(), opt); !errors.Is(err, protocol.ErrUntrusted) || !strings.Contains(err.Error(), "differs from the known one") {
		t.Errorf("%v", err)
	}
	opt = h.opt
	opt.Key = other.opt.Key
	if _, err := ssh.Dial(t.Context(), opt); !errors.Is(err, protocol.ErrUnauthorized) {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "host", "@host", "u@"} {
		if _, err := ssh.Dial(t.Context(), ssh.Options{Host: bad}); err == nil {
			t.Errorf("%q", bad)
		}
	}
}

// Push and probe work with a real shell and real tools, and a push resumes.
func TestPush(t *testing.T) {
	h := start(t)
	base := t.TempDir()
	d := &device.Device{Lane: dial(t, h), Folder: filepath.Join(base, "mm's folder"), Chips: htp.KnownChips(), Segment: 32 << 10, Locks: t.TempDir(), Source: evidence.Source{Lane: "ssh", Serial: h.opt.Host}}
	kit, err := phonetest.NewKit(t.TempDir(), 100<<10)
	if err != nil {
		t.Fatal(err)
	}
	f, err := device.NewFile("context.bin", kit.Context)
	if err != nil {
		t.Fatal(err)
	}
	hex := strings.TrimPrefix(f.Digest, "sha256:")
	data, err := os.ReadFile(kit.Context)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(d.Folder, "part"), 0o755); err != nil {
		t.Fatal(err)
	}
	host := strings.Repeat("0123", 4)
	if err := os.WriteFile(filepath.Join(d.Locks, "host"), []byte(host), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Folder, "part", hex+"-"+host), data[:70001], 0o644); err != nil {
		t.Fatal(err)
	}
	done, err := d.Push(t.Context(), f)
	if err != nil || done.Resumed != 70001 || done.Sent != f.Bytes-70001 {
		t.Fatalf("%+v, %v", done, err)
	}
	if got, err := os.ReadFile(filepath.Join(d.Folder, "sha256", hex)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	p, err := d.Probe(t.Context())
	if err != nil || p.Device.Machine == "" || p.Free <= 0 || p.Memory <= 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if s := p.Raw; !strings.Contains(s.Memory, "MemTotal:") || !strings.Contains(s.Disk, "%") || s.Battery != "" {
		t.Errorf("%+v", s)
	}
	if err := d.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.Folder); err == nil {
		t.Error("the folder still exists")
	}
	d.Folder = filepath.Join(base, "precious")
	kept := filepath.Join(d.Folder, "runs", "sub")
	if err := os.MkdirAll(kept, 0o755); err != nil {
		t.Fatal(err)
	}
	l, _ := diag.From(d.Remove(t.Context()))
	if _, err := os.Stat(kept); err != nil || len(l) != 1 || l[0].Code != diag.DeviceFolder {
		t.Errorf("foreign folder: %v, %v", l, err)
	}
	if _, err = d.Push(t.Context(), f); err == nil {
		err = d.Remove(t.Context())
	}
	if left, _ := os.ReadDir(d.Folder); err != nil || len(left) != 1 || left[0].Name() != "runs" {
		t.Errorf("%v, %v", left, err)
	}
	d.Folder = "/proc/none"
	_, err = d.Push(t.Context(), f)
	if l, _ := diag.From(err); len(l) == 0 {
		t.Errorf("%v", err)
	}
}

// A complete run over SSH with a shell script as the runner uses links, folders and
// environment of a real shell.
func TestRun(t *testing.T) {
	h := start(t)
	kit, err := phonetest.NewKit(t.TempDir(), 4096)
	if err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
[ "$LD_LIBRARY_PATH" = "$PWD/lib" ] && [ -s lib/libQnnHtp.so ] && [ -s context.bin ] || exit 9
nonce=; while [ $# -gt 0 ]; do [ "$1" = --nonce ] && nonce=$2; shift; done
for s in 0000 0001; do mkdir out/$s && head -c 128 in/$s/0.raw > out/$s/0.raw; done
echo '{"schema":"mm.device.run/1","nonce":"'$nonce'","goarch":"arm64","version":"1","build":"v2.47.0.260601114230","platform":{"soc_model":69,"arch":79},"graph":"main","times":{"load_us":1,"infer_us":[1,1]},"outputs":[{"sample":0,"index":0,"name":"y","bytes":128},{"sample":1,"index":0,"name":"y","bytes":128}]}'
`
	if err := os.WriteFile(kit.Runner, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &device.Device{Lane: phoneLike{dial(t, h)}, Folder: filepath.Join(t.TempDir(), "mm"), Locks: t.TempDir(), Chips: htp.KnownChips(), Source: evidence.Source{Lane: "ssh", Address: h.addr, Serial: "u0_a1", Tool: "mm test"}}
	out, err := d.Run(t.Context(), device.Job{Context: kit.Context, Runner: kit.Runner, Libs: kit.Libs, Count: 2, Nonce: "0123456789abcdef", Time: "2026-01-02T03:04:05Z", Accept: []string{"memory"}})
	if err != nil {
		t.Fatal(err)
	}
	if out.Promotes || len(out.Record.Outputs) != 2 || out.Record.Source.Lane != "ssh" || out.Record.FP16Grid.Off == 0 {
		t.Errorf("%+v", out.Record)
	}
}

// phoneLike answers getprop, which this machine lacks.
type phoneLike struct{ *ssh.Lane }

func (p phoneLike) Exec(ctx context.Context, command string) (protocol.CommandOutput, error) {
	if command == "getprop" {
		return protocol.CommandOutput{Stdout: []byte("[ro.soc.model]: [SM8750]\n[ro.product.cpu.abi]: [arm64-v8a]\n")}, nil
	}
	return p.Lane.Exec(ctx, command)
}
