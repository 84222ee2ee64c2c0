// Package ssh connects to a device by SSH: a phone with Termux's openssh, or a board.
// Commands run in its shell, files are transferred by SFTP, which comes with openssh.
//
// The host key must be in the known hosts file; nothing is sent to an unknown host.
// Passwords are not supported.
package ssh

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device/protocol"
)

// Port is the port of Termux's sshd.
const Port = "8022"

// Options describes how to connect to a host.
type Options struct {
	// Host is USER@HOST or USER@HOST:PORT; the default port is [Port].
	Host string
	// Key is the file of a private key without passphrase.
	Key string
	// KnownHosts is a known_hosts file of OpenSSH.
	KnownHosts string
	// Alive is the interval of keep-alive requests and the time limit of their answers; if
	// zero, 15 s.
	Alive time.Duration
}

// Lane is an open connection.
type Lane struct {
	Host   string
	home   string
	client *ssh.Client
	files  *sftp.Client
	closed chan struct{}
	leave  func() // closes closed, once
	asking sync.WaitGroup
}

// maxKey is the maximum size of a key file in bytes.
const maxKey = 64 << 10

// patience is the time limit of connecting, farewell that of ending a session, and alive
// the default of Options.Alive.
const (
	patience = 30 * time.Second
	farewell = 2 * time.Second
	alive    = 15 * time.Second
)

// Dial connects.
func Dial(ctx context.Context, opt Options) (*Lane, error) {
	user, addr, ok := strings.Cut(opt.Host, "@")
	if !ok || user == "" || addr == "" {
		return nil, fmt.Errorf("bad host %q, want USER@HOST[:PORT]", opt.Host)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), Port)
	}
	text, err := fsx.ReadFile(opt.Key, maxKey)
	if err != nil {
		return nil, fmt.Errorf("reading the SSH key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("reading the SSH key %s: %w", opt.Key, err)
	}
	hosts, err := knownhosts.New(opt.KnownHosts)
	if err != nil {
		return nil, fmt.Errorf("reading known hosts: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	n, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", protocol.ErrNone, err)
	}
	stop := context.AfterFunc(ctx, func() { n.Close() })
	defer stop()
	conn, channels, requests, err := ssh.NewClientConn(n, addr, &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: hosts, HostKeyAlgorithms: algorithms(hosts, addr, n.RemoteAddr())})
	if err != nil {
		n.Close()
		return nil, refusal(opt.Host, err)
	}
	l := &Lane{Host: opt.Host, client: ssh.NewClient(conn, channels, requests), closed: make(chan struct{})}
	l.leave = sync.OnceFunc(func() { close(l.closed) })
	if l.files, err = sftp.NewClient(l.client); err == nil {
		l.home, err = l.files.Getwd()
	}
	switch {
	case ctx.Err() != nil:
		l.client.Close()
		return nil, fmt.Errorf("%w: %s: %w", protocol.ErrLost, opt.Host, ctx.Err())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("%w: %s has no SFTP: %w", protocol.ErrOld, opt.Host, err), l.client.Close())
	}
	l.asking.Go(func() { l.ask(cmp.Or(opt.Alive, alive)) })
	return l, nil
}

// ask sends keep-alive requests. If one is not answered in time, it closes the connection,
// which ends everything that waits for it.
func (l *Lane) ask(every time.Duration) {
	for {
		select {
		case <-l.closed:
			return
		case <-time.After(every):
		}
		late := time.AfterFunc(every, func() { l.client.Close() })
		_, _, err := l.client.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			return
		}
	}
}

// algorithms returns the algorithms of the known keys of a host. With others the host would
// offer a key that is not in the file and seem unknown.
func algorithms(hosts ssh.HostKeyCallback, addr string, remote net.Addr) []string {
	var unknown *knownhosts.KeyError
	if err := hosts(addr, remote, nobody{}); !errors.As(err, &unknown) {
		return nil
	}
	var out []string
	for _, k := range unknown.Want {
		if t := k.Key.Type(); t == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			out = append(out, t)
		}
	}
	return out
}

// nobody is a key that is in no file.
type nobody struct{}

// Type implements ssh.PublicKey.
func (nobody) Type() string { return "none" }

// Marshal implements ssh.PublicKey.
func (nobody) Marshal() []byte { return []byte("none") }

// Verify implements ssh.PublicKey.
func (nobody) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// refusal maps the error of a handshake.
func refusal(host string, err error) error {
	var key *knownhosts.KeyError
	switch {
	case errors.As(err, &key) && len(key.Want) > 0:
		return fmt.Errorf("%w: %s: host key differs from the known one: %w", protocol.ErrUntrusted, host, err)
	case errors.As(err, &key):
		return fmt.Errorf("%w: %s: unknown host key: %w", protocol.ErrUntrusted, host, err)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("%w: %s: key not accepted: %w", protocol.ErrUnauthorized, host, err)
	}
	return fmt.Errorf("%w: %s: %w", protocol.ErrLost, host, err)
}

