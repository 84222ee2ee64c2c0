package farm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/httpx"
)

// DefaultServer is the address of a server that mm jobs serve starts.
const DefaultServer = "nats://127.0.0.1:4222"

// maxSecret bounds the file of a token, a seed or a certificate, in bytes.
const maxSecret = 64 << 10

// Options for [Open].
type Options struct {
	Servers  string        // URLs, separated by commas; empty: DefaultServer
	Token    string        // file with the token
	Seed     string        // file with the seed of an nkey
	CA       string        // file with certificates that the server's must follow from; empty: those of the system
	Cert     string        // file with the client's certificate
	Key      string        // and its key
	Replicas int           // of new streams; 0: three in a cluster, otherwise one
	Wait     time.Duration // until a job without progress is given to another worker; 0: 30 s. The first client decides
	Patient  bool          // wait for a server as long as the context lives; false: 10 s
	Warn     func(string)  // receives lost and restored connections; may be nil
}

// WithToken returns o with the token in file, which mm jobs serve creates, if o has no
// credentials, its server is that of this machine and the file exists.
func (o Options) WithToken(file string) Options {
	if _, err := os.Stat(file); err == nil && o.Servers == DefaultServer && o.Token == "" && o.Seed == "" && o.Cert == "" {
		o.Token = file
	}
	return o
}

// dial connects to the servers. It waits for the first of them until ctx is done.
func dial(ctx context.Context, opt Options) (*nats.Conn, error) {
	servers, err := addresses(opt.Servers)
	if err != nil {
		return nil, err
	}
	settings, err := credentials(opt)
	if err != nil {
		return nil, err
	}
	settings = append(settings, nats.Name("mm jobs"), nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
		nats.Timeout(2*time.Second), nats.PingInterval(5*time.Second), nats.MaxPingsOutstanding(2), nats.IgnoreAuthErrorAbort())
	if opt.Warn != nil {
		settings = append(settings, nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				opt.Warn("connection lost: " + err.Error())
			}
		}), nats.ReconnectHandler(func(c *nats.Conn) { opt.Warn("connected to " + c.ConnectedUrlRedacted()) }))
	}
	var conn *nats.Conn
	begin := time.Now()
	err = again(ctx, func() (err error) {
		conn, err = nats.Connect(strings.Join(servers, ","), settings...)
		if errors.Is(err, nats.ErrAuthorization) || errors.As(err, new(x509.UnknownAuthorityError)) {
			return final{err}
		}
		if err != nil && !opt.Patient && time.Since(begin) > patience {
			return final{fmt.Errorf("no server at %s: %w", strings.Join(servers, ", "), err)}
		}
		return err
	})
	return conn, err
}

// patience is the time in which a server must answer.
const patience = 10 * time.Second

// addresses parses the URLs of servers. Beyond this machine, only TLS is accepted, since
// neither credentials nor jobs may be readable on the way.
func addresses(list string) ([]string, error) {
	if list == "" {
		list = DefaultServer
	}
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Scheme != "nats" && u.Scheme != "tls":
			return nil, errors.New("invalid address of a server, want nats://HOST:PORT or tls://HOST:PORT")
		case u.User != nil:
			return nil, fmt.Errorf("server %s: credentials in an address are visible to others; want a file with a token or a seed", u.Redacted())
		case u.Scheme == "nats" && !httpx.IsLoopback(u.Host):
			return nil, fmt.Errorf("server %s: beyond this machine, want tls://", one)
		}
		all = append(all, u.String())
	}
	return all, nil
}

// credentials returns the settings that prove who the client is.
func credentials(opt Options) ([]nats.Option, error) {
	var out []nats.Option
	if opt.Token != "" {
		token, err := Secret(opt.Token)
		if err != nil {
			return nil, err
		}
		out = append(out, nats.Token(token))
	}
	if opt.Seed != "" {
		seed, err := Secret(opt.Seed)
		if err != nil {
			return nil, err
		}
		pair, err := nkeys.FromSeed([]byte(seed))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", opt.Seed, err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", opt.Seed, err)
		}
		out = append(out, nats.Nkey(public, pair.Sign))
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if opt.CA != "" {
		pool, err := Authorities(opt.CA)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = pool
	}
	if opt.Cert != "" || opt.Key != "" {
		pair, err := tls.LoadX509KeyPair(opt.Cert, opt.Key)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	if strings.Contains(opt.Servers, "tls://") || opt.CA != "" || opt.Cert != "" {
		out = append(out, nats.Secure(conf))
	}
	return out, nil
}

// Secret reads a token or a seed from a file.
func Secret(path string) (string, error) {
	data, err := fsx.ReadFile(path, maxSecret)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return "", fmt.Errorf("%s: want one line", path)
	}
	return text, nil
}

// Authorities reads certificates.
func Authorities(path string) (*x509.CertPool, error) {
	data, err := fsx.ReadFile(path, maxSecret)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: no certificate in PEM", path)
	}
	return pool, nil
}

// final is an error that another attempt does not change.
type final struct{ error }

// Unwrap returns the error.
func (f final) Unwrap() error { return f.error }

// The pauses between attempts.
const (
	firstPause = 25 * time.Millisecond
	lastPause  = time.Second
)

// again repeats do until it succeeds, fails for good or ctx is done.
func again(ctx context.Context, do func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do()
		var end final
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end):
			return end.error
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// call bounds one request to a server.
const call = 5 * time.Second

// request repeats do, each time with a new context and a limit of time.
func request(ctx context.Context, do func(context.Context) error) error {
	return again(ctx, func() error {
		one, cancel := context.WithTimeout(ctx, call)
		defer cancel()
		err := do(one)
		var api *jetstream.APIError
		if errors.As(err, &api) && api.Code >= 400 && api.Code < 500 && api.Code != 408 {
			return final{err}
		}
		return err
	})
}
