// Package adb is a client of the adb server, which Android's tools start on port 5037 and
// which holds the connections to devices. It needs no adb program, never starts, stops or
// configures the server, and never asks for root.
//
// A request is its length in four hex digits and its text; the server answers OKAY, or FAIL
// with a message. After host:transport the connection belongs to the device and requests
// one of its services: shell,v2 (shell.go) runs a command and returns its output and exit
// code, sync (sync.go) reads and writes files. The protocol is described in SERVICES.TXT,
// SYNC.TXT and OVERVIEW.TXT of Android's sources.
package adb

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/lab/device/protocol"
)

// DefaultAddr is the server's address unless ANDROID_ADB_SERVER_PORT is set.
const DefaultAddr = "127.0.0.1:5037"

// maxText is the maximum length of a request or message of the server.
const maxText = 0xffff

// Client connects to a server. The zero value connects to [Addr].
type Client struct {
	Addr string
	// Patience is the time limit of requests that the server answers itself; if zero, 30 s.
	Patience time.Duration
}

// patience is the default of Client.Patience.
const patience = 30 * time.Second

// Addr returns the server's address from the environment.
func Addr() string {
	if port := os.Getenv("ANDROID_ADB_SERVER_PORT"); port != "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return DefaultAddr
}

// Address returns the address that the client connects to.
func (c Client) Address() string {
	if c.Addr == "" {
		return Addr()
	}
	return c.Addr
}

// Device is a line of the server's list.
type Device struct {
	Serial string `json:"serial"`
	State  string `json:"state"` // device, unauthorized, offline, recovery, …
	// Extra holds the other fields of the line: product, model, device, transport_id.
	Extra map[string]string `json:"extra"`
}

// Line formats the device as adb devices -l does.
func (d Device) Line() string {
	line := fmt.Sprintf("%-22s %s", d.Serial, d.State)
	for _, k := range slices.Sorted(maps.Keys(d.Extra)) {
		line += " " + k + ":" + d.Extra[k]
	}
	return line
}

// Version returns the version of the server's protocol.
func (c Client) Version(ctx context.Context) (int, error) {
	text, err := c.query(ctx, "host:version")
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 16, 16)
	if err != nil {
		return 0, fmt.Errorf("adb server: bad version %q", text)
	}
	return int(v), nil
}

// Devices returns the devices of the server, sorted by serial number.
func (c Client) Devices(ctx context.Context) ([]Device, error) {
	text, err := c.query(ctx, "host:devices-l")
	if err != nil {
		return nil, err
	}
	list, err := ParseDevices(text)
	if err != nil {
		return nil, fmt.Errorf("adb server: %w", err)
	}
	return list, nil
}

// maxDevices is the maximum length of the list.
const maxDevices = 1024

// ParseDevices parses the output of host:devices-l or adb devices -l: lines of a serial
// number, a state of one or more words, and key:value pairs.
func ParseDevices(text string) ([]Device, error) {
	var list []Device
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "*") || line == "List of devices attached" {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 2 {
			return nil, fmt.Errorf("bad device line %q", line)
		}
		d := Device{Serial: words[0], Extra: map[string]string{}}
		var state []string
		for _, w := range words[1:] {
			if k, v, ok := strings.Cut(w, ":"); ok && len(state) > 0 {
				d.Extra[k] = v
			} else if len(d.Extra) == 0 {
				state = append(state, w)
			}
		}
		d.State = state[0]
		if d.State == "no" { // no permissions (user is not in the group…; see […])
			d.State = "no permissions"
		}
		if len(list) == maxDevices {
			return nil, fmt.Errorf("more than %d devices", maxDevices)
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Device) int { return strings.Compare(a.Serial, b.Serial) })
	return list, nil
}

// conn is a connection to the server.
type conn struct {
	net.Conn
	in   *bufio.Reader
	stop func() bool
}

// Close implements io.Closer.
func (c *conn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// dial connects. The end of ctx closes the connection.
func (c Client) dial(ctx context.Context) (*conn, error) {
	var d net.Dialer
	n, err := d.DialContext(ctx, "tcp", c.Address())
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w at %s: %w", protocol.ErrServer, c.Address(), err)
	}
	return &conn{Conn: n, in: bufio.NewReader(n), stop: context.AfterFunc(ctx, func() { n.Close() })}, nil
}

// query requests a service that answers with one text.
func (c Client) query(ctx context.Context, service string) (string, error) {
	limit := cmp.Or(c.Patience, patience)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	text, err := c.answer(limited, service)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return "", fmt.Errorf("%w at %s: no answer within %s", protocol.ErrServer, c.Address(), limit)
	}
	return text, err
}

func (c Client) answer(ctx context.Context, service string) (string, error) {
	n, err := c.dial(ctx)
	if err != nil {
		return "", err
	}
	defer n.Close()
	if err := n.request(service); err != nil {
		return "", broken(ctx, err)
	}
	text, err := n.text()
	return text, broken(ctx, err)
}

// request requests a service and reads the status.
func (c *conn) request(service string) error {
	if len(service) > maxText {
		return fmt.Errorf("adb: request too long: got %d bytes, limit %d", len(service), maxText)
	}
	if _, err := fmt.Fprintf(c, "%04x%s", len(service), service); err != nil {
		return err
	}
	return c.status()
}

func (c *conn) status() error {
	var word [4]byte
	if _, err := io.ReadFull(c.in, word[:]); err != nil {
		return err
	}
	switch string(word[:]) {
	case "OKAY":
		return nil
	case "FAIL":
		msg, err := c.text()
		if err != nil {
			return err
		}
		return refusal(msg)
	}
	return fmt.Errorf("adb: bad status %q, want OKAY or FAIL", word)
}

// text reads a text after its length in four hex digits.
func (c *conn) text() (string, error) {
	var digits [4]byte
	if _, err := io.ReadFull(c.in, digits[:]); err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 16)
	if err != nil {
		return "", fmt.Errorf("adb: bad length %q", digits)
	}
	buf := make([]byte, n)
	if _, err := io.ReadFull(c.in, buf); err != nil {
		return "", err
	}
	return string(buf), nil
}

// refusal maps a FAIL message to an error. The server has no error codes.
func refusal(msg string) error {
	line, _, _ := strings.Cut(msg, "\n")
	for _, r := range []struct {
		words string
		err   error
	}{
		{"unauthorized", protocol.ErrUnauthorized}, {"authorizing", protocol.ErrUnauthorized}, {"offline", protocol.ErrOffline},
		{"not found", protocol.ErrNone}, {"no devices", protocol.ErrNone}, {"closed", protocol.ErrLost},
	} {
		if strings.Contains(line, r.words) {
			return fmt.Errorf("%w: %s", r.err, line)
		}
	}
	return fmt.Errorf("adb: %s", line)
}

// broken maps the end of a connection to the error of ctx or to ErrLost.
func broken(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *net.OpError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) {
		return fmt.Errorf("%w: %w", protocol.ErrLost, err)
	}
	return err
}