// Close implements io.Closer.
func (l *Lane) Close() error {
	l.leave()
	late := time.AfterFunc(farewell, func() { l.client.Close() })
	defer late.Stop()
	err := l.files.Close()
	l.client.Close() // the first error is more useful
	l.asking.Wait()
	return err
}

// Home returns the initial folder of SFTP.
func (l *Lane) Home() string { return l.home }

// until closes the connection when ctx ends, which ends everything that waits for the host.
// The caller must call stop afterwards.
func (l *Lane) until(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { l.client.Close() })
}

// session opens a session.
func (l *Lane) session(ctx context.Context) (*ssh.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer l.until(ctx)()
	s, err := l.client.NewSession()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", l.Host, protocol.ErrLost, err)
	}
	return s, nil
}

// Exec runs a command in the host's shell. The end of ctx kills the command; if the host
// does not report its end within 2 s, the connection is closed.
func (l *Lane) Exec(ctx context.Context, command string) (protocol.CommandOutput, error) {
	s, err := l.session(ctx)
	if err != nil {
		return protocol.CommandOutput{}, err
	}
	defer s.Close()
	var stdout protocol.Head
	var stderr protocol.Tail
	s.Stdout, s.Stderr = &stdout, &stderr
	ended := make(chan struct{})
	var killing sync.WaitGroup
	killing.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		late := time.AfterFunc(farewell, func() { l.client.Close() })
		defer late.Stop()
		s.Signal(ssh.SIGKILL)
		s.Close()
		<-ended
	})
	err = s.Run(command)
	close(ended)
	killing.Wait()
	out := protocol.CommandOutput{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	var exit *ssh.ExitError
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case errors.As(err, &exit) && exit.Signal() != "":
		out.Code = -1
		return out, nil
	case errors.As(err, &exit):
		out.Code = exit.ExitStatus()
		return out, nil
	}
	return out, l.broken(ctx, err)
}

// broken maps the end of a connection to the error of ctx or to ErrLost.
func (l *Lane) broken(ctx context.Context, err error) error {
	var missing *ssh.ExitMissingError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF), errors.As(err, &missing), errors.Is(err, sftp.ErrSSHFxConnectionLost), errors.Is(err, net.ErrClosed):
		return fmt.Errorf("%s: %w: %w", l.Host, protocol.ErrLost, err)
	}
	return fmt.Errorf("%s: %w", l.Host, err)
}

// file returns an error about a file.
func (l *Lane) file(ctx context.Context, name string, err error) error {
	if err = l.broken(ctx, err); err == nil || errors.Is(err, protocol.ErrLost) || ctx.Err() != nil {
		return err
	}
	message := err.Error()
	if errors.Is(err, fs.ErrPermission) {
		message += ": Permission denied" // as a shell prints it
	}
	return fmt.Errorf("%w: %s: %s", protocol.ErrFile, name, message)
}

// Stat returns information about a file.
func (l *Lane) Stat(ctx context.Context, name string) (protocol.Info, error) {
	if err := ctx.Err(); err != nil {
		return protocol.Info{}, err
	}
	defer l.until(ctx)()
	info, err := l.files.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return protocol.Info{}, ctx.Err()
	}
	if err != nil {
		return protocol.Info{}, l.file(ctx, name, err)
	}
	return protocol.Info{Exists: true, Dir: info.IsDir(), Size: info.Size(), Time: info.ModTime().Unix()}, nil
}

// Put creates or replaces a file with the bytes of r.
func (l *Lane) Put(ctx context.Context, name string, r io.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer l.until(ctx)()
	f, err := l.files.Create(name)
	if err != nil {
		return l.file(ctx, name, err)
	}
	_, err = f.ReadFrom(r)
	return l.file(ctx, name, errors.Join(err, f.Close()))
}

// Get reads a file of at most limit bytes.
func (l *Lane) Get(ctx context.Context, name string, w io.Writer, limit int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer l.until(ctx)()
	f, err := l.files.Open(name)
	if err != nil {
		return l.file(ctx, name, err)
	}
	var over bytes.Buffer
	_, err = io.Copy(w, io.LimitReader(f, limit))
	if err == nil {
		_, err = io.Copy(&over, io.LimitReader(f, 1))
	}
	if err = l.file(ctx, name, errors.Join(err, f.Close())); err == nil && over.Len() > 0 {
		err = fmt.Errorf("%w: %s: larger than the expected %d bytes", protocol.ErrFile, name, limit)
	}
	return err
}
