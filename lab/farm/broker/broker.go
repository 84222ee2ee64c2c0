// Package broker runs a server of NATS with JetStream in this process: alone, or as one of
// a cluster. Only cmd/mm-queue and tests link it, since it adds ten megabytes.
package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"mm-abi.org/mm/internal/httpx"
	"mm-abi.org/mm/lab/farm"
)

// Options describe a server.
type Options struct {
	Name    string   // of the server; required in a cluster
	Dir     string   // folder of its state
	Listen  string   // HOST:PORT; port 0: a free one
	Token   string   // that clients present; "" with an address of this machine only
	Users   []string // public nkeys of clients
	Cert    string   // file with the certificate; required beyond this machine
	Key     string   // and its key
	CA      string   // file with certificates; if set, clients need one that follows from them
	Cluster Cluster
}

// Cluster describes the servers that share the state.
type Cluster struct {
	Name   string // empty: no cluster
	Listen string // HOST:PORT for the other servers
	Routes string // addresses of the others, HOST:PORT, separated by commas
	Secret string // that they share
}

// Broker is a running server.
type Broker struct{ s *server.Server }

// startTime is the time in which a server must be ready for connections.
const startTime = 20 * time.Second

// Start starts a server and waits until it accepts connections.
func Start(o Options) (*Broker, error) {
	conf, err := o.options()
	if err != nil {
		return nil, err
	}
	s, err := server.NewServer(conf)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(startTime) {
		s.Shutdown()
		return nil, fmt.Errorf("server on %s: not ready after %v", o.Listen, startTime)
	}
	return &Broker{s}, nil
}

// URL returns the address for clients.
func (b *Broker) URL() string { return b.s.ClientURL() }

// Close ends the server. Its state stays.
func (b *Broker) Close() error {
	b.s.Shutdown()
	b.s.WaitForShutdown()
	return nil
}

// options checks o and returns the options of the library.
func (o Options) options() (*server.Options, error) {
	host, port, err := address(o.Listen)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Dir == "":
		return nil, errors.New("server without a folder")
	case !httpx.IsLoopback(host) && (o.Cert == "" || o.Token == "" && len(o.Users) == 0 && o.CA == ""):
		return nil, fmt.Errorf("server on %s: beyond this machine, want a certificate, and a token, nkeys or certificates of clients", o.Listen)
	case o.Token != "" && len(o.Users) > 0:
		return nil, errors.New("server: want a token or nkeys, not both")
	}
	// A stored job survives a loss of power of one server; in a cluster, of a minority.
	s := &server.Options{ServerName: o.Name, Host: host, Port: port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: o.Dir, DisableJetStreamBanner: true,
		JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 1 << 50, SyncAlways: o.Cluster.Name == "", Authorization: o.Token, MaxPayload: 1 << 20}
	for _, key := range o.Users {
		s.Nkeys = append(s.Nkeys, &server.NkeyUser{Nkey: key})
	}
	if port == 0 {
		s.Port = server.RANDOM_PORT
	}
	if o.Cert != "" {
		if s.TLSConfig, err = o.tls(); err != nil {
			return nil, err
		}
		s.TLS, s.TLSTimeout, s.TLSVerify = true, 5, o.CA != ""
	}
	return s, o.Cluster.apply(s)
}

// tls returns the configuration of TLS for clients and other servers.
func (o Options) tls() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		if c.ClientCAs, err = farm.Authorities(o.CA); err != nil {
			return nil, err
		}
		c.RootCAs, c.ClientAuth = c.ClientCAs, tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// apply sets the options of a cluster.
func (c Cluster) apply(s *server.Options) error {
	if c.Name == "" {
		return nil
	}
	host, port, err := address(c.Listen)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if s.ServerName == "" || c.Secret == "" || !httpx.IsLoopback(host) && (s.TLSConfig == nil || s.TLSConfig.RootCAs == nil) {
		return errors.New("cluster: want a name of the server and a secret, and beyond this machine a certificate with its authorities")
	}
	s.Cluster = server.ClusterOpts{Name: c.Name, Host: host, Port: port, Username: "mm", Password: c.Secret, NoAdvertise: httpx.IsLoopback(host)}
	if s.TLSConfig != nil && s.TLSConfig.RootCAs != nil {
		s.Cluster.TLSConfig, s.Cluster.TLSTimeout = s.TLSConfig, 5
	}
	for one := range strings.SplitSeq(c.Routes, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if _, _, err := address(one); err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
		s.Routes = append(s.Routes, &url.URL{Scheme: "nats", Host: one, User: url.UserPassword("mm", c.Secret)})
	}
	return nil
}

// address splits HOST:PORT.
func address(text string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("invalid address %q, want HOST:PORT", text)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("invalid address %q, want HOST:PORT", text)
	}
	return host, port, nil
}
