// Package adb speaks to an adb server, the program that Android's tools start on
// port 5037 and that holds the connections to devices. It needs no adb program;
// it never starts, stops or configures the server, and never asks for root.
//
// A request is four hexadecimal digits of its length and its text; the server
// answers OKAY, or FAIL with a message. After host:transport the connection is
// the device's, and asks for one service of it: shell,v2 (shell.go) runs a
// command and gives its output and its exit code, sync (sync.go) reads and
// writes files. The protocol is described in the files SERVICES.TXT, SYNC.TXT and
// OVERVIEW.TXT of Android's sources.
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

	"mm-abi.org/mm/lab/device/lane"
)

// DefaultAddr is where the server listens unless ANDROID_ADB_SERVER_PORT says
// otherwise.
const DefaultAddr = "127.0.0.1:5037"

// maxText bounds what the server says in one message.
const maxText = 0xffff

// Client is a way to a server. The zero value leads to [Addr].
type Client struct {
	Addr string
	// Patience is how long the server may take for what it knows itself; 0 is 30 s.
	Patience time.Duration
}

// patience is Client.Patience where it is not said.
const patience = 30 * time.Second

// Addr is the server's address by the environment.
func Addr() string {
	if port := os.Getenv("ANDROID_ADB_SERVER_PORT"); port != "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return DefaultAddr
}

// Address is where the client looks for the server.
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
	// Extra is what else the line says: product, model, device, transport_id.
	Extra map[string]string `json:"extra"`
}

// Line is the device as adb devices -l prints it.
func (d Device) Line() string {
	line := fmt.Sprintf("%-22s %s", d.Serial, d.State)
	for _, k := range slices.Sorted(maps.Keys(d.Extra)) {
		line += " " + k + ":" + d.Extra[k]
	}
	return line
}

// Version is the version of the server's protocol.
func (c Client) Version(ctx context.Context) (int, error) {
	text, err := c.query(ctx, "host:version")
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 16, 16)
	if err != nil {
		return 0, fmt.Errorf("adb server: version %q", text)
	}
	return int(v), nil
}

// Devices lists the devices that the server knows, sorted by serial number.
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

// maxDevices bounds the list.
const maxDevices = 1024

// ParseDevices reads what host:devices-l gives, or adb devices -l prints: lines
// of a serial number, a state of one word or more, and key:value pairs.
func ParseDevices(text string) ([]Device, error) {
	var list []Device
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "*") || line == "List of devices attached" {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 2 {
			return nil, fmt.Errorf("the line %q is no device", line)
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

// conn is one connection to the server.
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

// dial connects. The connection breaks off when ctx ends.
func (c Client) dial(ctx context.Context) (*conn, error) {
	var d net.Dialer
	n, err := d.DialContext(ctx, "tcp", c.Address())
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w at %s: %w", lane.ErrServer, c.Address(), err)
	}
	return &conn{Conn: n, in: bufio.NewReader(n), stop: context.AfterFunc(ctx, func() { n.Close() })}, nil
}

// query asks for a service of the server that answers with one text.
func (c Client) query(ctx context.Context, service string) (string, error) {
	limit := cmp.Or(c.Patience, patience)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	text, err := c.answer(limited, service)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return "", fmt.Errorf("%w at %s: nothing came within %s", lane.ErrServer, c.Address(), limit)
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

// request asks for a service and reads whether it is given.
func (c *conn) request(service string) error {
	if len(service) > maxText {
		return fmt.Errorf("adb: a request of %d bytes, at most %d are sent", len(service), maxText)
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
	return fmt.Errorf("adb: the server answers %q, neither OKAY nor FAIL", word)
}

// text reads four hexadecimal digits and as many bytes.
func (c *conn) text() (string, error) {
	var digits [4]byte
	if _, err := io.ReadFull(c.in, digits[:]); err != nil {
		return "", err
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 16)
	if err != nil {
		return "", fmt.Errorf("adb: the length %q", digits)
	}
	buf := make([]byte, n)
	if _, err := io.ReadFull(c.in, buf); err != nil {
		return "", err
	}
	return string(buf), nil
}

// refusal makes an error of a FAIL message. The server tells its reasons in
// words alone.
func refusal(msg string) error {
	line, _, _ := strings.Cut(msg, "\n")
	for _, r := range []struct {
		words string
		err   error
	}{
		{"unauthorized", lane.ErrUnauthorized}, {"authorizing", lane.ErrUnauthorized}, {"offline", lane.ErrOffline},
		{"not found", lane.ErrNone}, {"no devices", lane.ErrNone}, {"closed", lane.ErrLost},
	} {
		if strings.Contains(line, r.words) {
			return fmt.Errorf("%w: %s", r.err, line)
		}
	}
	return fmt.Errorf("adb: %s", line)
}

// broken makes of an end in the middle what it means: the device is gone, or
// the caller gave up.
func broken(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *net.OpError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) {
		return fmt.Errorf("%w: %w", lane.ErrLost, err)
	}
	return err
}
